"""Did it learn by heart? Read the overfitting meter (gate.meter) for an exam."""

from __future__ import annotations

import asyncio

from core import statistics
from gate import exam_requests, meter
from gate.findings import Check
from gate.models import Examination
from gpu_workers.engine.interface import Engine
from training import batches
from training.config import Gate
from training.models import Run, Sample


def read_meter(exam: Examination, engine: Engine, limits: Gate) -> list[Check]:
    """Read the overfitting meter, keep its figures, and hold to their limits those that have one."""
    found = meter.gauges(exam.pairs, _moved_on_own(exam, engine, limits), limits)
    exam.meter = {gauge.name: gauge.written() for gauge in found}
    return [
        Check(
            gauge.name,
            gauge.passed,
            gauge.value,
            gauge.limit,
            gauge.sentence,
            "pairs" if gauge.worst else "meter",
            () if gauge.passed else gauge.worst,
        )
        for gauge in found
        if gauge.limit is not None
    ]


def _moved_on_own(exam: Examination, engine: Engine, limits: Gate) -> list[float]:
    """By how much the candidate gives more to the run's own replies than live does, in nats per token each."""
    run = Run.that_made(exam.checkpoint)
    if run is None or not limits.meter:
        return []
    learned = list(batches.learned(run).exclude(response_ids=[])[: limits.meter])

    async def change(sample: Sample) -> float:
        after = await exam_requests.score(exam.checkpoint, engine, sample.prompt_ids, sample.response_ids)
        if sample.checkpoint_id == exam.against_id and len(sample.behaviour_logprobs) == len(sample.response_ids):
            return after - statistics.mean(sample.behaviour_logprobs)  # live served it: that was measured then
        return after - await exam_requests.score(exam.against, engine, sample.prompt_ids, sample.response_ids)

    async def changes() -> list[float]:
        return list(await asyncio.gather(*map(change, learned)))

    return exam_requests.run(engine, changes)
