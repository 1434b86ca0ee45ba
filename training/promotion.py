"""Going live: load beside the old weights, probe, switch, let go of what nobody uses. The way back is the same way.

Adapters lie beside one another. Full weights take each other's place: the engine first ends what it is answering, and
whoever asks meanwhile waits there. The row says who answers; what an engine holds is brought to it, never the other
way round (docs/swap.md).
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import takewhile
from pathlib import Path
from time import monotonic
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Case, F, Max, Q, QuerySet, When, Window
from django.db.models.functions import RowNumber

from core.errors import IllegalMove, TalkbackError
from gpu_workers import engines, fleet
from gpu_workers.engine import Engine
from gpu_workers.errors import (
    AdapterInvalid,
    AdapterMissing,
    EngineRefused,
    EngineUnavailable,
    NoRoom,
    WeightsExchanged,
)
from gpu_workers.stamps import BASE
from training import checksums, notices, proofs
from training.models import SHARED, Checkpoint, Decision, Line, Run, Sample, Trial

log = logging.getLogger(__name__)

WARM = 2
"""Retired checkpoints that stay loaded, so that the way back reads no file, and as many that wait for a person."""

PRIVATE_WARM = 1
"""The same for each private line: the engine's room is for those who answer."""

PRIORITY = 10
"""A swap is as urgent as a reply: people wait for both."""

PROVEN_S = 600.0
"""How long a proof is believed while nothing speaks against it: then, and after every silence of the engine, what is
live is proven again."""

EXCHANGE_S = 600.0
"""How long an exchange of full weights waits for another one to end."""

LONGEST_PREFIX = 2048
"""Tokens that are read before the first reply under new weights, at most."""

_believed: WeakKeyDictionary[Engine, dict[str, tuple[int, float]]] = WeakKeyDictionary()
"""Of each engine: the names it has answered for as it should, after how many of its failures, and when."""


class Doubtful(EngineUnavailable):
    """The engine says that it holds what it was asked for, and does not answer with it: nobody is answered."""


class Unproven(TalkbackError):
    """The engine does not answer as the learner says these weights do; they do not go live."""

    code, status = "unproven", 422


def weights_of(checkpoint: Checkpoint) -> str:
    """The full weights it answers with, by the name that the engine stamps its answers with; empty for the base, and
    for adapters on it."""
    return checkpoint.adapter if checkpoint.kind == Checkpoint.Kind.FULL else ""


async def ensure_loaded(checkpoint: Checkpoint, engine: Engine, *, makes_room: bool = True) -> None:
    """Have the engine answer for the checkpoint by its name. What has been live before is also proven again when it
    had to be loaded: an engine that was started anew answers nobody with weights that it only says it has.

    In a full engine another makes room that has answered nobody for the longest time: with more lines than places,
    who talks has theirs. Raises AdapterInvalid when the files cannot be served, or are not those that were written;
    NoRoom when all places are in use; WeightsExchanged when other full weights answer now; EngineUnavailable when the
    proof fails, or an exchange is under way.
    """
    if checkpoint.kind != Checkpoint.Kind.BASE and not checkpoint.adapter:
        raise AdapterInvalid(f"{checkpoint} has no name that the engine could know its weights by.")
    if await engine.serving() != weights_of(checkpoint):
        await _reach(checkpoint, engine)
    elif checkpoint.kind == Checkpoint.Kind.LORA and await _load(checkpoint, engine, makes_room=makes_room):
        await _prove_again(checkpoint, engine)


async def _reach(checkpoint: Checkpoint, engine: Engine) -> None:
    """Have weights answer that the first server does not serve: there, when they are live; else on the spare."""
    live = await sync_to_async(Checkpoint.live)()
    if weights_of(live) == weights_of(checkpoint):
        await restore(engine)
        await ensure_loaded(checkpoint, engine)
    elif engine.spare is None:
        raise WeightsExchanged(f"{live} answers with full weights of its own, so {checkpoint} cannot be asked now.")
    elif checkpoint.kind != Checkpoint.Kind.BASE:
        await sync_to_async(checksums.verify)(checkpoint)
        if checkpoint.kind == Checkpoint.Kind.FULL:
            engine.spare.know(checkpoint.adapter, str(checkpoint.folder))
        else:
            await engine.spare.load_adapter(checkpoint.adapter, str(checkpoint.folder))


