"""The life of a turn around its reply: opened before it, observed when something comes back."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from chat import sessions
from chat.models import Session, Turn
from chat.rendering import Renderer
from core.errors import TalkbackError
from gpu_workers.types import Sampling
from training.models import Checkpoint

Message = sessions.Message

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
        self.window, self.asked = window, asked


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


def title_of(said: Sequence[Message]) -> str:
    """What a conversation is called until somebody names it: the first words said."""
    words = next((message["content"] for message in said if message.get("content")), "")
    line = " ".join(words.split())
    return line if len(line) <= 60 else line[:60].rsplit(" ", 1)[0] + "…"
