"""What an engine forgot is brought back to it; a line that it no longer answers for steps back to what it does."""

from __future__ import annotations

import logging

from asgiref.sync import sync_to_async

from checkpoints import loading, notices, promotion
from checkpoints.models import Checkpoint, Line
from checkpoints.rulings import SAYS
from core.errors import IllegalMove
from gpu_workers import engines
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import AdapterInvalid, AdapterMissing, NoRoom, WeightsExchanged

log = logging.getLogger(__name__)


async def repair() -> list[str]:
    """Have the engine hold what the rows say, whatever it forgot, and answer with it. Returns the names that had to be
    loaded again.

    What is live is proven again once its proof is old, or the engine was silent since. Where it fails twice, its line
    goes back to what does answer, and operators hear of it.
    """
    engine = engines.policy()
    try:
        await loading.restore(engine)
    except (AdapterInvalid, loading.AdapterUnverified) as failure:
        await _flee(await sync_to_async(Checkpoint.live)(), str(failure))
    again = await _hold(engine)
    await _doubt(engine)
    return again


async def _hold(engine: Engine) -> list[str]:
    """Have the engine hold the adapters that are wanted, as far as there is room. Returns those that were missing."""
    if await engine.serving():
        return []  # adapters are made for the base
    loaded = await engine.adapters()
    await loading.tidy(engine)  # first, so that there is room
    adapters = loading.wanted().filter(kind=Checkpoint.Kind.LORA).exclude(adapter="")
    missing = [checkpoint async for checkpoint in adapters if checkpoint.adapter not in loaded]
    missing.sort(key=lambda checkpoint: checkpoint.status != Checkpoint.Status.LIVE)
    for number, checkpoint in enumerate(missing):
        log.warning("the engine does not hold %s: loading it again", checkpoint.adapter)
        try:
            await loading.ensure_loaded(checkpoint, engine, makes_room=False)
        except (AdapterInvalid, loading.AdapterUnverified) as failure:  # where it is live, another is found below
            log.error("%s cannot be loaded again: %s", checkpoint, failure)
        except NoRoom:  # they are loaded when a person is to be answered with them
            log.info("the engine is full: %d adapters are not loaded", len(missing) - number)
            return [one.adapter for one in missing[:number]]
    return [checkpoint.adapter for checkpoint in missing]


async def _doubt(engine: Engine) -> None:
    """Prove again what answers in each line, where nothing vouches for it any more."""
    live = Checkpoint.objects.filter(status=Checkpoint.Status.LIVE).exclude(kind=Checkpoint.Kind.BASE)
    async for checkpoint in live:
        if not checkpoint.probe.get("logprobs") or loading.is_believed(checkpoint, engine):
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
            if loading.weights_of(checkpoint):
                async with loading.exchanging(wait_s=0):
                    await loading.exchange(checkpoint, engine)
            else:
                await engine.unload_adapter(checkpoint.adapter)
        if not loading.weights_of(checkpoint):
            await loading.load(checkpoint, engine, makes_room=False)
        proof = await loading.prove(checkpoint, engine)
        if proof.passed:
            loading.believe(checkpoint, engine)
            return ""
    if not loading.weights_of(checkpoint):
        await engine.unload_adapter(checkpoint.adapter)
    return proof.sentence


async def _flee(checkpoint: Checkpoint, why: str) -> None:
    """Have the line of a live checkpoint that the engine does not answer with go back to what it does answer with: as
    far as where it started, which for the shared line is the base and needs no proof."""
    line, said = checkpoint.line_id, f"{SAYS['not answered'] % {'checkpoint': checkpoint}} {why}"
    outcome = SAYS["not fled"]
    for find in (promotion.previous, _start):
        target = await sync_to_async(find)(line)
        if target is None or target.pk == checkpoint.pk:
            continue
        try:
            back = await promotion.roll_back(to=target, line=line, instead_of=checkpoint, reason=said)
        except loading.Unproven as failure:
            log.error("%s is no way back: %s", target, failure)
            continue
        except IllegalMove:
            return  # another process was quicker
        outcome = SAYS["fled"] % {"checkpoint": back}
        break
    await sync_to_async(notices.tell)(f"swap {line}", f"{said} {outcome}", level="error", checkpoint=checkpoint)


def _start(line: str | None) -> Checkpoint:
    start = Line.objects.filter(name=line).values_list("start__number", flat=True).first()
    return Checkpoint.objects.get(number=start or 0)
