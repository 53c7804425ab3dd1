"""What a check is held against: waivers, and a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from preop.errors import InputError, UsageError
from preop.text import Text

if TYPE_CHECKING:
    from preop.baseline import Base
    from preop.deployment.options import ReadOptions
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
    what could not be read there either; and what a reader must know.

    Raises `UsageError` where it names neither, or where nothing but files can be held against a commit.
    """
    from preop.baseline import Base, base_tree, find_run, read_run
    from preop.deployment.read import STANDARD_INPUT, read_targets
    from preop.run import Watcher, check

    run = find_run(name, runs)
    if run is not None:
        return read_run(name, run), [], []
    if not targets or STANDARD_INPUT in targets:
        raise UsageError(
            f"--baseline {name}: no run of that name, and a commit holds no command line or standard input; "
            "expected files or folders of the repository, or an earlier run"
        )
    outside = next((target for target in targets if Path(target).is_absolute()), None)
    if outside is not None:
        raise UsageError(f"--baseline {name}: {outside} is an absolute path; expected one below this folder")
    remarks: list[Text] = []
    unread: list[str] = []
    with base_tree(name, Path()) as tree:
        remarks += [Text(said, said) for said in tree.remarks]
        deployments = []
        for target in targets:
            if not (tree.root / target).exists():
                continue  # all of it is new
            try:
                deployments += read_targets([target], None, replace(options, root=tree.root), unread=unread)
            except InputError as error:
                remarks.append(
                    Text(
                        f"the baseline's {target} is not judged, so that all of it counts as new: {error}",
                        f"未能判定基线中的 {target}，其全部结果都按新增处理：{error}",
                    )
                )
        if not deployments:
            return Base(name, "git", tree.commit, (), ()), unread, remarks
        judged = check(replace(plan, deployments=deployments, endpoints={}, measure=()), None, Watcher())
    return Base(name, "git", tree.commit, judged.deployments, judged.results), unread, remarks
