"""How SGLang and llama-server read their command lines."""

from __future__ import annotations

from .commandline import flags_of, read


def test_llama_server_takes_a_flag_and_its_value_as_two_words() -> None:
    parsed = read("llama.cpp", "-m", "x.gguf", "--ctx-size=8192", "-np", "4")
    assert flags_of(parsed) == {"model": "x.gguf", "parallel": 4}
    (note,) = parsed.notes
    assert note.kind == "bad-value" and "two words" in note.message


def test_llama_server_reads_underscores_as_dashes() -> None:
    assert flags_of(read("llama.cpp", "--ctx_size", "8192")) == {"ctx-size": 8192}


def test_llama_server_has_no_abbreviations() -> None:
    (note,) = read("llama.cpp", "--ctx-siz", "8192", version="b10605").notes
    assert (note.kind, note.suggestion) == ("unknown-flag", "--ctx-size")


def test_llama_server_takes_the_next_word_whatever_it_looks_like() -> None:
    assert flags_of(read("llama.cpp", "--alias", "--metrics")) == {"alias": "--metrics"}
    assert flags_of(read("llama.cpp", "-c", "-1")) == {"ctx-size": -1}


def test_llama_server_drops_what_follows_the_digits_as_stoi_does() -> None:
    assert flags_of(read("llama.cpp", "-c", "8k")) == {"ctx-size": 8}


def test_llama_server_switches_have_two_names() -> None:
    assert flags_of(read("llama.cpp", "-no-kvu")) == {"kv-unified": False}
    assert flags_of(read("llama.cpp", "--context-shift")) == {"context-shift": True}


def test_llama_server_adds_up_kinds_of_speculation() -> None:
    parsed = read("llama.cpp", "--spec-type", "ngram-mod", "--spec-type", "draft-simple")
    assert flags_of(parsed)["spec-type"] == "ngram-mod,draft-simple"
    assert parsed.notes == ()


def test_a_preset_may_set_what_was_set_before_it() -> None:
    parsed = read("llama.cpp", "-c", "4096", "--gpt-oss-20b-default", "-np", "2")
    assert "ctx-size" not in flags_of(parsed)
    assert flags_of(parsed)["parallel"] == 2
    assert parsed.hidden


def test_a_retired_llama_flag_says_what_to_use() -> None:
    (note,) = read("llama.cpp", "--draft-max", "4", version="b10605").notes
    assert note.kind == "removed-flag" and "--spec-draft-n-max" in (note.suggestion or "")


def test_sglang_takes_underscores_as_they_are() -> None:
    (note,) = read("sglang", "M", "--mem_fraction_static", "0.8", version="0.5.23").notes
    assert (note.kind, note.suggestion) == ("unknown-flag", "--mem-fraction-static")


def test_sglang_accepts_beginnings_and_aliases() -> None:
    parsed = read("sglang", "--model", "M", "--tensor-parallel-size", "2", "--mem-frac", "0.8")
    assert flags_of(parsed) == {"model-path": "M", "tp-size": 2, "mem-fraction-static": 0.8}


def test_sglang_takes_only_its_first_word_as_the_model() -> None:
    assert flags_of(read("sglang", "M", "--tp", "2"))["model-path"] == "M"
    parsed = read("sglang", "--tp", "2", "M")
    assert "model-path" not in parsed.given and [note.kind for note in parsed.notes] == ["other"]


def test_sglang_has_suffixes_of_its_own() -> None:
    assert flags_of(read("sglang", "M", "--context-length", "8Ki"))["context-length"] == 8192
    assert flags_of(read("sglang", "M", "--context-length", "8k"))["context-length"] == 8000
    assert [note.kind for note in read("sglang", "M", "--context-length", "8K").notes] == ["bad-value"]


def test_sglang_reads_its_config_file_below_the_command_line() -> None:
    config = {"tp-size": 4, "enable-metrics": True, "mem_fraction_static": 0.7}
    parsed = read("sglang", "M", "--config", "c.yaml", "--tp", "2", config=lambda path: config)
    assert parsed.given["enable-metrics"].value is True
    assert parsed.given["tp-size"].value == 2
    assert [note.suggestion for note in parsed.notes] == ["--mem-fraction-static"]


def test_an_engine_without_a_table_hides_everything() -> None:
    parsed = read("lmdeploy", "--model-id", "M")
    assert parsed.given == {} and parsed.hidden


def test_flash_attention_without_a_value_is_read_as_earlier_versions_did() -> None:
    assert flags_of(read("llama.cpp", "-fa", "-ngl", "99")) == {"flash-attn": "on", "gpu-layers": "99"}
    assert flags_of(read("llama.cpp", "-ngl", "99", "-fa")) == {"flash-attn": "on", "gpu-layers": "99"}
    assert flags_of(read("llama.cpp", "-fa", "auto", "-c", "0")) == {"flash-attn": "auto", "ctx-size": 0}


def test_a_plugin_may_add_flags_of_its_own_to_vllm() -> None:
    parsed = read("vllm", "M", "--omni", "--stage-configs-path", "x.yaml", "--port", "1")
    assert flags_of(parsed) == {"model": "M", "port": 1}
    assert [note.kind for note in parsed.notes] == ["other"]
