"""What a check is held against: waivers, and a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from preop.errors import InputError, UsageError
from preop.text import Text

if TYPE_CHECKING:
    from preop.baseline import Base
    from preop.deployment.options import ReadOptions
    from preop.deployment.types import Deployment
    from preop.run import Plan
    from preop.settings import Settings
    from preop.waivers import Grant

__all__ = ["baseline", "waivers"]


def waivers(flag: Path | None, settings: Settings) -> tuple[Grant, ...]:
    """The waivers of the file that is named, or of `preop-waivers.toml` where there is one."""
    from preop.pitfalls import all_pitfalls
    from preop.waivers import WAIVERS_FILE, load_waivers

    path = flag or (Path(settings.waivers) if settings.waivers else Path(WAIVERS_FILE))
    if path == Path(WAIVERS_FILE) and not path.exists():
        return ()
    return load_waivers(path, [pitfall.id for pitfall in all_pitfalls()])


def baseline(
    name: str, plan: Plan, targets: Sequence[str], options: ReadOptions, runs: Path
) -> tuple[Base, list[str], list[Text]]:
    """The earlier state that `name` names: a run, or else the files of a git commit, judged as `plan` asks;
    what could not be read there either and is as it was; and what a reader must know.

    Raises `UsageError` where it names neither, or where nothing but files can be held against a commit.
    """
    from preop.baseline import Base, base_tree, find_run, read_run
    from preop.deployment.read import STANDARD_INPUT
    from preop.run import Watcher, check

    run = find_run(name, runs)
    if run is not None:
        return read_run(name, run), [], []
    if not targets or STANDARD_INPUT in targets:
        raise UsageError(
            f"--baseline {name}: no run of that name, and a commit holds no command line or standard input; "
            "expected files or folders of the repository, or an earlier run"
        )
    with base_tree(name, Path()) as tree:
        remarks = [Text(each, each) for each in tree.remarks]
        there = {tree.path_of(target): target for target in targets}
        there = {inside: target for inside, target in there.items() if (tree.root / inside).exists()}
        options = replace(options, root=tree.root)
        deployments, said = _base_deployments(there, options, remarks)
        unread = [_as_given(each, there) for each in said if tree.has(each.partition(": ")[0])]
        if not deployments:
            return Base(name, "git", tree.commit, (), ()), unread, remarks
        judged = check(replace(plan, deployments=deployments, endpoints={}, measure=()), None, Watcher())
    return Base(name, "git", tree.commit, judged.deployments, judged.results), unread, remarks


def _base_deployments(
    targets: Mapping[str, str], options: ReadOptions, remarks: list[Text]
) -> tuple[list[Deployment], list[str]]:
    """The deployments of the commit, read together so that each has a name of its own, and what could not be
    read. A target that cannot be read at all is left out, and said. By their path there, `targets` are as the
    user wrote them."""
    from preop.deployment.read import read_targets

    unread: list[str] = []
    try:
        return (read_targets(list(targets), None, options, unread=unread) if targets else []), unread
    except InputError as error:
        why = error
    readable = {}
    for inside, target in targets.items():
        try:
            read_targets([inside], None, options, unread=[])
            readable[inside] = target
        except InputError as error:
            remarks.append(_not_judged(target, error))
    if len(readable) == len(targets):  # each can be read, and all together cannot
        remarks.append(_not_judged(", ".join(targets.values()), why))
        return [], []
    return _base_deployments(readable, options, remarks)


def _not_judged(target: str, error: InputError) -> Text:
    return Text(
        f"the baseline's {target} is not judged, so that all of it counts as new: {error}",
        f"未能判定基线中的 {target}，其全部结果都按新增处理：{error}",
    )


def _as_given(said: str, targets: Mapping[str, str]) -> str:
    """The sentence about a file of the commit as the check itself says it, whatever way to the file was
    given."""
    path, colon, rest = said.partition(": ")
    for inside, target in targets.items():
        if Path(path).is_relative_to(inside):
            return f"{Path(target) / Path(path).relative_to(inside)}{colon}{rest}"
    return said