async def _load(checkpoint: Checkpoint, engine: Engine, *, makes_room: bool = True) -> bool:
    """Have the engine hold an adapter; False when it says it does already."""
    if (await engine.adapters()).get(checkpoint.adapter) == str(checkpoint.folder):
        return False
    _believed.setdefault(engine, {}).pop(checkpoint.adapter, None)
    await sync_to_async(checksums.verify)(checkpoint)
    is_held = False
    while not is_held:
        try:
            await engine.load_adapter(checkpoint.adapter, str(checkpoint.folder))
            is_held = True
        except NoRoom:
            if not (makes_room and await _make_room(engine)):
                raise
    return True


async def _prove_again(checkpoint: Checkpoint, engine: Engine) -> None:
    """Prove what answers people, or may, and had to be loaded again. Raises Doubtful, and lets go of it, when it fails:
    who waits for it waits for the next repair, which has others answer. A candidate's proof is the exam's."""
    if checkpoint.status == Checkpoint.Status.CANDIDATE or not checkpoint.probe.get("logprobs"):
        return
    proof = await prove(checkpoint, engine)
    if proof.passed:
        _believe(checkpoint, engine)
        return
    if checkpoint.kind == Checkpoint.Kind.LORA:
        with suppress(AdapterMissing):
            await engine.unload_adapter(checkpoint.adapter)
    else:
        await engine.update_weights(settings.MODEL, version=BASE)
    raise Doubtful(f"The engine does not answer with {checkpoint}. {proof.sentence}")


def _believe(checkpoint: Checkpoint, engine: Engine) -> None:
    _believed.setdefault(engine, {})[checkpoint.adapter] = engine.failures, monotonic()


def _is_believed(checkpoint: Checkpoint, engine: Engine) -> bool:
    """True while the last proof holds: it is not old, and the engine has not been silent since."""
    failures, at = _believed.get(engine, {}).get(checkpoint.adapter, (-1, 0.0))
    return failures == engine.failures and monotonic() - at < PROVEN_S


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


async def prove(
    checkpoint: Checkpoint,
    engine: Engine,
    *,
    previous: Checkpoint | None = None,
    before: Sequence[float] | None = None,
) -> proofs.Proof:
    """Ask the engine the checkpoint's fixed probe, with the adapter and without. It must be loaded. Full weights are
    held against the base as the learner knew it: the engine does not have it beside them.

    `before` is what the engine gave this probe with the weights of `previous`, from which it must have moved. Of
    several servers each is asked; the proof is that of the one that does worst.
    """
    servers = await fleet.members(engine)
    proofs = await asyncio.gather(*(_prove(checkpoint, server, previous, before) for server in servers))
    return min(proofs, key=lambda proof: (proof.passed, proof.share, -proof.gap))


async def _prove(
    checkpoint: Checkpoint, engine: Engine, previous: Checkpoint | None, before: Sequence[float] | None
) -> proofs.Proof:
    probe = checkpoint.probe
    if not probe.get("logprobs"):
        raise Unproven(f"{checkpoint} came without a probe, so nobody can tell whether the engine answers with it.")
    prompt_ids, response_ids = probe["prompt_ids"], probe["response_ids"]

    async def base_logprobs() -> Sequence[float]:
        if weights_of(checkpoint):
            return list(probe.get("base_logprobs") or probe["logprobs"])
        return (await engine.score(prompt_ids, response_ids, priority=PRIORITY)).logprobs

    answer, base, server = await asyncio.gather(
        engine.score(prompt_ids, response_ids, adapter=checkpoint.adapter, priority=PRIORITY),
        base_logprobs(),
        engine.server_info(),
    )
    dtypes = {str(dtype) for dtype in (probe.get("dtype"), server.get("dtype")) if dtype}
    asked = ("prompt_ids", "response_ids")
    is_same = previous is not None and all(previous.probe.get(name) == probe[name] for name in asked)
    return proofs.compare(
        answer.logprobs,
        base,
        probe["logprobs"],
        probe.get("base_logprobs"),
        before=before,
        learner_before=previous.probe.get("logprobs") if previous is not None and is_same else None,
        dtype=proofs.coarser(dtypes),
    )


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
        raise IllegalMove(f"{checkpoint} is {checkpoint.status}: only what was approved goes live.")
    await sync_to_async(_check_place)(checkpoint)
    engine = engines.policy()
    try:
        async with _brought(checkpoint, engine, checkpoint.line_id):
            checkpoint = await sync_to_async(_switch)(checkpoint, Decision.Verb.PROMOTE, by, reason)
    except (Unproven, AdapterInvalid) as failure:
        await sync_to_async(_undone)(checkpoint, by, str(failure))
        await tidy(engine)
        raise Unproven(str(failure)) from failure
    await tidy(engine)
    return checkpoint


