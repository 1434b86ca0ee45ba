"""Going live: load beside the old weights, probe, switch, let go of what nobody uses. The way back is the same way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Case, F, Max, Q, QuerySet, When, Window
from django.db.models.functions import RowNumber

from core.errors import IllegalMove, TalkbackError
from gpu_workers import engines
from gpu_workers.engine import Engine
from gpu_workers.errors import AdapterInvalid, AdapterMissing, EngineRefused, EngineUnavailable, NoRoom
from training.models import SHARED, Checkpoint, Decision, Line

log = logging.getLogger(__name__)

WARM = 2
"""Retired checkpoints that stay loaded, so that the way back reads no file, and as many that wait for a person."""

PRIVATE_WARM = 1
"""The same for each private line: the engine's room is for those who answer."""

PRIORITY = 10
"""A swap is as urgent as a reply: people wait for both."""

LIMITS = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 1.5e-1, "nf4": 5e-1}
"""How far engine and learner may be apart on equal weights: mean |Δ log-prob| a token, by the coarser dtype."""

SHARE = 0.5
"""How much of the learner's change must be seen in the engine's answers; 0 is the base, 1 the adapter."""


class Unproven(TalkbackError):
    """The engine does not answer as the learner says these weights do; they do not go live."""

    code, status = "unproven", 422


@dataclass(frozen=True)
class Proof:
    """What the engine gave the fixed probe, held against the learner's word and against the base."""

    gap: float
    """Mean |engine − learner| a token, both with these weights."""
    limit: float
    shift: float
    """Mean |with these weights − base| a token, both by the engine."""
    share: float
    """How much of the learner's change over the base the engine shows: 1 all of it, 0 nothing."""

    @property
    def passed(self) -> bool:
        return self.gap <= self.limit and self.share >= SHARE

    @property
    def sentence(self) -> str:
        if self.share < SHARE:
            return (
                f"The engine answers the probe as if the adapter were not there: it shows {self.share:.0%} "
                f"of the learner's change (at least {SHARE:.0%} is needed)."
            )
        if self.gap > self.limit:
            return (
                f"The engine's log-probs are {self.gap:.4f} from the learner's on average; the limit is {self.limit:g}."
            )
        return (
            f"The engine's log-probs equal the learner's within {self.gap:.4f} (limit {self.limit:g}) "
            f"and are {self.shift:.4f} from the base's."
        )


def compare(
    engine: Sequence[float],  # with the adapter, by the engine
    base: Sequence[float],  # without it, by the engine
    learner: Sequence[float],  # with the adapter, by the learner
    learner_base: Sequence[float] | None = None,  # without it, by the learner
    *,
    dtype: str = "bfloat16",
) -> Proof:
    """Hold the engine's answer to the learner's. Lengths that disagree raise ValueError.

    The share is the slope of the engine's change on the learner's, Σ e·l / Σ l·l over the tokens: each side is
    measured from its own base where it is known, so that what the two do differently on equal weights cancels.

    >>> compare([-1.0, -2.0], [-1.5, -2.5], [-1.0, -2.0]).share
    1.0
    >>> compare([-1.5, -2.5], [-1.5, -2.5], [-1.0, -2.0]).share
    0.0
    """
    changes = list(zip(engine, base, strict=True))
    seen = [with_it - without for with_it, without in changes]
    said = [a - b for a, b in zip(learner, learner_base if learner_base else base, strict=True)]
    size = sum(change * change for change in said)
    return Proof(
        gap=sum(abs(a - b) for a, b in zip(engine, learner, strict=True)) / len(seen),
        limit=LIMITS.get(dtype, LIMITS["bfloat16"]),
        shift=sum(abs(change) for change in seen) / len(seen),
        share=sum(a * b for a, b in zip(seen, said, strict=True)) / size if size else 0.0,
    )


