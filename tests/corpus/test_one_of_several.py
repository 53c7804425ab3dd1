"""Scripts that start one of several engines, seen in real compose files."""

from __future__ import annotations

from pathlib import Path

import pytest

from preop.deployment.read import ReadOptions, read_targets
from preop.deployment.types import Deployment
from preop.errors import InputError


def _script(text: str, folder: Path) -> Deployment:
    path = folder / "serve.sh"
    path.write_text(text, encoding="utf-8")
    (deployment,) = read_targets([str(path)], None, ReadOptions())
    return deployment


def test_what_both_branches_end_in_is_known(tmp_path: Path) -> None:
    found = _script(
        'if [ -n "$FAST" ]; then\n  exec vllm serve org/a --max-num-seqs 8 --max-model-len 4096\n'
        "else\n  exec vllm serve org/a --enforce-eager --max-model-len 4096\nfi\n",
        tmp_path,
    )
    assert found.fact("max_model_len").value == 4096
    assert not found.fact("max_num_seqs").is_known
    assert not found.fact("enforce_eager").is_known
    assert not found.fact("model").is_known


def test_exec_keeps_what_follows_from_running(tmp_path: Path) -> None:
    found = _script(
        '[ "$A" = 1 ] && exec llama-server -m a.gguf -c 4096\nexec llama-server -m b.gguf -c 4096\n', tmp_path
    )
    assert found.fact("context_size").value == 4096
    assert not found.fact("model").is_known


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve org/a --port 1 &\nvllm serve org/b --port 2\n",
        'if [ -n "$A" ]; then vllm serve org/a & fi\nif [ -n "$B" ]; then vllm serve org/b & fi\n',
        "bash -c 'exec vllm serve org/a' &\nbash -c 'exec vllm serve org/b' &\n",
        "bash -c 'if a; then vllm serve org/a; fi' &\nbash -c 'if a; then b; else vllm serve org/b; fi' &\n",
        "exec vllm serve org/a &\nexec vllm serve org/b\n",
        "if a; then vllm serve org/a; else llama-server -m b.gguf; fi\n",
    ],
)
def test_two_that_may_run_at_once_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="starts two engines at once"):
        _script(text, tmp_path)


def test_other_commands_beside_it_are_not_the_images_arguments(tmp_path: Path) -> None:
    path = tmp_path / "compose.yml"
    path.write_text(
        "services:\n  a:\n    image: vllm/vllm-openai:v0.9.0\n    entrypoint: /bin/bash\n"
        '    command: -c "apt-get update && vllm serve org/a --max-model-len 1024"\n',
        encoding="utf-8",
    )
    (found,) = read_targets([str(path)], None, ReadOptions())
    assert found.fact("model").value == "org/a"
    assert found.fact("max_model_len").value == 1024


def test_an_image_of_another_maker_needs_two_signs(tmp_path: Path) -> None:
    compose = "services:\n  a:\n    image: {image}\n    command: {command}\n"
    path = tmp_path / "compose.yml"
    for image, command, engine in (
        ("opea/vllm-gaudi:1.22.0", "--model org/a --max-num-seqs 8", "vllm"),
        ("acme/llm:llama-server", "-m /a.gguf --n-gpu-layers 60", "llama.cpp"),
        ("acme/llm:1", "--model org/a --max-num-seqs 8", None),
        ("acme/vllm-proxy:1", "--model org/a --port 8000", None),
        ("acme/vllm-tools:1", "run --max-num-seqs 8", None),
    ):
        path.write_text(compose.format(image=image, command=command), encoding="utf-8")
        if engine is None:
            with pytest.raises(InputError):
                read_targets([str(path)], None, ReadOptions())
        else:
            (found,) = read_targets([str(path)], None, ReadOptions())
            assert found.engine == engine
            assert not found.fact("engine_version").is_known


def test_what_a_shell_is_handed_stands_for_its_arguments(tmp_path: Path) -> None:
    path = tmp_path / "compose.yml"
    path.write_text(
        "services:\n  a:\n    image: vllm/vllm-openai:v0.9.0\n"
        "    entrypoint: [sh, -euc, 'exec vllm serve --enforce-eager \"$$@\"', name]\n"
        "    command: [--model, org/a, --max-model-len, '1024']\n"
        "  b:\n    image: vllm/vllm-openai:v0.9.0\n"
        "    entrypoint: [sh, -c, 'shift; vllm serve \"$$@\"', name]\n"
        "    command: [x, --max-model-len, '1024']\n",
        encoding="utf-8",
    )
    first, second = read_targets([str(path)], None, ReadOptions())
    assert first.fact("model").value == "org/a"
    assert first.fact("max_model_len").value == 1024
    assert first.fact("enforce_eager").value is True
    assert not second.fact("max_model_len").is_known
