"""`docker run` and its likes: the options that say something of the engine, and what runs inside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from preop.deployment import gpus
from preop.deployment.environment import lay_over, read_env_file
from preop.deployment.tokens import Token, environment_word, unseen_token
from preop.deployment.types import GpuRequest
from preop.errors import InputError
from preop.facts import Origin, Word

__all__ = ["CONTAINER_COMMANDS", "ContainerRun", "mount"]

CONTAINER_COMMANDS = frozenset({"docker", "podman", "nerdctl"})

_SWITCHES = frozenset(
    {
        *("detach", "interactive", "tty", "rm", "init", "privileged", "publish-all", "read-only", "quiet"),
        *("no-healthcheck", "oom-kill-disable", "sig-proxy", "disable-content-trust", "help", "replace"),
        *("no-hosts", "rmi", "tls-verify", "http-proxy", "passwd", "no-hostname", "env-host", "tls", "debug"),
    }
)
_SHORTS = {
    **{"e": "env", "v": "volume", "p": "publish", "w": "workdir", "u": "user", "m": "memory"},
    **{"h": "hostname", "l": "label", "c": "cpu-shares", "a": "attach"},
}


def mount(text: str) -> tuple[str, str] | None:
    """Folder inside and folder here of `./models:/models:ro`; None for a volume that only has a name."""
    here, colon, rest = text.partition(":")
    inside = rest.partition(":")[0]
    if not colon or not inside.startswith("/") or not here.startswith(("/", ".", "~")):
        return None
    return inside, here


class ContainerRun:
    """One `docker run`, `create` or `exec` read up to the command inside.

    Raises `InputError` where the image or an option's value is missing.
    """

    def __init__(self, tokens: Sequence[Token], folder: Path | None) -> None:
        self._folder = folder
        self._own: dict[str, Word] = {}
        self._of_files: dict[str, Word] = {}
        self.entrypoint: Token | None = None
        self.name: str | None = None
        self.hidden: list[str] = []
        self.mounts: dict[str, str] = {}
        self._gpus: list[GpuRequest | None] = []
        self._devices: list[Token] = []
        self._runtimes: list[Token] = []
        at = _subcommand(tokens)
        self.is_run = at is not None
        self.image: Token | None = None
        self.tokens: tuple[Token, ...] = ()
        if at is None:
            return
        i = self._read_options(tokens, at + 1)
        if i >= len(tokens):
            raise InputError(
                "`docker run` without an image; expected `docker run [options] IMAGE [arguments]`"
            )
        self.image = _placed(tokens[i], "image")
        if tokens[at].text == "exec":
            self.image = unseen_token("the image of a running container cannot be seen", self.image.origin)
        self.tokens = self._with_entrypoint(tokens[i + 1 :])

    def _with_entrypoint(self, tokens: Sequence[Token]) -> tuple[Token, ...]:
        entrypoint = self.entrypoint
        return (entrypoint, *tokens) if entrypoint is not None and entrypoint.text else tuple(tokens)

    @property
    def environment(self) -> dict[str, Word]:
        """Its variables: `--env` wins over every `--env-file`, wherever it stands."""
        return {**self._of_files, **self._own}

    @property
    def gpus(self) -> GpuRequest | None:
        """The accelerators asked for."""
        runtimes = (gpus.from_runtime(value, self.environment) for value in self._runtimes)
        devices = gpus.from_devices(self._devices)
        return gpus.pick([*self._gpus, *devices, *runtimes]) or gpus.from_nvidia_variable(self.environment)

    def _read_options(self, tokens: Sequence[Token], i: int) -> int:
        """Take in the options from `i` on; the index of the image."""
        while i < len(tokens):
            token = tokens[i]
            text = token.head
            if not text and token.holes:
                if _is_command(tokens[i + 1 :]):
                    break  # `docker run $IMAGE vllm serve ...`
                self.hidden.append(f"options of `docker run` may be hidden: {token.note}")
                i += 1
                continue
            if not text.startswith("-") or text == "-":
                break
            if text == "--":
                return i + 1
            i += 1
            name, value = self._split(token)
            if name is not None and value is None:
                if i >= len(tokens):
                    raise InputError(f"`docker run {text}` without its value")
                value = tokens[i]
                i += 1
            if name is not None and value is not None:
                self._take(name, _placed(value, f"--{name}"))
        return i

    def _split(self, token: Token) -> tuple[str | None, Token | None]:
        """The option's name (None: a switch) and its value where it is in the same word."""
        text = token.head
        if text.startswith("--"):
            name, equals, _ = text[2:].partition("=")
            if name in _SWITCHES:
                return None, None
            return name, token.after(len(name) + 3) if equals else None
        for at, letter in enumerate(text[1:], start=1):
            if letter in _SHORTS:
                rest = token.after(at + 1)
                rest = rest.after(1) if rest.head.startswith("=") else rest
                return _SHORTS[letter], rest if rest.text else None
        return None, None

    def _take(self, name: str, value: Token) -> None:
        if name == "env":
            caller = unseen_token(f"{value.head} comes from the caller", value.origin)
            key, told = value.assignment() or (value.head, caller)
            self._own[key] = environment_word(key, told)
        elif name == "env-file":
            words, missing = read_env_file(value, self._folder)
            self._of_files = lay_over(self._of_files, words, missing)
            self.hidden += missing
        elif name == "gpus":
            self._gpus.append(gpus.from_gpus_flag(value))
        elif name == "device":
            self._devices.append(value)
        elif name == "runtime":
            self._runtimes.append(value)
        elif name == "entrypoint":
            self.entrypoint = value
        elif name == "name":
            self.name = value.visible
        elif name == "volume" and value.visible is not None:
            pair = mount(value.visible)
            self.mounts.update([pair] if pair else [])
        elif name == "mount" and value.visible is not None:
            fields = dict(part.partition("=")[::2] for part in value.visible.split(","))
            here = fields.get("source") or fields.get("src")
            inside = fields.get("target") or fields.get("destination") or fields.get("dst")
            if fields.get("type") == "bind" and here and inside:
                self.mounts[inside] = here


def _is_command(tokens: Sequence[Token]) -> bool:
    from preop.deployment.command import starts_engine

    try:
        return starts_engine(tokens)
    except InputError:
        return True


def _placed(token: Token, what: str) -> Token:
    """A typed word under the name of what it is: its number says little among the options of `docker run`."""
    if token.origin.kind != "argument":
        return token
    return Token(token.text, Origin("argument", f"docker run, {what}"), token.holes)


def _subcommand(tokens: Sequence[Token]) -> int | None:
    """Where `run`, `create` or `exec` stands; None where it is another subcommand."""
    i = 1
    while i < len(tokens) and tokens[i].head.startswith("-"):
        text = tokens[i].text
        i += 1 if "=" in text or text.lstrip("-") in ("D", "debug", "tls", "tlsverify", "remote") else 2
    if i < len(tokens) and tokens[i].text == "container":
        i += 1
    return i if i < len(tokens) and tokens[i].text in ("run", "exec", "create") else None