async def ensure_loaded(checkpoint: Checkpoint, engine: Engine, *, makes_room: bool = True) -> None:
    """Have the engine hold the checkpoint's adapter, under its own name; nothing to do for the base.

    In a full engine another makes room that has answered nobody for the longest time: with more lines than places,
    who talks has theirs. Raises AdapterInvalid when the files cannot be served, NoRoom when all places are in use.
    """
    if checkpoint.kind == Checkpoint.Kind.BASE:
        return
    if checkpoint.kind != Checkpoint.Kind.LORA or not checkpoint.adapter:
        raise AdapterInvalid(f"{checkpoint} has no adapter: only adapters are swapped beside what is running.")
    is_held = False
    while not is_held:
        try:
            await engine.load_adapter(checkpoint.adapter, str(checkpoint.folder))
            is_held = True
        except NoRoom:
            if not (makes_room and await _make_room(engine)):
                raise


async def _make_room(engine: Engine) -> bool:
    """Let the engine go of one adapter that nobody is being answered with, or examined: first of those that answer no
    line. False when there is none."""
    held = await engine.adapters()
    idle = Checkpoint.objects.filter(adapter__in=list(held)).exclude(turns__status="answering")
    idle = idle.exclude(status__in=(Checkpoint.Status.CANDIDATE, Checkpoint.Status.APPROVED)).annotate(
        answers=Case(When(status=Checkpoint.Status.LIVE, then=1), default=0), last=Max("turns__created_at")
    )
    victim = await idle.order_by("answers", F("last").asc(nulls_first=True), "moved_at").afirst()
    if victim is None:
        return False
    log.info("%s makes room for another in the engine", victim)
    with suppress(AdapterMissing):  # somebody else made room meanwhile
        await engine.unload_adapter(victim.adapter)
    return True


async def prove(checkpoint: Checkpoint, engine: Engine) -> Proof:
    """Ask the engine the checkpoint's fixed probe, with the adapter and without. It must be loaded."""
    probe = checkpoint.probe
    if not probe.get("logprobs"):
        raise Unproven(f"{checkpoint} came without a probe, so nobody can tell whether the engine answers with it.")
    prompt_ids, response_ids = probe["prompt_ids"], probe["response_ids"]
    answer, base, server = await asyncio.gather(
        engine.score(prompt_ids, response_ids, adapter=checkpoint.adapter, priority=PRIORITY),
        engine.score(prompt_ids, response_ids, priority=PRIORITY),
        engine.server_info(),
    )
    dtypes = {str(dtype) for dtype in (probe.get("dtype"), server.get("dtype")) if dtype}
    return compare(
        answer.logprobs,
        base.logprobs,
        probe["logprobs"],
        probe.get("base_logprobs"),
        dtype=max(dtypes, key=lambda dtype: LIMITS.get(dtype, 1.0), default="bfloat16"),
    )


async def promote(checkpoint: Checkpoint, *, by: User | None = None, reason: str = "") -> Checkpoint:
    """Put approved weights in front of people, without a request lost. Safe to call twice.

    Raises Unproven when the engine does not answer the probe as the learner does: the checkpoint is then rejected,
    with that sentence, and whatever was live stays so. Raises EngineUnavailable with nothing changed.
    """
    checkpoint = await Checkpoint.objects.aget(pk=checkpoint.pk)
    if checkpoint.status == Checkpoint.Status.LIVE:
        return checkpoint
    if checkpoint.status != Checkpoint.Status.APPROVED:
        raise IllegalMove(f"{checkpoint} is {checkpoint.status}: only what was approved goes live.")
    engine = engines.policy()
    try:
        await _bring(checkpoint, engine)
    except (Unproven, AdapterInvalid) as failure:
        await sync_to_async(reject)(checkpoint, by=by, reason=str(failure))
        await tidy(engine)
        raise Unproven(str(failure)) from failure
    checkpoint = await sync_to_async(_switch)(checkpoint, Decision.Verb.PROMOTE, by, reason)
    await tidy(engine)
    return checkpoint


