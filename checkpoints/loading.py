"""Loading brings what an engine has loaded to what the rows say: it loads, proves, exchanges and unloads weights.

Adapters lie beside one another. Full weights take each other's place: the engine first ends what it is answering, and
a request that comes meanwhile waits there. The row says who answers; what an engine has loaded is brought to it,
never the other way round (docs/explanation/swap.md).
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db.models import Case, F, Max, Q, QuerySet, When, Window
from django.db.models.functions import RowNumber
from django.utils.translation import gettext_noop

from checkpoints import checksums, proofs, rulings
from checkpoints.models import SHARED, Checkpoint, Line, Trial
from core.errors import TalkbackError
from gpu_workers.engine import fleet
from gpu_workers.engine.interface import Engine
from gpu_workers.engine.stamps import BASE
from gpu_workers.errors import (
    AdapterInvalid,
    AdapterMissing,
    EngineRefused,
    EngineUnavailable,
    NoRoom,
    WeightsExchanged,
)

log = logging.getLogger(__name__)

SAYS = {
    "nameless": gettext_noop("%(checkpoint)s has no name that the engine could know its weights by."),
    "exchanged": gettext_noop("%(live)s answers with full weights of its own, so %(checkpoint)s cannot be asked now."),
    "no probe": gettext_noop(
        "%(checkpoint)s came without a probe, so it cannot be told whether the engine answers with it."
    ),
    "exchanging": gettext_noop("Weights are being exchanged: ask again in a moment."),
}
"""What a row may keep."""

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

_believed: WeakKeyDictionary[Engine, dict[str, tuple[int, float]]] = WeakKeyDictionary()
"""Of each engine: the names it has answered for as it should, after how many of its failures, and when."""


class AdapterUnverified(EngineUnavailable):
    """The engine reports the adapter as loaded and does not answer with it: no person is answered."""


class Unproven(TalkbackError):
    """The engine does not answer as the learner says these weights do; they do not go live."""

    code, status = "unproven", 422


def weights_of(checkpoint: Checkpoint) -> str:
    """The full weights it answers with, by the name that the engine stamps its answers with; empty for the base, and
    for adapters on it."""
    return checkpoint.adapter if checkpoint.kind == Checkpoint.Kind.FULL else ""


async def ensure_loaded(checkpoint: Checkpoint, engine: Engine, *, makes_room: bool = True) -> None:
    """Have the engine answer for the checkpoint by its name. What has been live before is also proven again when it
    had to be loaded: an engine that was started anew answers no person with weights that it only says it has.

    In a full engine another makes room that has been idle for the longest time: with more lines than places,
    who talks has theirs. Raises AdapterInvalid when the files cannot be served, or are not those that were written;
    NoRoom when all places are in use; WeightsExchanged when other full weights answer now; EngineUnavailable when the
    proof fails, or an exchange is under way.
    """
    if checkpoint.kind != Checkpoint.Kind.BASE and not checkpoint.adapter:
        said = SAYS["nameless"]
        raise AdapterInvalid(said % {"checkpoint": checkpoint})
    if await engine.serving() != weights_of(checkpoint):
        await _reach(checkpoint, engine)
    elif checkpoint.kind == Checkpoint.Kind.LORA and await load(checkpoint, engine, makes_room=makes_room):
        await _prove_again(checkpoint, engine)


async def _reach(checkpoint: Checkpoint, engine: Engine) -> None:
    """Have weights answer that the first server does not serve: there, when they are live; else on the spare."""
    live = await sync_to_async(Checkpoint.live)()
    if weights_of(live) == weights_of(checkpoint):
        await restore(engine)
        await ensure_loaded(checkpoint, engine)
    elif engine.spare is None:
        said = SAYS["exchanged"]
        raise WeightsExchanged(said % {"live": live, "checkpoint": checkpoint})
    elif checkpoint.kind != Checkpoint.Kind.BASE:
        await sync_to_async(checksums.verify)(checkpoint)
        if checkpoint.kind == Checkpoint.Kind.FULL:
            engine.spare.know(checkpoint.adapter, str(checkpoint.folder))
        else:
            await engine.spare.load_adapter(checkpoint.adapter, str(checkpoint.folder))


async def load(checkpoint: Checkpoint, engine: Engine, *, makes_room: bool = True) -> bool:
    """Have the engine load an adapter; False when it says it has already. Raises AdapterInvalid, and NoRoom."""
    if (await engine.adapters()).get(checkpoint.adapter) == str(checkpoint.folder):
        return False
    _believed.setdefault(engine, {}).pop(checkpoint.adapter, None)
    await sync_to_async(checksums.verify)(checkpoint)
    is_loaded = False
    while not is_loaded:
        try:
            await engine.load_adapter(checkpoint.adapter, str(checkpoint.folder))
            is_loaded = True
        except NoRoom:
            if not (makes_room and await _make_room(engine)):
                raise
    return True


async def _prove_again(checkpoint: Checkpoint, engine: Engine) -> None:
    """Prove what answers people, or may, and had to be loaded again. Raises AdapterUnverified, and
    unloads it, when it fails: a reply that needs it waits for the next repair, which has others answer. A candidate's
    proof is the exam's."""
    if checkpoint.status == Checkpoint.Status.CANDIDATE or not checkpoint.probe.get("logprobs"):
        return
    proof = await prove(checkpoint, engine)
    if proof.passed:
        believe(checkpoint, engine)
        return
    if checkpoint.kind == Checkpoint.Kind.LORA:
        with suppress(AdapterMissing):
            await engine.unload_adapter(checkpoint.adapter)
    else:
        await engine.update_weights(settings.MODEL, version=BASE)
    said = rulings.SAYS["not answered"] % {"checkpoint": checkpoint}
    raise AdapterUnverified(f"{said} {proof.sentence}")


