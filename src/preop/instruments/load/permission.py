"""Load goes to this machine, or to a host that the user has named."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from preop.instruments.types import Job
from preop.text import Text

__all__ = ["is_loopback", "refusal"]


def is_loopback(host: str) -> bool:
    """Whether a host as written in a URL is this machine's own loopback."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def refusal(job: Job) -> Text | None:
    """Why load may not be put on the job's endpoint; None when it may."""
    if job.access is None:
        return None
    try:
        host = urlsplit(job.access.url).hostname or ""
    except ValueError:
        return None  # no URL at all: the client says so
    if not host or is_loopback(host) or job.options.get("yes_load") == host:
        return None
    return Text(
        en=f"{host} is not this machine: allow the load with --yes-load {host}",
        zh=f"{host} 不是本机：用 --yes-load {host} 允许对它加压",
    )