async def roll_back(
    *,
    to: Checkpoint | None = None,
    by: User | None = None,
    reason: str = "",
    instead_of: Checkpoint | None = None,
    line: str | None = None,
    sets_aside: bool = False,
) -> Checkpoint:
    """Have `to`, or else whatever was live before, answer from the next reply on. Recorded with who and why.

    `line` is the one that steps back: `to`'s own, and without either the shared one. A private line may step back to
    where it started as well.
    `instead_of` is what the person saw live: when somebody else was quicker, IllegalMove says so and nothing changes.
    `sets_aside`: no run learns from what the one that is left has served.
    Raises Unproven, with nothing changed, when the engine no longer answers the probe as it should.
    """
    line = line or (to.line_id if to is not None else SHARED)
    target = to or await sync_to_async(previous)(line)
    if target is None:
        raise IllegalMove("Nothing was live before this checkpoint, so there is nothing to roll back to.")
    target = await Checkpoint.objects.aget(pk=target.pk)
    if target.status not in (Checkpoint.Status.RETIRED, Checkpoint.Status.LIVE):
        raise IllegalMove(f"{target} is {target.status}: one can only roll back to what has been live.")
    if target.let_go_at is not None:
        raise IllegalMove(_gone(target))
    if target.line_id != line and not await Line.objects.filter(name=line, start=target).aexists():
        raise IllegalMove(f"{target} belongs to another line: {line} steps back to its own, or to where it started.")
    await sync_to_async(_check_place)(target, line)
    engine = engines.policy()
    try:
        async with _brought(target, engine, line):
            target = await sync_to_async(_switch)(
                target, Decision.Verb.ROLL_BACK, by, reason, instead_of, line, sets_aside
            )
    except AdapterInvalid as failure:
        raise Unproven(str(failure)) from failure
    await tidy(engine)
    return target


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


@transaction.atomic
def approve(checkpoint: Checkpoint, *, by: User | None, reason: str = "") -> None:
    """A person's yes. Promotion follows by itself. Of two people at once one wins; the other gets IllegalMove."""
    _decide(checkpoint, Checkpoint.Status.APPROVED, Decision.Verb.APPROVE, by, reason)


@transaction.atomic
def reject(checkpoint: Checkpoint, *, by: User | None, reason: str) -> None:
    """A person's no, or a proof that failed: these weights never answer. The reason is kept with them."""
    _decide(checkpoint, Checkpoint.Status.REJECTED, Decision.Verb.REJECT, by, reason)


async def repair() -> list[str]:
    """Have the engine hold what the rows say, whatever it forgot, and answer with it. Returns the names that had to be
    loaded again.

    What is live is proven again once its proof is old, or the engine was silent since. Where it fails twice, its line
    goes back to what does answer, and operators hear of it.
    """
    engine = engines.policy()
    try:
        await restore(engine)
    except (AdapterInvalid, Doubtful) as failure:
        await _flee(await sync_to_async(Checkpoint.live)(), str(failure))
    again = await _hold(engine)
    await _doubt(engine)
    return again


async def restore(engine: Engine) -> bool:
    """Have the first server serve the base, or the full weights, that the shared line's live checkpoint needs; True
    when it served others, as after a restart, or after a swap that was killed. Raises EngineUnavailable while an
    exchange is under way."""
    live = await sync_to_async(Checkpoint.live)()
    if await engine.serving() == weights_of(live):
        return False
    async with exchanging(wait_s=0):
        live = await sync_to_async(Checkpoint.live)()
        if await engine.serving() == weights_of(live):
            return False
        log.warning("the engine does not serve the weights of %s: they are put in place again", live)
        await _exchange(live, engine)
        if weights_of(live):
            await _prove_again(live, engine)
    return True


async def _hold(engine: Engine) -> list[str]:
    """Have the engine hold the adapters that are wanted, as far as there is room. Returns those that were missing."""
    if await engine.serving():
        return []  # adapters are made for the base
    held = await engine.adapters()
    await tidy(engine)  # first, so that there is room
    adapters = wanted().filter(kind=Checkpoint.Kind.LORA).exclude(adapter="")
    missing = [checkpoint async for checkpoint in adapters if checkpoint.adapter not in held]
    missing.sort(key=lambda checkpoint: checkpoint.status != Checkpoint.Status.LIVE)
    for number, checkpoint in enumerate(missing):
        log.warning("the engine does not hold %s: loading it again", checkpoint.adapter)
        try:
            await ensure_loaded(checkpoint, engine, makes_room=False)
        except (AdapterInvalid, Doubtful) as failure:  # where it is live, another is found below
            log.error("%s cannot be loaded again: %s", checkpoint, failure)
        except NoRoom:  # they are loaded when somebody is to be answered with them
            log.info("the engine is full: %d adapters are not held", len(missing) - number)
            return [one.adapter for one in missing[:number]]
    return [checkpoint.adapter for checkpoint in missing]