def believe(checkpoint: Checkpoint, engine: Engine) -> None:
    """Note that the engine answered for it as it should, just now."""
    _believed.setdefault(engine, {})[checkpoint.adapter] = engine.failures, monotonic()


def is_believed(checkpoint: Checkpoint, engine: Engine) -> bool:
    """True while the last proof holds: it is not old, and the engine has not been silent since."""
    failures, at = _believed.get(engine, {}).get(checkpoint.adapter, (-1, 0.0))
    return failures == engine.failures and monotonic() - at < PROVEN_S


async def _make_room(engine: Engine) -> bool:
    """Unload one adapter that is neither answering a person nor being examined: first of those that
    answer no line. False when there is none."""
    loaded = await engine.adapters()
    idle = Checkpoint.objects.filter(adapter__in=list(loaded)).exclude(turns__status="answering")
    idle = idle.exclude(status__in=(Checkpoint.Status.CANDIDATE, Checkpoint.Status.APPROVED)).annotate(
        answers=Case(When(status=Checkpoint.Status.LIVE, then=1), default=0), last=Max("turns__created_at")
    )
    victim = await idle.order_by("answers", F("last").asc(nulls_first=True), "moved_at").afirst()
    if victim is None:
        return False
    log.info("%s makes room for another in the engine", victim)
    with suppress(AdapterMissing):  # another process made room meanwhile
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
    compared with the base as the learner knew it: the engine does not have it beside them.

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
        said = SAYS["no probe"]
        raise Unproven(said % {"checkpoint": checkpoint})
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
        await exchange(live, engine)
        if weights_of(live):
            await _prove_again(live, engine)
    return True


async def exchange(to: Checkpoint, engine: Engine) -> None:
    """Put full weights, or the base, in place of what is served. Raises AdapterInvalid, with nothing changed."""
    name = weights_of(to)
    _believed.pop(engine, None)
    await engine.update_weights(str(to.folder) if name else settings.MODEL, version=name or BASE)


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
                    raise EngineUnavailable(SAYS["exchanging"]) from None
            await asyncio.sleep(0.1)
        yield


async def tidy(engine: Engine) -> None:
    """Unload adapters that are not in use: not wanted, and with no reply still being written."""
    kept = {checkpoint.adapter async for checkpoint in wanted()}
    idle = Checkpoint.objects.exclude(turns__status="answering").exclude(status=Checkpoint.Status.CANDIDATE)
    ours = {checkpoint.adapter async for checkpoint in idle.exclude(adapter="")} - kept
    try:
        for name in ours & (await fleet.loaded_adapters(engine)).keys():
            await engine.unload_adapter(name)
    except AdapterMissing:
        pass  # another worker was tidying too
    except (EngineUnavailable, EngineRefused) as failure:
        log.warning("adapters were not tidied, the sweep will try again: %s", failure)


def wanted() -> QuerySet[Checkpoint]:
    """Select the checkpoints whose adapters the engine should have loaded: of each line the one that answers, the
    one that is about to, and the few next to them either way."""
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
