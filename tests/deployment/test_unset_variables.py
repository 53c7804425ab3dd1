"""A variable that nothing here sets, in shell texts, compose files and commands: one rule
(`preop.deployment.variables`). And files of variables, of which one may not be here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from preop.deployment.types import Deployment

from .reading import read_command, read_compose, read_file, said

Read = Callable[[Path, str], Deployment]


def in_a_script(folder: Path, arguments: str) -> Deployment:
    path = folder / "serve.sh"
    path.write_text(f"#!/bin/sh\nexec vllm serve m {arguments}\n")
    (found,) = read_file(path, engine_version="0.32.0")
    return found


def in_compose(folder: Path, arguments: str) -> Deployment:
    text = f"services:\n  a:\n    image: vllm/vllm-openai:v0.32.0\n    command: --model m {arguments}\n"
    (found,) = read_compose(folder, text)
    return found


def after_dashes(folder: Path, arguments: str) -> Deployment:
    return read_command(f"vllm serve m {arguments}", engine_version="0.32.0")


everywhere = pytest.mark.parametrize("read", [in_a_script, in_compose, after_dashes])


@everywhere
@pytest.mark.parametrize(
    "hook", ["$X", "${X}", "${X:-}", "${X-}", "${X:+--kv-cache-dtype fp8}", "${X+--enforce-eager}"]
)
def test_an_unset_variable_that_may_hold_flags_does_not_make_them_absent(
    tmp_path: Path, read: Read, hook: str
) -> None:
    found = read(tmp_path, f"--max-model-len 8192 --enable-prefix-caching {hook}")
    for name in ("kv_cache_dtype", "max_num_seqs", "max_model_len"):
        assert not found.fact(name).is_known, name
    assert "$X is not set here" in said(found)


@everywhere
def test_words_behind_a_plus_are_not_swallowed_by_a_flag_that_takes_several(
    tmp_path: Path, read: Read
) -> None:
    found = read(tmp_path, "--served-model-name a ${X:+--quantization fp8}")
    assert not found.fact("quantization").is_known
    assert "$X is not set here" in (found.fact("quantization").note or "")


@everywhere
@pytest.mark.parametrize("default", ["${X:-8192}", "${X-8192}", "${X:-${Y:-8192}}"])
def test_a_default_that_the_text_states_is_what_it_declares(tmp_path: Path, read: Read, default: str) -> None:
    found = read(tmp_path, f"--max-model-len {default}")
    assert found.fact("max_model_len").value == 8192
    assert found.fact("kv_cache_dtype").is_known


@everywhere
def test_an_empty_default_behind_a_flag_hides_its_value_and_nothing_else(tmp_path: Path, read: Read) -> None:
    found = read(tmp_path, "--max-model-len 8192 --tokenizer ${TOK:-} --max-num-seqs 7")
    assert not found.fact("tokenizer").is_known
    assert (found.fact("max_model_len").value, found.fact("max_num_seqs").value) == (8192, 7)


def test_a_variable_that_is_set_here_to_nothing_is_known(tmp_path: Path) -> None:
    arguments = "--max-model-len 8192 ${X:-} ${X:+--kv-cache-dtype fp8} $X"
    (tmp_path / ".env").write_text("X=\n")
    assert in_compose(tmp_path, arguments).fact("max_model_len").value == 8192
    assert in_compose(tmp_path, arguments).fact("kv_cache_dtype").value == "auto"
    path = tmp_path / "serve.sh"
    path.write_text(f"#!/bin/sh\nX=\nexec vllm serve m {arguments}\n")
    (found,) = read_file(path, engine_version="0.32.0")
    assert (found.fact("max_model_len").value, found.fact("kv_cache_dtype").value) == (8192, "auto")


@pytest.mark.parametrize("words", ["+--quantization fp8", ":---quantization fp8", ":-b --quantization fp8"])
@pytest.mark.parametrize("before", ["SPEC=$1", ". ./other.sh", "SPEC=$(cat spec)"])
def test_flags_that_depend_on_a_value_that_cannot_be_seen_are_not_absent(
    tmp_path: Path, words: str, before: str
) -> None:
    path = tmp_path / "serve.sh"
    path.write_text(f"#!/bin/sh\n{before}\nexec vllm serve m --served-model-name a ${{SPEC{words}}}\n")
    (found,) = read_file(path, engine_version="0.32.0")
    assert not found.fact("quantization").is_known
    assert "may be set where it cannot be seen" in (found.fact("quantization").note or "")


def test_a_variable_that_takes_an_empty_default_is_still_a_hook(tmp_path: Path) -> None:
    path = tmp_path / "serve.sh"
    path.write_text(
        '#!/bin/bash\nset -u\nEXTRA="${EXTRA:-}"\nexec vllm serve m --max-model-len 8192 $EXTRA\n'
    )
    (found,) = read_file(path)
    assert not found.fact("max_model_len").is_known and not found.fact("quantization").is_known


# files of variables

LONG = "allow_long_max_model_len"


def test_of_two_env_files_of_docker_run_the_later_counts_and_an_option_over_both(tmp_path: Path) -> None:
    first, second = tmp_path / "1.env", tmp_path / "2.env"
    first.write_text("VLLM_ALLOW_LONG_MAX_MODEL_LEN=1\n")
    second.write_text("VLLM_ALLOW_LONG_MAX_MODEL_LEN=0\n")
    run = f"docker run %s --env-file {first} --env-file {second} vllm/vllm-openai:v0.32.0 --model m"
    assert read_command(run % "").fact(LONG).value is False
    assert read_command(run % "-e VLLM_ALLOW_LONG_MAX_MODEL_LEN=1").fact(LONG).value is True


def test_an_env_file_that_is_not_here_may_set_again_what_an_earlier_one_sets(tmp_path: Path) -> None:
    here = tmp_path / "1.env"
    here.write_text("VLLM_ALLOW_LONG_MAX_MODEL_LEN=0\n")
    image = "vllm/vllm-openai:v0.32.0 --model m"
    gone = read_command(f"docker run --env-file {here} --env-file /nowhere/2.env {image}")
    assert not gone.fact(LONG).is_known and "/nowhere/2.env is not here" in (gone.fact(LONG).note or "")
    earlier = read_command(f"docker run --env-file /nowhere/2.env --env-file {here} {image}")
    assert earlier.fact(LONG).value is False
    text = (
        "services:\n  a:\n    image: vllm/vllm-openai:v0.32.0\n    command: --model m\n    env_file: [%s]\n"
    )
    (found,) = read_compose(tmp_path, text % "1.env, gone.env")
    assert not found.fact(LONG).is_known and "gone.env is not here" in (found.fact(LONG).note or "")
    (found,) = read_compose(tmp_path, text % "gone.env, 1.env")
    assert found.fact(LONG).value is False


def test_what_an_env_file_that_is_not_here_may_set_is_unknown_and_not_absent() -> None:
    found = read_command("docker run --env-file /nowhere/x.env vllm/vllm-openai:v0.32.0 --model m")
    assert not found.fact(LONG).is_known
    assert "/nowhere/x.env is not here" in (found.fact(LONG).note or "")
