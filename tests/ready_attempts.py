"""Judged groups of attempts, as players and judges would have left them for the tiny model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from checkpoints.models import Checkpoint
from episodes.models import Episode, Group
from training.models import Sample

ASKED = [1, 5, 6, 40]
RESULT = [60, 61]


@dataclass(frozen=True)
class Try:
    """One attempt as a test wants it: how it ended, and what its steps scored."""

    ending: str
    scores: Sequence[float] = (0.0, 0.0)
    cut_by: str = ""
    voted: bool = False
    outcome: float | None = None
    """None: as its ending has it."""
    apart_at: int | None = None
    """The step whose prompt is written anew."""
    replies: Sequence[Sequence[int]] = field(default=())
    """Token ids, one a step; empty: some that depend on the attempt and the step."""


OUTCOMES = {"solved": 1.0, "failed": -1.0, "gave_up": -1.0}


@pytest.fixture(scope="session")
def score(tiny_model):
    """What the base gives a reply after a prompt, at temperature 1."""
    from gpu_workers.learner.learner import Learner

    return Learner(tiny_model, dtype="float32").score


@pytest.fixture
def play(db, score):
    """A judged group of these attempts: its samples stand READY."""
    judged = timezone.now() - timedelta(hours=1)

    def play(*tries: Try, name="", is_judged=True, split="train", **fields) -> Group:
        nonlocal judged
        judged += timedelta(seconds=1)
        player, _ = get_user_model().objects.get_or_create(username="player")
        count = Group.objects.count()
        group = Group.objects.create(
            user=player,
            name=name or f"g{count}",
            world="till",
            task=f"sum-{count}",
            split=split,
            attempts=len(tries),
            checkpoint=fields.get("checkpoint") or Checkpoint.live(),
            judged_at=judged if is_judged else None,
        )
        for number, one in enumerate(tries):
            is_void = one.ending in ("infra_error", "cancelled")
            episode = Episode.objects.create(
                group=group,
                attempt=number,
                status="void" if is_void else "scored",
                ending=one.ending,
                cut_by=one.cut_by,
                outcome=OUTCOMES.get(one.ending) if one.outcome is None else one.outcome,
                lease_s=600,
                lease_until=timezone.now(),
                ended_at=timezone.now(),
            )
            prompt = [*ASKED, 20 + count]
            for step, scored in enumerate(one.scores):
                if step == one.apart_at:
                    prompt = [1, 9, 20 + count]
                reply = list(one.replies[step]) if one.replies else [70 + number, 80 + step, 2]
                Sample.objects.create(
                    **{
                        "checkpoint": group.checkpoint,
                        "prompt_ids": prompt,
                        "response_ids": reply,
                        "behaviour_logprobs": score(prompt, reply),
                        "reward": scored,
                        "voted": one.voted,
                        "episode": episode,
                        "step": step,
                    }
                    | fields
                )
                prompt = [*prompt, *reply, *RESULT]
        return group

    return play


SOLVED, FAILED = Try("solved", (1.0, 1.0)), Try("failed", (-1.0, 1.0))
