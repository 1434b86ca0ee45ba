"""The frozen control: to a share of what people ask, the base answers too, while no person waits for anything.

It gives what was learned something to be held against that nothing teaches. No shadow is shown in the chat, none
is judged or learned from, and it goes with its turn. Asked are only turns that may teach; what is put off the record
later loses its shadow.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from chat.models import Turn
from checkpoints.models import Checkpoint
from core import statistics
from evaluation.models import Shadow
from gate import reply_figures
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import EngineRefused
from gpu_workers.types import Completion
from judge.sittings import sitting
from judge.votes import judges
from training import hours

HANDFUL = 2
"""Turns asked at once: a person may want to chat any moment."""

MOST_TOKENS = 256
"""Where a shadow is cut, if its turn was not cut before."""

LATELY = timedelta(days=1)
"""Older turns are left alone: a control that comes late has nothing to stand beside."""

SEAT_S = 300
"""How long the seat of a worker that died stays taken."""


def is_due() -> bool:
    """True when a turn that was drawn has no shadow yet, and there is nothing better to do.

    Where every weight was swapped in place, the base answers no person, and so not here either.
    """
    return (
        settings.SHADOW_SHARE > 0
        and _room() > 0
        and hours.is_idle()
        and not Checkpoint.objects.filter(kind=Checkpoint.Kind.FULL, status=Checkpoint.Status.LIVE).exists()
        and bool(drawn(1))
    )


def drawn(most: int) -> list[Turn]:
    """The oldest of the last day's turns that are to have a shadow and have none: each by its own number, so that who
    asks twice draws the same ones. The base's own replies are their own control."""
    since = timezone.now() - LATELY
    asked = Turn.objects.trainable().filter(created_at__gte=since, shadows=None).exclude(checkpoint__number=0)
    numbers = asked.exclude(prompt_ids=[]).order_by("created_at").values_list("pk", flat=True)
    chosen = [pk for pk in numbers if falls_to(pk, settings.SHADOW_SHARE)][:most]
    return list(Turn.objects.filter(pk__in=chosen).select_related("checkpoint").order_by("created_at"))


def falls_to(turn: UUID, share: float) -> bool:
    """Whether this turn is among those that are answered twice.

    >>> turns = [UUID(int=n) for n in range(2000)]
    >>> 0.08 < sum(falls_to(turn, 0.1) for turn in turns) / 2000 < 0.12
    True
    """
    digest = hashlib.sha256(b"shadow:" + turn.bytes).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def answer(*, engine: Engine) -> bool:
    """Have the base answer a handful of drawn turns. True when more are left. One at a time everywhere; raises
    EngineUnavailable, and nothing is lost but the handful."""
    with sitting("shadows", for_s=SEAT_S) as seat:
        if seat is None or not is_due():
            return False
        turns = drawn(min(HANDFUL, _room()))
        for turn, answered in zip(turns, asyncio.run(_ask(turns, engine)), strict=True):
            _keep(turn, answered)
        return is_due()


def standing() -> QuerySet[Shadow]:
    """The shadows of turns that may still teach."""
    return Shadow.objects.filter(of_these(Turn.objects.trainable()))


def of_these(turns: QuerySet[Turn]) -> Exists:
    """Whether a shadow's turn is one of these. Asked of each shadow: there are far fewer of them than of turns, whose
    rows are long."""
    return Exists(turns.order_by().filter(pk=OuterRef("turn")))


def prune() -> int:
    """Delete the shadows of what is off the record by now. Returns how many."""
    gone, _ = Shadow.objects.exclude(turn__in=Turn.objects.trainable()).delete()
    return gone


def _room() -> int:
    """How many more may be asked this hour."""
    hour = timezone.now() - timedelta(hours=1)
    return int(settings.SHADOW_PER_HOUR) - Shadow.objects.filter(at__gte=hour).count()


@dataclass(frozen=True)
class Answered:
    """What the base said, and the mean log-prob a token, at T = 1, that it gives to that and to the reply that was
    given."""

    said: Completion
    shadow: float | None
    reply: float | None


async def _ask(turns: Sequence[Turn], engine: Engine) -> list[Answered | None]:
    """What the base says to each, and how likely it finds both replies; None where the engine will not have the
    prompt."""

    async def ask(turn: Turn) -> Answered | None:
        with suppress(EngineRefused):
            said = await engine.generate(turn.prompt_ids, turn.sampled_with(MOST_TOKENS), priority=judges.AFTERTHOUGHT)
            return Answered(said, await under_base(turn, said.ids), await under_base(turn, turn.response_ids))
        return None

    async def under_base(turn: Turn, ids: Sequence[int]) -> float | None:
        if not ids:
            return None
        scored = await engine.score(turn.prompt_ids, ids, priority=judges.AFTERTHOUGHT)
        return round(statistics.mean(scored.logprobs), 4)

    try:
        return await asyncio.gather(*map(ask, turns))
    finally:
        await engine.aclose()


def _keep(turn: Turn, answered: Answered | None) -> None:
    """Write it down, if the turn is still there and may still teach. What the engine refused is kept empty, so that it
    is not asked again."""
    shadow = Shadow(turn=turn, checkpoint=Checkpoint.objects.get(number=0), finish_reason="error")
    if answered is not None:
        said = answered.said
        shadow.text, shadow.response_ids, shadow.finish_reason = said.text, list(said.ids), said.finish_reason
        shadow.figures = {
            "shadow": measured(said.ids, said.logprobs) | {"under_base": answered.shadow},
            "reply": measured(turn.response_ids, turn.logprobs)
            | {"under_base": answered.reply, "checkpoint": turn.checkpoint.number},
        }
    with transaction.atomic():
        if Turn.objects.trainable().select_for_update(of=("self",)).filter(pk=turn.pk).exists():
            Shadow.objects.bulk_create([shadow], ignore_conflicts=True)


def measured(ids: Sequence[int], logprobs: Sequence[float]) -> dict[str, Any]:
    """Tokens, the share of repeated runs of four, and the mean log-prob of a token, as sampled.

    >>> measured([1, 2, 3], [-0.5, -1.0, -1.5])
    {'length': 3, 'repetition': 0.0, 'logprob': -1.0}
    """
    return {
        "length": len(ids),
        "repetition": round(reply_figures.repeated(ids), 4),
        "logprob": round(statistics.mean(logprobs), 4) if logprobs else None,
    }
