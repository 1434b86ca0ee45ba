"""What is deleted is gone: a conversation takes along what was made of it to learn from."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.db.models.signals import post_delete

from core.states import moved
from judge.models import Judgement
from training.models import Sample

FORGOTTEN = "its chat was deleted"
"""The mark, as drop_reason, of a sample that goes as soon as no run holds it."""


def forget(sender: type[Judgement], instance: Judgement, **kwargs: Any) -> None:
    """Delete the samples that wait, and empty those that were learned: a run's record keeps their number alone.

    A sample that a run is learning at this moment is marked, and goes when that run has ended.
    """
    samples = Sample.objects.filter(pk__in=[pk for pk in (instance.sample_id, instance.learned_id) if pk])
    samples.update(drop_reason=FORGOTTEN)  # first, so that a run that takes or leaves one meanwhile meets the mark
    _remove(samples)


def forget_later(sender: type[Sample], pk: int, status: str, **kwargs: Any) -> None:
    """A run has ended and let go of a sample whose chat was deleted meanwhile."""
    if status in (Sample.Status.READY, Sample.Status.TRAINED):
        _remove(Sample.objects.filter(pk=pk, drop_reason=FORGOTTEN))


def _remove(samples: QuerySet[Sample]) -> None:
    samples.filter(status__in=(Sample.Status.READY, Sample.Status.STALE)).delete()
    samples.filter(status=Sample.Status.TRAINED).update(
        prompt_ids=[], response_ids=[], mask=[], old_logprobs=[], sampled_logprobs=[], teacher_prompt_ids=None
    )


def connect() -> None:
    post_delete.connect(forget, sender=Judgement, dispatch_uid="forgetting")
    moved.connect(forget_later, sender=Sample, dispatch_uid="forgetting")