async def roll_back(
    *,
    to: Checkpoint | None = None,
    by: User | None = None,
    reason: str = "",
    instead_of: Checkpoint | None = None,
    line: str | None = None,
) -> Checkpoint:
    """Have `to`, or else whatever was live before, answer from the next reply on. Recorded with who and why.

    `line` is the one that steps back: `to`'s own, and without either the shared one. A private line may step back to
    where it started as well.
    `instead_of` is what the person saw live: when somebody else was quicker, IllegalMove says so and nothing changes.
    Raises Unproven, with nothing changed, when the engine no longer answers the probe as it should.
    """
    line = line or (to.line_id if to is not None else SHARED)
    target = to or await sync_to_async(previous)(line)
    if target is None:
        raise IllegalMove("Nothing was live before this checkpoint, so there is nothing to roll back to.")
    target = await Checkpoint.objects.aget(pk=target.pk)
    if target.status not in (Checkpoint.Status.RETIRED, Checkpoint.Status.LIVE):
        raise IllegalMove(f"{target} is {target.status}: one can only roll back to what has been live.")
    if target.line_id != line and not await Line.objects.filter(name=line, start=target).aexists():
        raise IllegalMove(f"{target} belongs to another line: {line} steps back to its own, or to where it started.")
    engine = engines.policy()
    try:
        await _bring(target, engine)
    except AdapterInvalid as failure:
        raise Unproven(str(failure)) from failure
    target = await sync_to_async(_switch)(target, Decision.Verb.ROLL_BACK, by, reason, instead_of, line)
    await tidy(engine)
    return target


@transaction.atomic
def approve(checkpoint: Checkpoint, *, by: User | None, reason: str = "") -> None:
    """A person's yes. Promotion follows by itself. Of two people at once one wins; the other gets IllegalMove."""
    _decide(checkpoint, Checkpoint.Status.APPROVED, Decision.Verb.APPROVE, by, reason)


@transaction.atomic
def reject(checkpoint: Checkpoint, *, by: User | None, reason: str) -> None:
    """A person's no, or a proof that failed: these weights never answer. The reason is kept with them."""
    _decide(checkpoint, Checkpoint.Status.REJECTED, Decision.Verb.REJECT, by, reason)


async def repair() -> list[str]:
    """Have the engine hold what the rows say, whatever it forgot. Returns the names that had to be loaded again."""
    engine = engines.policy()
    held = await engine.adapters()
    await tidy(engine)  # first, so that there is room
    missing = [checkpoint async for checkpoint in wanted() if checkpoint.adapter and checkpoint.adapter not in held]
    missing.sort(key=lambda checkpoint: checkpoint.status != Checkpoint.Status.LIVE)
    for number, checkpoint in enumerate(missing):
        log.warning("the engine does not hold %s: loading it again", checkpoint.adapter)
        try:
            await ensure_loaded(checkpoint, engine, makes_room=False)
        except AdapterInvalid as failure:
            log.error("%s cannot be loaded again: %s", checkpoint, failure)
        except NoRoom:  # they are loaded when somebody is to be answered with them
            log.info("the engine is full: %d adapters are not held", len(missing) - number)
            return [one.adapter for one in missing[:number]]
    return [checkpoint.adapter for checkpoint in missing]


async def tidy(engine: Engine) -> None:
    """Let the engine go of adapters that answer nobody: not wanted, and with no reply still being written."""
    kept = {checkpoint.adapter async for checkpoint in wanted()}
    idle = Checkpoint.objects.exclude(turns__status="answering").exclude(status=Checkpoint.Status.CANDIDATE)
    ours = {checkpoint.adapter async for checkpoint in idle.exclude(adapter="")} - kept
    try:
        for name in ours & (await engine.adapters()).keys():
            await engine.unload_adapter(name)
    except AdapterMissing:
        pass  # another worker was tidying too
    except (EngineUnavailable, EngineRefused) as failure:
        log.warning("adapters were not tidied, the sweep will try again: %s", failure)