async def _doubt(engine: Engine) -> None:
    """Prove again what answers in each line, where nothing vouches for it any more."""
    live = Checkpoint.objects.filter(status=Checkpoint.Status.LIVE).exclude(kind=Checkpoint.Kind.BASE)
    async for checkpoint in live:
        if not checkpoint.probe.get("logprobs") or _is_believed(checkpoint, engine):
            continue
        try:
            sentence = await _doubted(checkpoint, engine)
        except (NoRoom, WeightsExchanged):  # it is loaded, or put in place, when it is asked for
            continue
        except (AdapterInvalid, AdapterMissing) as failure:
            sentence = str(failure)
        if sentence:
            await _flee(checkpoint, sentence)


async def _doubted(checkpoint: Checkpoint, engine: Engine) -> str:
    """Why the engine does not answer with a live checkpoint, even once it was loaded anew; empty when it does."""
    for is_second in (False, True):
        if is_second:
            log.error("the engine does not answer with %s: it is loaded again", checkpoint)
            if weights_of(checkpoint):
                async with exchanging(wait_s=0):
                    await _exchange(checkpoint, engine)
            else:
                await engine.unload_adapter(checkpoint.adapter)
        if not weights_of(checkpoint):
            await _load(checkpoint, engine, makes_room=False)
        proof = await prove(checkpoint, engine)
        if proof.passed:
            _believe(checkpoint, engine)
            return ""
    if not weights_of(checkpoint):
        await engine.unload_adapter(checkpoint.adapter)
    return proof.sentence


async def _flee(checkpoint: Checkpoint, why: str) -> None:
    """Have the line of a live checkpoint that the engine does not answer with go back to what it does answer with: as
    far as where it started, which for the shared line is the base and needs no proof."""
    line, said = checkpoint.line_id, f"The engine does not answer with {checkpoint}. {why}"
    outcome = "Nothing answers instead: look at the engine."
    for find in (previous, _start):
        target = await sync_to_async(find)(line)
        if target is None or target.pk == checkpoint.pk:
            continue
        try:
            back = await roll_back(to=target, line=line, instead_of=checkpoint, reason=said)
        except Unproven as failure:
            log.error("%s is no way back: %s", target, failure)
            continue
        except IllegalMove:
            return  # somebody was quicker
        outcome = f"{back} answers instead."
        break
    await sync_to_async(notices.tell)(f"swap {line}", f"{said} {outcome}", level="error", checkpoint=checkpoint)


def _start(line: str | None) -> Checkpoint:
    start = Line.objects.filter(name=line).values_list("start__number", flat=True).first()
    return Checkpoint.objects.get(number=start or 0)


async def tidy(engine: Engine) -> None:
    """Let the engine go of adapters that answer nobody: not wanted, and with no reply still being written."""
    kept = {checkpoint.adapter async for checkpoint in wanted()}
    idle = Checkpoint.objects.exclude(turns__status="answering").exclude(status=Checkpoint.Status.CANDIDATE)
    ours = {checkpoint.adapter async for checkpoint in idle.exclude(adapter="")} - kept
    try:
        for name in ours & (await fleet.held(engine)).keys():
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
    tried = Trial.objects.filter(ended_at=None).order_by().values("checkpoint")
    return Checkpoint.objects.filter(
        Q(pk__in=sure) | Q(pk__in=near.order_by().values("pk")) | Q(pk__in=starts) | Q(pk__in=tried)
    )


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


def _check_place(checkpoint: Checkpoint, line: str | None = None) -> None:
    """Raises IllegalMove for weights that cannot answer beside what answers in other lines."""
    line = line or checkpoint.line_id
    if checkpoint.kind == Checkpoint.Kind.FULL:
        if line != SHARED:
            raise IllegalMove(
                f"{checkpoint} has full weights, and those answer everybody: a private line has adapters."
            )
        if other := Line.objects.filter(retired_at=None).exclude(name=SHARED).first():
            raise IllegalMove(
                f"{checkpoint} has full weights, and {other} answers with an adapter on the base: retire that line "
                "first, or train an adapter."
            )
    elif line != SHARED and weights_of(Checkpoint.live()):
        raise IllegalMove(
            f"{Checkpoint.live()} answers everybody with full weights, so {checkpoint} cannot answer in {line}: roll "
            "the shared line back to an adapter, or to the base, first."
        )


