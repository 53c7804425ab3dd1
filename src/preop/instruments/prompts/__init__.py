"""Prompts: the user's own, from the forms of file in use, or a small built-in set."""

from __future__ import annotations

from preop.instruments.prompts.files import Prompt, Prompts, read_prompt_file, read_prompts
from preop.instruments.prompts.records import Messages
from preop.instruments.prompts.synthetic import BUILT_IN, ROUND, Text, built_in, of_length, salted, texts

__all__ = [
    "BUILT_IN",
    "ROUND",
    "Messages",
    "Prompt",
    "Prompts",
    "Text",
    "built_in",
    "of_length",
    "read_prompt_file",
    "read_prompts",
    "salted",
    "texts",
]
