"""The instrument `endpoint`: what a running engine says of itself on its read-only routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preop.errors import InstrumentError
from preop.instruments.endpoint.address import shown
from preop.instruments.types import Access, Instrument, Job
from preop.text import Text

if TYPE_CHECKING:
    from preop.evidence import Live

__all__ = ["ENDPOINT", "models_of", "read_endpoint"]


def read_endpoint(access: Access) -> Live:
    """What the engine at `access.url` says of itself; see `preop.instruments.endpoint.live`."""
    from preop.instruments.endpoint.live import read_endpoint

    try:
        return read_endpoint(access)
    except ModuleNotFoundError as error:
        if error.name not in ("httpx", "prometheus_client"):
            raise
        raise InstrumentError(
            f"reading an endpoint needs the package {error.name}: pip install 'preop[measure]'"
        ) from None


def models_of(live: Live) -> list[str]:
    """The names that a request may give as `model`, in the endpoint's order; empty where it lists none."""
    from preop.instruments.endpoint.models import models_of

    return models_of(live)


def _missing(job: Job) -> Text | None:
    if job.access is None:
        return Text("a running engine: --endpoint URL", "一个正在运行的引擎:--endpoint URL")
    return None


def _run(job: Job) -> Live:
    if job.access is None:
        raise InstrumentError("no endpoint was given: --endpoint URL")
    job.progress(f"reading {shown(job.access.url)}")
    return read_endpoint(job.access)


ENDPOINT = Instrument(name="endpoint", puts_load=False, run=_run, missing=_missing, depends_on=())
