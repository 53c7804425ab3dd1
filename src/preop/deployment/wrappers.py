"""Programs that run another command after their own options: sudo, numactl, uv run and their likes."""

from __future__ import annotations

from collections.abc import Sequence

from preop.deployment.tokens import Token

__all__ = ["after_wrapper"]

_MPI = (
    "-n -np -c --np -N -npernode --npernode -H -host --host -x --hostfile -hostfile --map-by --bind-to "
    "--rank-by -wdir --wdir"
)
# By name: the options that take a value as the next word, and how many operands stand before the command.
_WRAPPERS: dict[str, tuple[str, int]] = {
    "exec": ("-a", 0),
    "command": ("", 0),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "unbuffer": ("", 0),
    "caffeinate": ("-t -w", 0),
    "sudo": ("-u -g -h -p -C -r -t -U -D -R -T --user --group --host --prompt --chdir --chroot --role", 0),
    "doas": ("-u -C", 0),
    "time": ("-f -o --format --output", 0),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n --class --classdata", 0),
    "stdbuf": ("-i -o -e --input --output --error", 0),
    "numactl": (
        "-C -N -m -i -p -w --physcpubind --cpunodebind --membind --interleave --preferred --preferred-many",
        0,
    ),
    "taskset": ("", 1),
    "chrt": ("-T -P -D", 1),
    "timeout": ("-k -s --kill-after --signal", 1),
    "gosu": ("", 1),
    "su-exec": ("", 1),
    "tini": ("-p -e", 0),
    "dumb-init": ("-r --rewrite", 0),
    "nvidia_entrypoint.sh": ("", 0),
    "systemd-run": ("-p -u -t -E -H -M --property --unit --uid --gid --slice --description --setenv", 0),
    "strace": ("-o -e -s -p -a -S -u", 0),
    "screen": ("-S -dmS -DmS -c -e -h -s -T", 0),
    "opentelemetry-instrument": (
        "--traces_exporter --metrics_exporter --logs_exporter --service_name --exporter_otlp_endpoint",
        0,
    ),
    "ddtrace-run": ("", 0),
    "srun": (
        "-n -N -c -p -t -w -A -J -o -e -G --ntasks --ntasks-per-node --nodes --nodelist --partition "
        "--account --job-name --cpus-per-task --gpus --gpus-per-node --gpus-per-task --gres --time --mem "
        "--mpi --output --error --chdir --export --container-image --container-name --container-mounts "
        "--container-workdir",
        0,
    ),
    "mpirun": (_MPI, 0),
    "mpiexec": (_MPI, 0),
    "trtllm-llmapi-launch": ("", 0),
}
_TWO_VALUES = frozenset({"-mca", "--mca", "-gmca", "--gmca"})
"""Options of mpirun that take a name and a value."""
_UVX = (
    "-p -c -b -i -f -w --from --with --with-editable --with-requirements --python --index --index-url "
    "--default-index --extra-index-url --find-links --env-file --constraints --overrides --torch-backend "
    "--cache-dir --directory --project --prerelease --resolution --index-strategy --python-platform"
)
_RUNNERS: dict[tuple[str, ...], tuple[str, int]] = {
    ("uvx",): (_UVX, 0),
    ("uv", "tool", "run"): (_UVX, 0),
    ("uv", "run"): (f"{_UVX} --extra --group --package --only-group --no-group --no-extra", 0),
    ("pipx", "run"): ("--spec --python --pip-args --index-url", 0),
    ("poetry", "run"): ("-C --directory -P --project", 0),
    ("pdm", "run"): ("", 0),
    ("pixi", "run"): ("-e --environment --manifest-path", 0),
    ("conda", "run"): ("-n -p --name --prefix --cwd", 0),
    ("mamba", "run"): ("-n -p --name --prefix --cwd", 0),
    ("micromamba", "run"): ("-n -p --name --prefix --cwd -e", 0),
    ("nsys", "profile"): ("-o -t -s -c -f -w --output --trace --delay --duration", 0),
}


def after_wrapper(name: str, tokens: Sequence[Token]) -> tuple[Token, ...] | None:
    """The command behind the wrapper that `tokens` start with; None where they start with none.

    `name` is the first word without its folder. `uvx vllm@0.12.0` names `vllm`.
    """
    if name in _WRAPPERS:
        return _past_options(tokens[1:], *_WRAPPERS[name])
    for (runner, *verbs), (values, operands) in _RUNNERS.items():
        if name != runner:
            continue
        rest = _past_options(tokens[1:], values, 0)  # `uv --directory /srv run ...`
        if [token.text for token in rest[: len(verbs)]] == verbs:
            rest = _past_options(rest[len(verbs) :], values, operands)
            if rest and "@" in rest[0].head and "/" not in rest[0].head:
                rest = (Token(rest[0].head.partition("@")[0], rest[0].origin), *rest[1:])
            return rest
    return None


def _past_options(tokens: Sequence[Token], with_value: str, operands: int) -> tuple[Token, ...]:
    values, i = with_value.split(), 0
    while i < len(tokens) and tokens[i].head.startswith("-"):
        text = tokens[i].text
        if text == "-m" and text not in values:  # `uv run -m MODULE` is `python -m MODULE`
            return (Token("python", tokens[i].origin), *tokens[i:])
        i += 3 if text in _TWO_VALUES else 2 if text in values else 1
        if text == "--":
            break
    return tuple(tokens[i + operands :])