def wanted() -> QuerySet[Checkpoint]:
    """The checkpoints whose adapters the engine should hold: of each line who answers, who is about to, and the few
    next to them either way."""
    status = Checkpoint.Status
    latest = Window(RowNumber(), partition_by=[F("line"), F("status")], order_by=F("moved_at").desc())
    of_lines = Checkpoint.objects.filter(line__retired_at=None)
    sure = of_lines.filter(status__in=(status.LIVE, status.APPROVED)).values("pk")
    near = of_lines.filter(status__in=(status.PASSED, status.RETIRED)).annotate(place=latest)
    near = near.filter(Q(line=SHARED, place__lte=WARM) | Q(place__lte=PRIVATE_WARM))
    starts = Line.objects.filter(retired_at=None, start__isnull=False).values(
        "start"
    )  # they answer, or are the way back
    return Checkpoint.objects.filter(Q(pk__in=sure) | Q(pk__in=near.order_by().values("pk")) | Q(pk__in=starts))


def previous(line: str | None = SHARED) -> Checkpoint | None:
    """What a roll back of this line goes to: the checkpoint that was live before this one and was not itself rolled
    back; where it started, at first."""
    moves = Decision.objects.filter(verb__in=(Decision.Verb.PROMOTE, Decision.Verb.ROLL_BACK))
    of_line = moves.filter(Q(line=line) | Q(line=None, checkpoint__line=line)).order_by("at", "pk")
    start = Line.objects.filter(name=line).values_list("start__number", flat=True).first() or 0
    numbers = unwind([start, *of_line.values_list("checkpoint__number", flat=True)])
    return Checkpoint.objects.get(number=numbers[-2]) if len(numbers) > 1 else None


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


async def _bring(checkpoint: Checkpoint, engine: Engine) -> None:
    """Load and probe, beside whatever is live. Raises Unproven or AdapterInvalid."""
    await ensure_loaded(checkpoint, engine)
    if checkpoint.kind == Checkpoint.Kind.BASE:
        return  # the engine cannot run without it
    proof = await prove(checkpoint, engine)
    if not proof.passed:
        raise Unproven(proof.sentence)
    log.info("%s: %s", checkpoint, proof.sentence)


@transaction.atomic
def _switch(
    checkpoint: Checkpoint,
    verb: str,
    by: User | None,
    reason: str,
    instead_of: Checkpoint | None = None,
    line: str | None = None,
) -> Checkpoint:
    """The swap itself: one row retires, one goes live, one says who did it. A line that steps back to where it started
    has no live row of its own then."""
    Checkpoint.objects.select_for_update().get(number=0)  # swaps queue here, one at a time
    checkpoint = Checkpoint.objects.get(pk=checkpoint.pk)
    line = line or checkpoint.line_id
    live = Checkpoint.live(line)
    if live.pk == checkpoint.pk:
        return checkpoint
    if instead_of is not None and live.pk != instead_of.pk:
        raise IllegalMove(f"{instead_of} is not live any more, {live} is: nothing was changed.")
    is_own = checkpoint.line_id == line
    if is_own:
        checkpoint.go_live()
    else:
        live.move(Checkpoint.Status.RETIRED)
    Decision.objects.create(checkpoint=checkpoint, line_id=None if is_own else line, verb=verb, by=by, reason=reason)
    return checkpoint


def _decide(checkpoint: Checkpoint, to: str, verb: str, by: User | None, reason: str) -> None:
    current = Checkpoint.objects.get(pk=checkpoint.pk)
    try:
        current.move(to, reason=reason if to == Checkpoint.Status.REJECTED else current.reason)
    except IllegalMove as error:
        current.refresh_from_db()
        if current.status == Checkpoint.Status.CANDIDATE:
            raise IllegalMove(f"{current} is candidate: only what passed the gate is approved.") from error
        last = current.decisions.select_related("by").annotate(who=F("by__username")).first()
        said = f" ({last.verb} by {last.who})" if last and last.who else ""
        raise IllegalMove(f"{current} is already {current.status}{said}: nothing was changed.") from error
    Decision.objects.create(checkpoint=current, verb=verb, by=by, reason=reason)
    checkpoint.refresh_from_db()
