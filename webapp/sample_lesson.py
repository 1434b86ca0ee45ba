"""Ask four questions and teach the replies one wish: a first lesson that takes a minute or two."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.db.models import QuerySet

from chat import asking
from chat.models import Turn
from chat.replying import replies
from chat.requests import Ask, PageSession
from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from feedback.models import Feedback
from gpu_workers.engine.interface import Engine
from gpu_workers.types import Sampling

log = logging.getLogger(__name__)

QUESTIONS = ("Why is the sky blue?", "What is a rainbow?", "How do bees make honey?", "Why do leaves turn red?")
WISH = "Answer in one short sentence."
MAX_NEW_TOKENS = 96
"""Enough to see that a reply is long. One that is cut teaches what is asked for all the same."""

WHOLE = (Turn.Status.SERVED, Turn.Status.OBSERVED, Turn.Status.JUDGED)


@dataclass(frozen=True)
class Progress:
    """How far one person's sample lesson is."""

    asked: int = 0
    written: int = 0
    """Replies that are whole."""
    taught: int = 0
    """Of these, those of which the person said the wish."""
    judged: int = 0
    """Of these, those that became a lesson, or have a reason why not."""
    total: int = len(QUESTIONS)


def turns_of(user: User) -> QuerySet[Turn]:
    """The turns of this person's sample lesson."""
    return Turn.objects.visible_to(user).filter(completion_id__startswith=f"{prefix(user)}-")


def prefix(user: User) -> str:
    return f"chatcmpl-sample-{user.pk}"


def progress(user: User) -> Progress:
    """Where this person stands. Two queries at most."""
    states = dict(turns_of(user).exclude(status=Turn.Status.CLOSED).values_list("pk", "status"))
    if not states:
        return Progress()
    written = [pk for pk, status in states.items() if status in WHOLE]
    guided = Feedback.objects.filter(turn__in=written, kind=Feedback.Kind.GUIDANCE, withdrawn_at=None)
    taught = set(guided.values_list("turn", flat=True))
    judged = [pk for pk in taught if states[pk] == Turn.Status.JUDGED]
    return Progress(len(states), len(written), len(taught), len(judged))


def ask(user: User, engine: Engine) -> int:
    """Open a chat for each question that has no reply yet, and have the engine answer them. Returns how many."""
    opened = [open_question(user, at, question) for at, question in enumerate(QUESTIONS)]
    new = [turn for turn in opened if turn is not None and not turn.repeated]
    async_to_sync(answer)(new, engine)
    return len(new)


def open_question(user: User, at: int, question: str) -> Turn | None:
    """The turn of this question, in a chat of its own that is on the record; None where it has one."""
    asked = turns_of(user).filter(completion_id__startswith=f"{prefix(user)}-{at}-")
    if asked.exclude(status=Turn.Status.CLOSED).exists():
        return None
    page = PageSession(user, completion_id=f"{prefix(user)}-{at}-{asked.count()}", learns=True)
    sampling = Sampling(max_new_tokens=MAX_NEW_TOKENS)
    said = Ask([{"role": "user", "content": question}], sampling, Checkpoint.for_user(user), protocol="")
    (turn,) = asking.open_turns(page, said)
    return turn


async def answer(turns: Sequence[Turn], engine: Engine) -> None:
    """Have the engine write these replies side by side. One that fails is closed, and is asked again by a press."""

    async def write(turn: Turn) -> None:
        try:
            async with aclosing(replies.reply(turn, engine)) as pieces:
                async for _ in pieces:
                    pass
        except TalkbackError as failure:
            log.info("a sample question has no reply: %s", failure)

    try:
        await asyncio.gather(*map(write, turns))
    finally:
        await engine.aclose()  # this event loop ends here, and its connections with it


def teach(user: User) -> int:
    """Say the wish of each reply that is whole. Returns of how many it is said now."""
    written = list(turns_of(user).filter(status__in=WHOLE))
    for turn in written:
        Feedback.objects.give(turn, by=user, kind=Feedback.Kind.GUIDANCE, text=WISH)
    return len(written)
