"""How good the judges are: against what people decided, and against the gold follow-ups. Nothing is decided by it.

Both wait until no person waits for anything, and both go on where a worker that died has left them: a vote is a row,
and a gold follow-up that was read is not read again by the same judge with the same prompts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from chat.models import Turn
from core.errors import TalkbackError
from gpu_workers.errors import EngineUnavailable
from judge import steps_worth
from judge.calibration import gold, vote_floor
from judge.calibration.agreement import Reading
from judge.calibration.gold import Item
from judge.models import GoldReading, Measuring, Vote
from judge.sittings import sitting
from judge.votes import casting, evidence, judges, polling
from judge.votes.judge import Judge, Panel
from judge.votes.naming import JudgesInvalid
from judge.votes.polling import Ballot
from training import hours

WINDOW = timedelta(hours=1)
"""How old a verdict may be to be voted on afterwards: a backlog is not worth the cores."""


class MeasuringRefused(TalkbackError):
    """This judge cannot be measured now."""

    code, status = "measuring_refused", 409


# Against what people decided


def due() -> QuerySet[Turn]:
    """Turns that a person's word decided lately and that no judge voted on, newest first."""
    decided = Q(judgement__reward_from="thumb") | Q(judgement__hint_from__in=("guidance", "rewrite"))
    return (
        Turn.objects.filter(decided, status=Turn.Status.JUDGED, votes=None)
        .filter(judgement__judged_at__gt=timezone.now() - WINDOW)
        .exclude(judgement__evidence="")  # a thumb alone: there is nothing a judge could read
        .order_by("-judgement__judged_at")
    )


def is_due() -> bool:
    """True when there is a turn to vote on and nothing better to do."""
    if not settings.CALIBRATION_VOTES or not hours.is_idle():
        return False
    return due().exists() or steps_worth.next_check(judges.panel()) is not None


def vote(who: Panel) -> bool:
    """Cast and keep the votes on one due turn: a person decided it, or it is a step that its world or a rule scored.
    True when there may be another.

    One at a time everywhere, and only while no person waits for anything; otherwise the sweep asks again later. Judges
    that have stopped are not asked here either.
    """
    if not settings.CALIBRATION_VOTES or polling.have_stopped(who):
        return False
    with sitting("calibration", for_s=polling.ATTEMPTS * settings.JUDGE_DEADLINE_S + 30) as seat:
        if seat is None or not hours.is_idle():
            return False
        by_person = due().first()
        turn = by_person or steps_worth.next_check(who)
        if turn is None:
            return False
        seen = evidence.of(turn)
        questions = list(Vote.Question) if seen.unswayed.next_role else [Vote.Question.HINT]
        if by_person is None:  # of a step, votes say how good it was and no more
            questions = [Vote.Question.SCORE]
        casting.cast(turn, seen, questions, who=who, priority=judges.AFTERTHOUGHT)
        turn.announce()
        return True


# Against the gold follow-ups


def begin(who: Judge, *, by: User | None = None, votes: int | None = None, anew: bool = True) -> Measuring:
    """Have the repository's gold follow-ups read by this judge as soon as no person waits for anything.

    Raises MeasuringRefused while another measuring of this judge goes on, or when all is read and not asked `anew`.
    """
    now = timezone.now()
    waiting = unread(who, gold.items(), since=now if anew else None)
    if not waiting:
        raise MeasuringRefused(
            _("%(judge)s has read every gold follow-up with these prompts: measure it anew.") % {"judge": who.name}
        )
    try:
        with transaction.atomic():
            return Measuring.objects.create(
                judge=who.name,
                votes=votes or settings.JUDGE_VOTES,
                total=len(waiting),
                anew=anew,
                asked_by=by,
                asked_at=now,
            )
    except IntegrityError as error:
        raise MeasuringRefused(_("%(judge)s is being measured already.") % {"judge": who.name}) from error


def unfinished() -> list[int]:
    """Measurings that are not at their end, oldest first."""
    return list(Measuring.objects.filter(finished_at=None).order_by("pk").values_list("pk", flat=True))


def go_on(pk: int) -> bool:
    """Have one more gold follow-up read. True when there may be another at once.

    One at a time for each measuring, and only while no person waits for anything. A judge that is away is asked another
    time; one that the settings no longer name ends its measuring.
    """
    measuring = Measuring.objects.filter(pk=pk, finished_at=None).first()
    if measuring is None:
        return False
    with sitting(f"measuring {pk}", for_s=polling.ATTEMPTS * settings.JUDGE_DEADLINE_S + 30) as seat:
        if seat is None or not hours.is_idle():
            return False
        try:
            who = judges.called(measuring.judge)
        except JudgesInvalid as error:
            _finish(measuring, str(error))
            return False
        waiting = unread(who, gold.items(), since=measuring.asked_at if measuring.anew else None)
        if waiting:
            try:
                read(who, waiting[0], votes=measuring.votes).save()
            except EngineUnavailable as error:
                Measuring.objects.filter(pk=pk).update(failure=f"It waits: {error}"[:200])
                return False
            Measuring.objects.filter(pk=pk).exclude(failure="").update(failure="")
        if len(waiting) <= 1:
            _finish(measuring)
        return len(waiting) > 1


