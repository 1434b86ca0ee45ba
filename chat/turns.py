"""The life of a turn while it is spoken: opened, answered, and observed when something comes back."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from chat import sessions
from chat.models import Session, Turn
from chat.rendering import Renderer
from core.errors import IllegalMove, TalkbackError
from gpu_workers.engine import Engine
from gpu_workers.errors import AdapterMissing, EngineRefused, EngineUnavailable, KeyRefused
from gpu_workers.types import Delta, Sampling
from training.models import Checkpoint
from training.promotion import ensure_loaded

log = logging.getLogger(__name__)

Message = sessions.Message

PRIORITY = 10
"""People wait for a reply: it goes before the gate and the judge."""

BEAT_S = 3.0
"""How often a reply under way says that somebody is still writing it."""

SILENCE_S = 60.0
"""A reply whose writer has not been heard of for so long has none."""

PATIENCE_S = 60.0
"""How long a reply waits for an engine that does not answer, as long as nothing of it was said."""

MAX_NEW_TOKENS = 512
"""The longest reply, unless the client asks for another length."""


class TurnUnfinished(TalkbackError):
    """A reply is still being written."""

    code, status = "reply_unfinished", 409


class ContextTooLong(TalkbackError):
    """The conversation does not fit the model's window. The wording is OpenAI's: clients act on it."""

    code, status = "context_length_exceeded", 400

    def __init__(self, window: int, asked: int) -> None:
        super().__init__(
            f"This model's maximum context length is {window} tokens. However, you requested {asked} tokens. "
            "Shorten the messages, or start a new conversation."
        )


class NothingSaid(TalkbackError):
    """There is nothing to reply to."""

    code, status = "invalid_messages", 400


def open_turn(
    session: Session,
    messages: Sequence[Message],
    *,
    sampling: Sampling | None = None,
    tools: Sequence[dict[str, Any]] = (),
    follows: Turn | None = None,
    line: str = Turn.Line.MAIN,
    learns: bool = True,
    completion_id: str | None = None,
    checkpoint: Checkpoint | None = None,
    alone: bool = False,
) -> Turn:
    """Store what was said, before anything is generated, and have the live checkpoint answer it.

    The turn this continues (`follows`, or the one whose history the messages extend) is observed. Asking again
    with the same `completion_id` gives the turn that is there already, `repeated`. `alone` refuses a second reply
    while one is being written. Raises ContextTooLong, MessagesRefused, NothingSaid or TurnUnfinished; nothing is
    stored then.
    """
    messages = [dict(message) for message in messages]
    if not any(message["role"] in sessions.NEXT_STATE for message in messages):
        raise NothingSaid("There is nothing to reply to: give at least one message of a user.")
    renderer = Renderer.for_model(settings.MODEL)
    prompt_ids = renderer.prompt_ids(messages, list(tools) or None)
    room = renderer.context_length - len(prompt_ids)
    if room < 1:
        raise ContextTooLong(renderer.context_length, len(prompt_ids) + 1)
    sampling = sampling or Sampling(max_new_tokens=MAX_NEW_TOKENS)
    asked = asdict(sampling) | {"max_new_tokens": min(sampling.max_new_tokens, room)}

    with transaction.atomic():
        Session.objects.select_for_update().get(pk=session.pk)  # turns of one session queue here
        completion_id = completion_id or f"chatcmpl-{uuid.uuid4().hex}"
        if there := session.turns.filter(completion_id=completion_id).first():
            there.repeated = True
            return there
        if alone and session.turns.filter(status=Turn.Status.ANSWERING).exists():
            raise TurnUnfinished("The last reply is still being written: stop it, or wait for its end.")
        follows = follows or sessions.continued(session.turns.all(), messages)
        last = session.turns.aggregate(last=Max("position"))["last"]
        turn = Turn.objects.create(
            completion_id=completion_id,
            session=session,
            follows=follows,
            position=0 if last is None else last + 1,
            line=line,
            learns=learns,
            checkpoint=checkpoint or Checkpoint.live(),
            messages=messages,
            tools=list(tools),
            prompt_ids=prompt_ids,
            sampling=asked,
        )
        said = sessions.split(messages)[1]
        if follows is not None and line == Turn.Line.MAIN and said:
            observe(follows, said)
        session.active_at, session.closed_at = timezone.now(), None
        session.title = session.title or title_of(said)
        session.save(update_fields=["active_at", "closed_at", "title"])
    return turn


def observe(turn: Turn, messages: Sequence[Message]) -> None:
    """These messages came back after the reply. Only the first ones count: another try, an edit of the same
    message or a branch says nothing new of this reply. A reply that was stopped or failed is not observed."""
    with transaction.atomic():
        turn = Turn.objects.select_for_update().select_related("session").get(pk=turn.pk)
        if turn.next_state or turn.line == Turn.Line.SIDE or not turn.is_whole:
            return
        reopen(turn, next_state=[dict(message) for message in messages])


def reopen(turn: Turn, **fields: object) -> None:
    """Evidence arrived or was taken back: a verdict on this turn is due, or due again.

    `observed_at` changes each time, so that a judge can tell that the evidence it read is no longer all of it.
    What is off the record keeps its fields and is never judged. Raises TurnUnfinished before the reply is whole.
    """
    with transaction.atomic():
        turn = Turn.objects.select_for_update().select_related("session").get(pk=turn.pk)
        fields["observed_at"] = timezone.now()
        if turn.status == Turn.Status.ANSWERING:
            raise TurnUnfinished("This reply is still being written: it can be judged when it is whole.")
        if turn.status == Turn.Status.OBSERVED or not (turn.learns and turn.session.learns):
            Turn.objects.filter(pk=turn.pk).update(**fields)
            turn.announce()
        else:
            turn.move(Turn.Status.OBSERVED, **fields)


@transaction.atomic
def set_learning(session: Session, learns: bool) -> None:
    """Put a session on or off the record. Off: verdicts that stand are opened again, so that what they made of
    these turns is taken back where it was not yet learned."""
    if learns:
        Session.objects.filter(pk=session.pk).update(learns=True)
    else:
        # The row first: a verdict that is being written locks it too, so it is either seen here or sees this.
        Session.objects.filter(pk=session.pk).update(learns=False)
        for turn in session.turns.filter(status=Turn.Status.JUDGED).select_for_update():
            turn.move(Turn.Status.OBSERVED, observed_at=timezone.now())
    session.learns = learns
    for turn in session.turns.exclude(status=Turn.Status.OBSERVED):
        turn.announce()


async def reply(turn: Turn, engine: Engine) -> AsyncGenerator[Delta, None]:
    """The reply, as it is sampled; the row keeps ids, log-probs and text exactly as the engine gave them.

    A delta without text says that the reply is still waited for. The last delta comes after the row is SERVED, so
    whoever reads it may speak of the turn at once. Leaving early aborts the engine and closes the turn, as does
    `stop`; a failure closes it with its sentence and raises.
    """
    turn = await Turn.objects.select_related("checkpoint").aget(pk=turn.pk)
    text = ""
    ids: list[int] = []
    logprobs: list[float] = []
    settled = False

    async def settle(status: str, reason: str, **fields: object) -> None:
        nonlocal settled
        settled = True
        said = {"text": text, "response_ids": ids, "logprobs": logprobs, "finish_reason": reason}
        await sync_to_async(finish)(turn, status, said | fields)

    try:
        async with aclosing(beating(attempts(turn, engine), BEAT_S)) as deltas:
            async for delta in deltas:
                if delta is None:
                    if not await still_wanted(turn, text):
                        await settle(Turn.Status.CLOSED, "abort")
                        yield Delta("", (), (), finish_reason="abort")
                        return
                    yield Delta("", (), ())
                    continue
                if len(delta.ids) != len(delta.logprobs):
                    raise EngineRefused(f"The engine gave {len(delta.logprobs)} log-probs for {len(delta.ids)} tokens.")
                text, ids, logprobs = text + delta.text, [*ids, *delta.ids], [*logprobs, *delta.logprobs]
                if delta.finish_reason:
                    whole = delta.finish_reason in ("stop", "length")
                    await settle(
                        Turn.Status.SERVED if whole else Turn.Status.CLOSED,
                        delta.finish_reason,
                        cached_tokens=delta.cached_tokens,
                        weight_version=delta.weight_version,
                    )
                yield delta
                if settled:
                    return
    except TalkbackError as failure:
        if not settled:
            await settle(Turn.Status.CLOSED, "error", error=str(failure))
        raise
    except Exception:
        if not settled:
            await settle(Turn.Status.CLOSED, "error", error="Something went wrong while this reply was written.")
        raise
    finally:
        if not settled:  # the reader left, or the process is going down
            await asyncio.shield(settle(Turn.Status.CLOSED, "abort"))


async def stop(turn: Turn, engine: Engine) -> None:
    """End a reply that is being written, wherever that is: it keeps what was said, and never teaches."""
    asked = Turn.objects.filter(pk=turn.pk, status=Turn.Status.ANSWERING)
    if not await asked.aupdate(finish_reason="abort"):
        return
    try:
        await engine.abort(turn.completion_id)
    except EngineUnavailable as failure:
        log.warning("turn %s ends at its next beat: %s", turn.pk, failure)
    await sync_to_async(close_stranded)(3 * BEAT_S, only=turn)  # where its writer is gone, nobody would hear this


def close_stranded(silence_s: float = SILENCE_S, *, only: Turn | None = None) -> int:
    """Close replies whose writer is gone: a killed web process leaves them unfinished. Returns how many."""
    unheard = timezone.now() - timedelta(seconds=silence_s)
    stranded = Turn.objects.filter(status=Turn.Status.ANSWERING, moved_at__lt=unheard)
    closed = 0
    for turn in stranded.filter(pk=only.pk) if only else stranded:
        said = {"finish_reason": turn.finish_reason or "error"}
        if not turn.finish_reason:
            said["error"] = "The server was stopped while it wrote this reply. Nothing else was lost: try again."
        try:
            turn.move(Turn.Status.CLOSED, **said)
            closed += 1
        except IllegalMove:
            pass  # its writer was slow, and has just finished it
    return closed


def finish(turn: Turn, status: str, said: dict[str, object]) -> None:
    """Write the reply down and leave ANSWERING. A turn that was closed meanwhile, or deleted, stays as it is."""
    if status == Turn.Status.SERVED:
        said["served_at"] = timezone.now()
        if turn.line == Turn.Line.MAIN:
            reply_message = {"role": "assistant", "content": said["text"]}
            said["chain"] = sessions.chain([*turn.messages, reply_message])
    try:
        turn.move(status, **said)
    except IllegalMove as gone:
        log.warning("reply not kept: %s", gone)


async def attempts(turn: Turn, engine: Engine) -> AsyncGenerator[Delta, None]:
    """The engine's stream. Until its first token an engine that is away is waited for, and weights it does not
    hold are brought to it: swaps and restarts cost time, never a reply."""
    checkpoint, began, pause_s = turn.checkpoint, monotonic(), 0.25
    sampling = dict(turn.sampling)
    sampling |= {name: tuple(sampling[name]) for name in ("stop", "stop_token_ids")}
    ask = partial(engine.stream, adapter=checkpoint.adapter or None, request_id=turn.completion_id, priority=PRIORITY)
    while True:
        spoken = False
        try:
            async with aclosing(ask(turn.prompt_ids, Sampling(**sampling))) as stream:  # type: ignore[type-var]
                async for delta in stream:
                    spoken = True
                    yield delta
            return
        except AdapterMissing:
            if spoken or monotonic() - began > PATIENCE_S:
                raise
            await ensure_loaded(checkpoint, engine)
        except EngineUnavailable as failure:
            if spoken or isinstance(failure, KeyRefused) or monotonic() - began > PATIENCE_S:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, 4.0)


async def beating(stream: AsyncGenerator[Delta, None], every_s: float) -> AsyncGenerator[Delta | None, None]:
    """The stream's items, and None whenever `every_s` seconds have passed since the last None."""
    coming: asyncio.Task[Delta] | None = None
    beat = monotonic() + every_s
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(stream))
            await asyncio.wait({coming}, timeout=max(0.0, beat - monotonic()))
            if monotonic() >= beat:
                beat = monotonic() + every_s
                yield None
            if coming.done():
                done, coming = coming, None
                try:
                    item = done.result()
                except StopAsyncIteration:
                    return
                yield item
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        await stream.aclose()


async def still_wanted(turn: Turn, text: str) -> bool:
    """Say that this reply is being written, and keep what there is of it. False: it was stopped, or deleted."""
    wanted = Turn.objects.filter(pk=turn.pk, status=Turn.Status.ANSWERING, finish_reason="")
    return bool(await wanted.aupdate(moved_at=timezone.now(), text=text))


def title_of(said: Sequence[Message]) -> str:
    """What a conversation is called until somebody names it: the first words said."""
    words = next((message["content"] for message in said if message.get("content")), "")
    line = " ".join(words.split())
    return line if len(line) <= 60 else line[:60].rsplit(" ", 1)[0] + "…"
