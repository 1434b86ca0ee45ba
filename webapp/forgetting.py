"""What is deleted is gone: a conversation takes along what was made of it to learn from."""

from __future__ import annotations

from typing import Any

from django.db.models.signals import post_delete

from judge.models import Judgement
from training.models import Sample


def forget(sender: type[Judgement], instance: Judgement, **kwargs: Any) -> None:
    """Delete the samples that wait, and empty those that were learned: a run's record keeps their number alone.

    A sample that a run is learning at this moment stays until that run has ended.
    """
    samples = Sample.objects.filter(pk__in=[pk for pk in (instance.sample_id, instance.learned_id) if pk])
    samples.filter(status__in=(Sample.Status.READY, Sample.Status.STALE)).delete()
    samples.filter(status=Sample.Status.TRAINED).update(
        prompt_ids=[], response_ids=[], mask=[], old_logprobs=[], sampled_logprobs=[], teacher_prompt_ids=None
    )


def connect() -> None:
    post_delete.connect(forget, sender=Judgement, dispatch_uid="forgetting")
