"""The thin edge of the gate: an id comes in, and one function is called."""

from __future__ import annotations

from checkpoints.models import Checkpoint
from gate import tasks


def test_the_exam_is_one_call(engine, renderer, db):
    candidate = Checkpoint.objects.create(number=1, adapter="talkback-1-x", path="checkpoints/1")
    tasks.examine(str(candidate.pk))
    candidate.refresh_from_db()
    assert candidate.status == "rejected"  # it came without a probe
    assert "probe" in candidate.reason
