"""Names and texts that hold secrets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.secrets import is_secret_name, mask_text, mask_value


@pytest.mark.parametrize(
    "name",
    ["--api-key", "api_key", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "VLLM_API_KEY", "AWS_SECRET_ACCESS_KEY",
     "AWS_ACCESS_KEY_ID", "POSTGRES_PASSWORD", "apiKey", "hfToken", "--ssl-keyfile-password", "password",
     "Authorization", "admin-api-key", "client_secret", "--ngrok-authtoken"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["--tokenizer", "--max-tokens", "MAX_TOTAL_TOKENS", "num_speculative_tokens", "TOKENIZERS_PARALLELISM",
     "ssl-keyfile", "api-key-file", "cache_key", "pad_token", "time_to_first_token", "monkey",
     "token_ids", ""],
)  # fmt: skip
def test_names_that_only_look_like_it(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abcdef123456", "abcdef123456"),
        ("https://user:hunter2@host/path", "hunter2"),
        ("failed with key sk-proj-abcdefghijklmnop", "sk-proj-abcdefghijklmnop"),
        ("hf_abcdefghijklmnopqrst", "hf_abc"),
        ("HF_TOKEN=abc vllm serve M", "abc"),
        ("vllm serve M --api-key abc --port 1", "abc"),
        ("vllm serve M --api-key=abc", "abc"),
        ('{"password": "abc def"}', "abc def"),
        ("redis://:hunter2@cache:6379", "hunter2"),
    ],
)
def test_a_secret_in_a_text_is_masked(text: str, secret: str) -> None:
    masked = mask_text(text)
    assert secret not in masked and "***" in masked


@pytest.mark.parametrize(
    "text",
    ["vllm serve Qwen/Qwen3-0.6B --tokenizer t --max-model-len 8192", "https://host:8000/v1",
     "git@github.com:a/b",
     "max_tokens=16", "disk-based-something-long"],
)  # fmt: skip
def test_a_text_without_secrets_stays_as_it_is(text: str) -> None:
    assert mask_text(text) == text


def test_a_value_is_masked_by_the_names_of_its_keys() -> None:
    value = {"model": "m", "auth": {"api_key": "x", "list": ["https://a:b@c"]}, "n": 1, "token": None}
    assert mask_value(value) == {
        "model": "m",
        "auth": {"api_key": "***", "list": ["https://***@c"]},
        "n": 1,
        "token": None,
    }


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_text_can_be_masked_and_masking_again_changes_nothing(text: str) -> None:
    assert mask_text(mask_text(text)) == mask_text(text)