@asynccontextmanager
async def _brought(checkpoint: Checkpoint, engine: Engine, line: str | None) -> AsyncGenerator[None]:
    """The weights in the engine and proven, for as long as the row is switched. What was live answers again when that
    fails, at any line. Raises Unproven or AdapterInvalid."""
    if await engine.serving() == weights_of(checkpoint):
        await _bring(checkpoint, engine, line)
        yield
        return
    async with exchanging():
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
    if await engine.serving() != weights_of(checkpoint):
        if checkpoint.kind == Checkpoint.Kind.FULL:
            await sync_to_async(checksums.verify)(checkpoint)
        await _exchange(checkpoint, engine)
    if checkpoint.kind == Checkpoint.Kind.BASE:
        return  # the engine cannot run without it
    if checkpoint.kind == Checkpoint.Kind.LORA:
        await _load(checkpoint, engine)
    proof = await prove(checkpoint, engine, previous=live, before=before)
    if not proof.passed:
        raise Unproven(proof.sentence)
    _believe(checkpoint, engine)
    log.info("%s: %s", checkpoint, proof.sentence)
    await _warm(checkpoint, live, engine)


async def _answer(live: Checkpoint, checkpoint: Checkpoint, engine: Engine) -> Sequence[float] | None:
    """What the engine gives a checkpoint's probe with the weights that are live now; None where it does not have them,
    or where they are the same, or the base, which the proof looks at anyhow."""
    probe = checkpoint.probe
    if live.pk == checkpoint.pk or live.kind == Checkpoint.Kind.BASE or not probe.get("logprobs"):
        return None
    try:
        asked = engine.score(probe["prompt_ids"], probe["response_ids"], adapter=live.adapter, priority=PRIORITY)
        return (await asked).logprobs
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
            await engine.score(prefix[:-1], prefix[-1:], adapter=checkpoint.adapter, priority=PRIORITY)


async def _exchange(to: Checkpoint, engine: Engine) -> None:
    """Put full weights, or the base, in place of what is served. Raises AdapterInvalid, with nothing changed."""
    name = weights_of(to)
    _believed.pop(engine, None)
    await engine.update_weights(str(to.folder) if name else settings.MODEL, version=name or BASE)


async def _give_back(engine: Engine) -> None:
    """Have what is live answer again, after an exchange that came to nothing; the caller has the lock. What cannot be
    done now the next repair does."""
    try:
        live = await sync_to_async(Checkpoint.live)()
        if await engine.serving() != weights_of(live):
            await _exchange(live, engine)
    except Exception as failure:  # the failure that led here is the one to tell
        log.error("what was live is not in place again, the sweep will see to it: %s", failure)


@asynccontextmanager
async def exchanging(wait_s: float = EXCHANGE_S) -> AsyncGenerator[None]:
    """Be the only one on this machine that exchanges full weights. The kernel ends it with the process. Raises
    EngineUnavailable when another one goes on for longer than `wait_s`."""
    path = Path(settings.DATA_DIR) / "exchange.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    until = monotonic() + wait_s
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if monotonic() >= until:
                    raise EngineUnavailable("Weights are being exchanged: ask again in a moment.") from None
            await asyncio.sleep(0.1)
        yield


@transaction.atomic
def _switch(
    checkpoint: Checkpoint,
    verb: str,
    by: User | None,
    reason: str,
    instead_of: Checkpoint | None = None,
    line: str | None = None,
    sets_aside: bool = False,
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
        raise IllegalMove(f"{instead_of} is not live any more, {live} is: nothing was changed.")
    is_own = checkpoint.line_id == line
    if is_own:
        checkpoint.go_live()
    else:
        live.move(Checkpoint.Status.RETIRED)
    Decision.objects.create(checkpoint=checkpoint, line_id=None if is_own else line, verb=verb, by=by, reason=reason)
    if sets_aside:
        set_aside(live, by=by, reason=reason)
    return checkpoint


def _undone(checkpoint: Checkpoint, by: User | None, why: str) -> None:
    """Note a swap that came to nothing: the checkpoint is rejected, and operators hear of it."""
    reject(checkpoint, by=by, reason=why)
    notices.tell(
        f"swap {checkpoint.line_id}",
        f"{checkpoint} did not go live, and {Checkpoint.live(checkpoint.line_id)} answers as before. {why}",
        checkpoint=checkpoint,
    )


def _gone(checkpoint: Checkpoint) -> str:
    return f"{checkpoint} was let go of on {checkpoint.let_go_at:%Y-%m-%d}: its weights are not on this disk any more."


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
