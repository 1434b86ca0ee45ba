"""A chat that is being taught, and where its controls are."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Locator, Page

from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from judge.models import Judgement
from tests.browser.fitting import becomes
from training.models import Sample

LONG = "\n\n".join(
    f"A rainbow is an arc of light in {n} colours. Rain and sun make it together, and the eye sees it in the sky."
    for n in range(1, 4)
)


def say_in(session: Session, position: int, **fields: Any) -> Turn:
    fields = {"status": "served", "finish_reason": "stop", "text": LONG, "response_ids": [1, 2]} | fields
    messages = [{"role": "user", "content": f"What is a rainbow? ({position + 1})"}]
    return Turn.objects.create(
        session=session,
        position=position,
        follows=session.turns.last(),
        checkpoint=Checkpoint.live(),
        messages=messages,
        **fields,
    )


def judge(turn: Turn, reward: int | None, *, lesson: bool = True, **fields: Any) -> Judgement:
    """A verdict by votes, with the sample it made."""
    sample = None
    if lesson:
        ids = {"prompt_ids": [5], "response_ids": [1, 2], "behaviour_logprobs": [-1.0, -1.0]}
        sample = Sample.objects.create(checkpoint=turn.checkpoint, reward=float(reward or 0), **ids)
    Turn.objects.filter(pk=turn.pk).update(status="judged")
    return Judgement.objects.create(turn=turn, reward=reward, reward_from="votes", sample=sample, **fields)


async def article(tab: Page, position: int) -> Locator:
    return tab.locator("#turns > article").nth(position)


SCROLLED = """() => [document.scrollingElement.scrollTop, document.scrollingElement.scrollLeft, document.body.scrollTop,
    document.querySelector(".scroll").scrollLeft, document.querySelector(".chats").scrollLeft,
    document.scrollingElement.scrollHeight - window.innerHeight]"""
"""How far anything but the list of messages is scrolled, or could be."""


async def stays(tab: Page) -> None:
    await becomes(tab, SCROLLED, [0] * 6)
