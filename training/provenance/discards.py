"""Set aside the samples that a bad checkpoint served."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction

from checkpoints.models import Checkpoint, Decision
from training.models import Run, Sample


@transaction.atomic
def set_aside(checkpoint: Checkpoint, *, by: User | None, reason: str = "") -> int:
    """Have no run learn from what this checkpoint served, as far as none has begun to. Recorded. Returns how many
    samples that are."""
    told = f"Set aside with {checkpoint}" + (f": {reason}" if reason else ".")
    of_it = Sample.objects.select_for_update().filter(checkpoint=checkpoint)
    count = 0
    for sample in of_it.filter(status=Sample.Status.READY):
        sample.move(Sample.Status.STALE, drop_reason=told)
        count += 1
    # Those that a run has claimed are dropped as it begins.
    count += of_it.filter(status=Sample.Status.CLAIMED, run__status=Run.Status.QUEUED).update(drop_reason=told)
    if count:
        said = f"{count} {'sample' if count == 1 else 'samples'}. {reason}".strip()
        Decision.objects.create(checkpoint=checkpoint, verb=Decision.Verb.SET_ASIDE, by=by, reason=said)
    return count
