"""Texts on which tokenizers are known to disagree."""

from __future__ import annotations

__all__ = ["CORPUS"]

CORPUS: tuple[str, ...] = (
    # plain
    "Hello", "Hello, world!", "The quick brown fox jumps over the lazy dog.", "hello HELLO HeLLo", "a", " ", "\n",
    # contractions and quotes
    "I'm sure they've said it's what we'd do; you'll see he isn't.", "I'M SURE THEY'VE", "it’s “quoted” – and—dashed…",
    "'s't're've'm'll'd 'S'T", "rock 'n' roll, '90s",
    # white space
    " leading", "trailing ", "two  spaces", "   three   spaces   ", "\ttab\tbetween", "line\nline\n\nline\r\nline\r",
    " \n \n\n  x", "a\u00a0b\u2003c\u200bd\u3000e", "\n\n\n\n", "        deep\n    indent", "x" + " " * 33 + "y",
    "end of line   \nnext", "\u2028separator\u2029paragraph\u0085next",
    # numbers
    "0", "7", "42", "007", "1234", "12345678901234567890", "3.14159", "1,234,567.89", "1e-10", "0xDEADBEEF",
    "2026-12-01T04:05:06Z", "+49 (0)30 1234-5678", "٣٤٥", "३४५", "１２３", "½ ² Ⅷ", "10km 3rd 5G v2.0.1",
    # code and markup
    "def f(x: int) -> int:\n    return x ** 2  # square\n", "for(int i=0;i<10;i++){a[i]+=i;}", "{\"a\": [1, 2.5, null], \"b\": \"\\n\"}",
    "<div class=\"x\">&nbsp;&amp;</div>", "SELECT * FROM t WHERE a != 'b' -- c", "snake_case camelCase kebab-case PascalCase",
    "https://example.com/a?b=c&d=%20#e", "C:\\path\\to\\file.txt", "#!/bin/sh\nset -eu\n", "```python\nprint('x')\n```",
    "$$\\int_0^1 x^2\\,dx = \\frac{1}{3}$$", "=====-----_____*****", "!?!?...;;;:::", "a@b.c | d ~ e ^ f ` g",
    # scripts
    "Grüße aus Köln, Straße, Ärger", "Où est l'élève ? À côté.", "¿Qué pasó, señor?", "Привет, как дела?", "Γειά σου Κόσμε",
    "שלום עולם", "مرحبا بالعالم", "مَرْحَبًا", "नमस्ते दुनिया", "สวัสดีชาวโลก", "你好，世界！", "繁體中文測試", "こんにちは世界、カタカナ", "안녕하세요 세계",
    "Xin chào thế giới", "ગુજરાતી தமிழ் తెలుగు", "ქართული ენა Հայերեն", "ᚠᚢᚦᚨᚱᚲ 𐍈 𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "mixed 中文 and English и русский עברית",
    # emoji
    "🙂", "👍🏽", "👨‍👩‍👧‍👦 family", "🏳️‍🌈🇩🇪🇨🇳", "1️⃣ keycap", "❤️ vs ❤", "😀😀😀😀",
    # combining marks and normal forms
    "e\u0301 against é", "A\u030a against Å against \u212b", "n\u0303 ñ", "\u1112\u1161\u11ab against 한", "ﬁ ligature ﬀ", "ｆｕｌｌｗｉｄｔｈ",
    "Z\u0351\u036b\u0343a\u0315l\u0321g\u0362o", "I\u0307 ı İ i",
    # direction, controls, odd characters
    "\u202eright to left\u202c", "\u200fmark\u200e", "zero\u200dwidth\u200cjoin\ufeffbom", "bell\x07 escape\x1b[0m del\x7f",
    "soft\u00adhyphen", "private \ue000 use", "replacement \ufffd", "astral 𝒳 \U0001f9ff",
    # what a tokenizer may take for a special token
    "<s>", "</s>", "<unk>", "<pad>", "[INST] x [/INST]", "<|endoftext|>", "<|im_start|>user\nhi<|im_end|>\n", "<|eot_id|>",
    "<bos><eos>", "a<|im_end|>b", " <|im_end|> ", "<|im_end|", "<start_of_turn>", "<think>hm</think>", "[MASK]", "<0x0A>",
    "\u2581underline\u2581", "Ġbyte Ċ level Â",
    # long words
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft", "a" * 200, "ab" * 100, "é" * 60,
    "无" * 60, "supercalifragilisticexpialidocious", "AAAAAAAAaaaaaaaaAAAAAAAA", "x1y2z3" * 20,
)  # fmt: skip
"""Each text stands for one way in which tokenizers are known to differ: contractions, white space runs, digit
grouping, scripts, emoji sequences, normal forms, control characters, special tokens in text, long words."""
