"""Going live: load beside the old weights, probe, switch, let go of what is not in use. The way back is the same way.

What is loaded, proven and exchanged in an engine is `checkpoints/loading.py` (docs/explanation/swap.md).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Any, Protocol

from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, Subquery
from django.utils.translation import gettext as _

from checkpoints import checksums, loading, notices
from checkpoints.loading import Unproven
from checkpoints.models import SHARED, Checkpoint, CheckpointQuerySet, Decision, Line
from checkpoints.rulings import SAYS
from core.errors import IllegalMove
from gpu_workers import engines
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import AdapterInvalid, EngineRefused, EngineUnavailable

log = logging.getLogger(__name__)


class SetAside(Protocol):
    """Keep runs from learning what a checkpoint served; returns how many samples that were."""

    def __call__(self, checkpoint: Checkpoint, *, by: User | None, reason: str = "") -> int: ...


LONGEST_PREFIX = 2048
"""Tokens that are read before the first reply under new weights, at most."""


async def promote(checkpoint: Checkpoint, *, by: User | None = None, reason: str = "") -> Checkpoint:
    """Put approved weights in front of people, without a request lost. Safe to call twice.

    Raises Unproven when the engine does not answer the probe as the learner does: the checkpoint is then rejected,
    with that sentence, and whatever was live answers again. Raises IllegalMove for weights that cannot answer beside
    what is there, and EngineUnavailable, with nothing changed in the rows.
    """
    checkpoint = await Checkpoint.objects.aget(pk=checkpoint.pk)
    if checkpoint.status == Checkpoint.Status.LIVE:
        return checkpoint
    if checkpoint.status != Checkpoint.Status.APPROVED:
        said = _("%(checkpoint)s is %(status)s: only what was approved goes live.")
        raise IllegalMove(said % {"checkpoint": checkpoint, "status": _(checkpoint.status)})
    await sync_to_async(_check_place)(checkpoint)
    engine = engines.policy()
    try:
        async with _brought(checkpoint, engine, checkpoint.line_id):
            checkpoint = await sync_to_async(_switch)(checkpoint, Decision.Verb.PROMOTE, by, reason)
    except (Unproven, AdapterInvalid) as failure:
        await sync_to_async(_undone)(checkpoint, by, str(failure))
        await loading.tidy(engine)
        raise Unproven(str(failure)) from failure
    await loading.tidy(engine)
    return checkpoint


async def roll_back(
    *,
    to: Checkpoint | None = None,
    by: User | None = None,
    reason: str = "",
    instead_of: Checkpoint | None = None,
    line: str | None = None,
    set_aside: SetAside | None = None,
) -> Checkpoint:
    """Have `to`, or else whatever was live before, answer from the next reply on. Recorded with who and why.

    `line` is the one that steps back: `to`'s own, and without either the shared one. A private line may step back to
    where it started as well. `instead_of` is what the person saw live: when another person was quicker, IllegalMove
    says so and nothing changes. `set_aside` is called in the same transaction with the checkpoint that is left, as
    `training.provenance.discards.set_aside` is, which has no run learn from what that one served. Raises Unproven, with
    nothing changed, when the engine no longer answers the probe as it should."""
    line = line or (to.line_id if to is not None else SHARED)
    target = to or await sync_to_async(previous)(line)
    if target is None:
        raise IllegalMove(_("Nothing was live before this checkpoint, so there is nothing to roll back to."))
    target = await Checkpoint.objects.aget(pk=target.pk)
    if target.status not in (Checkpoint.Status.RETIRED, Checkpoint.Status.LIVE):
        said = _("%(checkpoint)s is %(status)s: one can only roll back to what has been live.")
        raise IllegalMove(said % {"checkpoint": target, "status": _(target.status)})
    if target.let_go_at is not None:
        raise IllegalMove(_gone(target))
    if target.line_id != line and not await Line.objects.filter(name=line, start=target).aexists():
        said = _("%(checkpoint)s belongs to another line: %(line)s steps back to its own, or to where it started.")
        raise IllegalMove(said % {"checkpoint": target, "line": line})
    await sync_to_async(_check_place)(target, line)
    engine = engines.policy()
    try:
        async with _brought(target, engine, line):
            target = await sync_to_async(_switch)(
                target, Decision.Verb.ROLL_BACK, by, reason, instead_of, line, set_aside
            )
    except AdapterInvalid as failure:
        raise Unproven(str(failure)) from failure
    await loading.tidy(engine)
    return target


def previous(line: str | None = SHARED) -> Checkpoint | None:
    """What a roll back of this line goes to: the checkpoint that was live before this one and was not itself rolled
    back; where it started, at first."""
    if line == SHARED:
        return beside_previous(Checkpoint.objects.all(), Q(status=Checkpoint.Status.LIVE, line=SHARED))[1]
    number = number_before(line)
    return None if number is None else Checkpoint.objects.get(number=number)


@dataclass(frozen=True)
class Answering:
    """What every page of the console says of the shared line, and of what waits in any."""

    live: Checkpoint
    previous: Checkpoint | None
    """What a roll back goes to; None where there is nothing to go back to."""
    waiting: Sequence[Checkpoint]
    """As `notices.waiting` has them."""

    @classmethod
    def read(cls) -> Answering:
        """As `beside_previous` asks."""
        shown = Q(status=Checkpoint.Status.LIVE, line=SHARED) | Q(status=Checkpoint.Status.PASSED, is_on_hold=False)
        rows = Checkpoint.objects.with_taints().select_related("line").defer("probe", "made").order_by("number")
        found, previous = beside_previous(rows, shown)
        live = next(one for one in found if one.status == Checkpoint.Status.LIVE and one.line_id == SHARED)
        return cls(live, previous, [one for one in found if one.status == Checkpoint.Status.PASSED])


def beside_previous(rows: CheckpointQuerySet, shown: Q) -> tuple[list[Checkpoint], Checkpoint | None]:
    """Those of these rows that are `shown`, in their order, and among them what a roll back of the shared line goes to,
    which is the second. One query where nothing went live since this process asked last."""
    newest = Decision.objects.filter(verb__in=WENT_LIVE).order_by("-pk")
    rows = rows.annotate(last_move=Subquery(newest.values("pk")[:1]), last_moved_at=Subquery(newest.values("at")[:1]))
    while True:
        known = _PREVIOUS.copy()
        numbers = set(known.values())
        found: list[Any] = list(rows.filter(shown | Q(number__in=numbers)))
        move = (found[0].last_move, found[0].last_moved_at) if found else (None, None)
        if move in known or not found:
            number = known.get(move)
            return found, next((one for one in found if one.number == number), None)
        _PREVIOUS.clear()
        _PREVIOUS[move] = number_before(SHARED)


_PREVIOUS: dict[tuple[int | None, datetime | None], int | None] = {}
"""What a roll back of the shared line goes to, by the last move that this process knows of and when it was made."""


def previous_of_all(lines: Iterable[Line]) -> dict[str, Checkpoint]:
    """`previous` of each of these lines, which come with their `start`, that has one, by its name. Two queries."""
    before = numbers_before(lines)
    rows = {one.number: one for one in Checkpoint.objects.filter(number__in=before.values())}
    return {name: rows[number] for name, number in before.items()}


def numbers_before(lines: Iterable[Line]) -> dict[str, int]:
    """The numbers of the same. One query."""
    numbers = {line.name: [line.start.number if line.start else 0] for line in lines}
    moves = Decision.objects.filter(verb__in=WENT_LIVE).order_by("at", "pk")
    for line, own, number in moves.values_list("line", "checkpoint__line", "checkpoint__number"):
        if (line or own) in numbers:
            numbers[line or own].append(number)
    return {name: found[-2] for name, went in numbers.items() if len(found := unwind(went)) > 1}


WENT_LIVE = (Decision.Verb.PROMOTE, Decision.Verb.ROLL_BACK)


def number_before(line: str | None) -> int | None:
    """The number of what a roll back of this line goes to; None where there is nothing."""
    moves = Decision.objects.filter(verb__in=WENT_LIVE)
    of_line = moves.filter(Q(line=line) | Q(line=None, checkpoint__line=line)).order_by("at", "pk")
    # The shared line starts with the base (private_lines_start_somewhere).
    start = 0 if line == SHARED else Line.objects.filter(name=line).values_list("start__number", flat=True).first() or 0
    numbers = unwind([start, *of_line.values_list("checkpoint__number", flat=True)])
    return numbers[-2] if len(numbers) > 1 else None


def unwind(numbers: Iterable[int]) -> list[int]:
    """The checkpoints one can step back through, from all that went live in turn; the last one is live.

    Going back to one forgets what came after it, so that two steps back never return to where one fled from.

    >>> unwind([0, 1, 2, 1, 3])
    [0, 1, 3]
    """
    line: list[int] = []
    for number in numbers:
        if number in line:
            del line[line.index(number) + 1 :]
        else:
            line.append(number)
    return line


def _check_place(checkpoint: Checkpoint, line: str | None = None) -> None:
    """Raises IllegalMove for weights that cannot answer beside what answers in other lines."""
    line = line or checkpoint.line_id
    if checkpoint.kind == Checkpoint.Kind.FULL:
        if line != SHARED:
            said = _("%(checkpoint)s has full weights, and those answer everybody: a private line has adapters.")
            raise IllegalMove(said % {"checkpoint": checkpoint})
        if other := Line.objects.filter(retired_at=None).exclude(name=SHARED).first():
            said = _(
                "%(checkpoint)s has full weights, and %(line)s answers with an adapter on the base: retire that line "
                "first, or train an adapter."
            )
            raise IllegalMove(said % {"checkpoint": checkpoint, "line": other})
    elif line != SHARED and loading.weights_of(Checkpoint.live()):
        said = _(
            "%(live)s answers everybody with full weights, so %(checkpoint)s cannot answer in %(line)s: roll the "
            "shared line back to an adapter, or to the base, first."
        )
        raise IllegalMove(said % {"live": Checkpoint.live(), "checkpoint": checkpoint, "line": line})


@asynccontextmanager
async def _brought(checkpoint: Checkpoint, engine: Engine, line: str | None) -> AsyncGenerator[None]:
    """The weights in the engine and proven, for as long as the row is switched. What was live answers again when that
    fails, at any line. Raises Unproven or AdapterInvalid."""
    if await engine.serving() == loading.weights_of(checkpoint):
        await _bring(checkpoint, engine, line)
        yield
        return
    async with loading.exchanging():
        try:
            await _bring(checkpoint, engine, line)
            yield
        except BaseException:
            await _give_back(engine)
            raise


async def _bring(checkpoint: Checkpoint, engine: Engine, line: str | None) -> None:
    """Load, beside whatever is live or in its place, and probe. Raises Unproven or AdapterInvalid."""
    live = await sync_to_async(Checkpoint.live)(line)
    before = await _answer(live, checkpoint, engine)
    if await engine.serving() != loading.weights_of(checkpoint):
        if checkpoint.kind == Checkpoint.Kind.FULL:
            await sync_to_async(checksums.verify)(checkpoint)
        await loading.exchange(checkpoint, engine)
    if checkpoint.kind == Checkpoint.Kind.BASE:
        return  # the engine cannot run without it
    if checkpoint.kind == Checkpoint.Kind.LORA:
        await loading.load(checkpoint, engine)
    proof = await loading.prove(checkpoint, engine, previous=live, before=before)
    if not proof.passed:
        raise Unproven(proof.sentence)
    loading.believe(checkpoint, engine)
    log.info("%s: %s", checkpoint, proof.sentence)
    await _warm(checkpoint, live, engine)


async def _answer(live: Checkpoint, checkpoint: Checkpoint, engine: Engine) -> Sequence[float] | None:
    """What the engine gives a checkpoint's probe with the weights that are live now; None where it does not have them,
    or where they are the same, or the base, which the proof looks at anyhow."""
    probe = checkpoint.probe
    if live.pk == checkpoint.pk or live.kind == Checkpoint.Kind.BASE or not probe.get("logprobs"):
        return None
    try:
        ids = probe["prompt_ids"], probe["response_ids"]
        return (await engine.score(*ids, adapter=live.adapter, priority=loading.PRIORITY)).logprobs
    except EngineRefused:
        return None


async def _warm(checkpoint: Checkpoint, live: Checkpoint, engine: Engine) -> None:
    """Read what the newest conversations begin with, under the new weights, so that the first reply need not."""
    newest = live.turns.exclude(prompt_ids=[]).order_by("-created_at").values_list("prompt_ids", flat=True)[:4]
    prompts = [ids[:LONGEST_PREFIX] async for ids in newest]
    columns = zip(*prompts, strict=False) if len(prompts) > 1 else ()
    prefix = [column[0] for column in takewhile(lambda column: len(set(column)) == 1, columns)]
    if len(prefix) > 1:
        with suppress(EngineRefused, EngineUnavailable):  # a kindness, and no condition
            await engine.score(prefix[:-1], prefix[-1:], adapter=checkpoint.adapter, priority=loading.PRIORITY)


async def _give_back(engine: Engine) -> None:
    """Have what is live answer again, after an exchange that came to nothing; the caller has the lock. What cannot be
    done now the next repair does."""
    try:
        live = await sync_to_async(Checkpoint.live)()
        if await engine.serving() != loading.weights_of(live):
            await loading.exchange(live, engine)
    except Exception as failure:  # the failure that led here is the one to tell
        log.error("what was live is not in place again, the sweep will see to it: %s", failure)


@transaction.atomic
def _switch(
    checkpoint: Checkpoint,
    verb: str,
    by: User | None,
    reason: str,
    instead_of: Checkpoint | None = None,
    line: str | None = None,
    set_aside: SetAside | None = None,
) -> Checkpoint:
    """The swap itself: one row retires, one goes live, one says who did it. A line that steps back to where it started
    has no live row of its own then."""
    Checkpoint.objects.select_for_update().get(number=0)  # swaps queue here, one at a time
    checkpoint = Checkpoint.objects.get(pk=checkpoint.pk)
    line = line or checkpoint.line_id
    live = Checkpoint.live(line)
    if live.pk == checkpoint.pk:
        return checkpoint
    if checkpoint.let_go_at is not None:  # meanwhile: retention waits for the same lock
        raise IllegalMove(_gone(checkpoint))
    if instead_of is not None and live.pk != instead_of.pk:
        said = _("%(before)s is not live any more, %(live)s is: nothing was changed.")
        raise IllegalMove(said % {"before": instead_of, "live": live})
    is_own = checkpoint.line_id == line
    if is_own:
        checkpoint.go_live()
    else:
        live.move(Checkpoint.Status.RETIRED)
    Decision.objects.create(checkpoint=checkpoint, line_id=None if is_own else line, verb=verb, by=by, reason=reason)
    if set_aside is not None:
        set_aside(live, by=by, reason=reason)
    return checkpoint


def _undone(checkpoint: Checkpoint, by: User | None, why: str) -> None:
    """Note a swap that came to nothing: the checkpoint is rejected, and operators hear of it."""
    checkpoint.decide(Checkpoint.Status.REJECTED, by=by, reason=why)
    said = SAYS["not gone live"] % {"checkpoint": checkpoint, "live": Checkpoint.live(checkpoint.line_id)}
    notices.tell(
        f"swap {checkpoint.line_id}",
        f"{said} {why}",
        checkpoint=checkpoint,
    )


def _gone(checkpoint: Checkpoint) -> str:
    said = _("%(checkpoint)s was let go of on %(day)s: its weights are not on this disk any more.")
    return said % {"checkpoint": checkpoint, "day": f"{checkpoint.let_go_at:%Y-%m-%d}"}
