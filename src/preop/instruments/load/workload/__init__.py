"""What is sent: the user's prompts, recorded or synthetic conversations, with salts against prefix caches."""

from __future__ import annotations

from preop.instruments.load.workload.options import WorkloadOptions
from preop.instruments.load.workload.workload import Workload, workload_of

__all__ = ["Workload", "WorkloadOptions", "workload_of"]