def stop(measuring: Measuring, *, by: User) -> None:
    """End a measuring early; what was read counts."""
    _finish(measuring, f"{by} ended it.")


def _finish(measuring: Measuring, failure: str = "") -> None:
    Measuring.objects.filter(pk=measuring.pk, finished_at=None).update(
        finished_at=timezone.now(), failure=failure[:200]
    )
    vote_floor.forget()


def read_so_far(measuring: Measuring) -> int:
    """How many of its follow-ups have been read."""
    rows = GoldReading.objects.filter(judge=measuring.judge, read_at__gte=measuring.asked_at)
    return min(measuring.total, rows.values("gold").distinct().count())


def unread(who: Judge, items: Iterable[Item], *, since: datetime | None = None) -> list[Item]:
    """The items that this judge has not read with its prompts, or not since then; an item that was changed is new."""
    rows = GoldReading.objects.filter(judge=who.name, prompt_version__in=who.versions)
    if since is not None:
        rows = rows.filter(read_at__gte=since)
    known = set(rows.values_list("gold", flat=True))
    return [item for item in items if item.digest not in known]


def read(who: Judge, item: Item, *, votes: int | None = None) -> GoldReading:
    """What this judge makes of one item, not yet saved. Its votes count in full here, whatever they count elsewhere.

    Raises EngineUnavailable when no judge could be reached, or when there is no verdict because answers came too late:
    that says something of the machine, and nothing of what the judge thinks.
    """
    return next(read_all(who, [item], votes=votes))


def read_all(who: Judge, items: Sequence[Item], *, votes: int | None = None, at_once: int = 1) -> Iterator[GoldReading]:
    """What this judge makes of each item, in their order, `at_once` of them under way; as `read`."""
    seated = polling.seated(who, votes)

    async def ask(some: Sequence[Item]) -> list[list[Ballot]]:
        try:
            return await asyncio.gather(
                *(polling.polled(seated, item.evidence, priority=judges.AFTERTHOUGHT) for item in some)
            )
        finally:
            await judges.close(seated.deal)

    for start in range(0, len(items), at_once):
        some = items[start : start + at_once]
        for item, ballots in zip(some, asyncio.run(ask(some)), strict=True):
            yield read_from(who, item, ballots)


def read_from(who: Judge, item: Item, ballots: Sequence[Ballot]) -> GoldReading:
    """The row of what these ballots say."""
    found = polling.finding([replace(ballot, weight=1.0) for ballot in ballots])
    late = next((ballot.failure for ballot in ballots if ballot.failure.startswith(vote_floor.UNHEARD)), "")
    if late and None in (found.score.likeliest, found.asks_hint.reward):
        raise EngineUnavailable(f"{who.name}: {late}")
    asks = found.asks_hint.reward
    return GoldReading(
        item=item.id,
        gold=item.digest,
        judge=who.name,
        prompt_version=_version(ballots, who),
        role=item.role,
        expected=item.score,
        score=found.score.likeliest,
        confidence=found.score.confidence,
        wants_hint=None if asks is None else asks == 1,
        hint=found.hint,
        raw=[raw_of(ballot) for ballot in ballots],
        seconds=sum(ballot.seconds for ballot in ballots),
        tokens=sum(ballot.tokens for ballot in ballots),
        prompt_tokens=sum(ballot.prompt_tokens for ballot in ballots),
        cached_tokens=sum(ballot.cached_tokens for ballot in ballots),
    )


def raw_of(ballot: Ballot) -> dict[str, Any]:
    """A ballot as a reading keeps it."""
    said = {"question": ballot.question, "said": ballot.score, "raw": ballot.raw, "failure": ballot.failure}
    more = {"topic": ballot.topic, "probabilities": dict(ballot.probabilities)}
    return said | {name: value for name, value in more.items() if value}


def reading_of(row: GoldReading) -> Reading:
    return Reading(row.expected, row.score, row.role, row.read_at)


def _version(ballots: Sequence[Ballot], who: Judge) -> str:
    """Of the prompts that were answered last: a server that refuses structured output is asked in other words."""
    return next((ballot.version for ballot in reversed(ballots) if ballot.score is not None), who.version)
