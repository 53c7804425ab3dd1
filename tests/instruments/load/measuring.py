"""Run the instrument, as the tests of several of its parts do."""

from __future__ import annotations

from preop.deployment.types import Deployment
from preop.evidence import Load
from preop.facts import Origin, known
from preop.inputs import Inputs
from preop.instruments.load import LOAD
from preop.instruments.types import Access, Job


def job(
    url: str, options: dict[str, object] | None = None, inputs: Inputs | None = None, cap: int | None = None
) -> Job:
    facts = {} if cap is None else {"max_num_seqs": known(cap, "user", Origin("argument", "test"))}
    deployment = Deployment("d", "unknown", "test", facts)
    return Job(deployment, Access(url), inputs=inputs or Inputs(), options=options or {})


def measured(url: str, inputs: Inputs | None = None, **options: object) -> Load:
    payload = LOAD.run(job(url, options, inputs))
    assert isinstance(payload, Load)
    return payload
