"""Is the adapter applied? The engine answers with these weights, and otherwise than with those they came from."""

from __future__ import annotations

import asyncio

from checkpoints import loading
from checkpoints.loading import ensure_loaded
from checkpoints.models import Checkpoint
from checkpoints.proofs import Proof
from core import statistics
from gate import exam_requests
from gate.findings import SAYS, Check
from gpu_workers.engine.interface import Engine

SAME = 1e-4
"""Nats a token. Two sets of weights that give the same reply log-probs closer than this are the same."""


def find_applied(checkpoint: Checkpoint, engine: Engine) -> list[Check]:
    """Whether the engine answers the probe as the learner does, and otherwise than with the weights it came from."""
    parent = checkpoint.parent
    asked, answered = checkpoint.probe.get("prompt_ids", []), checkpoint.probe.get("response_ids", [])

    async def proved() -> tuple[Proof, float, str]:
        await ensure_loaded(checkpoint, engine)
        proof = await loading.prove(checkpoint, engine)
        if parent is None or not parent.adapter:
            return proof, proof.shift, str(parent or "the base")  # that is what the proof has looked at
        try:
            new, old = await asyncio.gather(
                *(exam_requests.logprobs(who, engine, asked, answered) for who in (checkpoint, parent))
            )
        except exam_requests.Unaskable as failure:
            if failure.who.pk != parent.pk or parent.status == Checkpoint.Status.LIVE:
                raise
            return proof, proof.shift, "the base"  # weights that answer no request may be gone for good
        change = statistics.mean([abs(after - before) for after, before in zip(new, old, strict=True)])
        return proof, change, str(parent)

    proof, change, of = exam_requests.run(engine, proved)
    said = SAYS["applied differs"] % {"change": f"{change:.4f}", "of": of}
    return [
        Check("applied", proof.passed, proof.gap, proof.limit, proof.sentence),
        Check("new", change >= SAME, change, SAME, said),
    ]
