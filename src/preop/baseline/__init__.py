"""The baseline: an earlier state that a check is held against, so that only what is new stands in the way.

An earlier state is a run's folder, or the files of a git commit, judged as the check itself judges.
"""

from preop.baseline.compare import Base, compare
from preop.baseline.git import base_tree
from preop.baseline.run import find_run, read_run

__all__ = ["Base", "base_tree", "compare", "find_run", "read_run"]
