"""The blind question in a real browser: answered and taken back by keyboard, in its place."""

from __future__ import annotations

import pytest

from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from evaluation import blind
from evaluation.models import BlindChoice, Shadow

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]


@pytest.fixture
def pair(ana) -> Shadow:
    """A turn that both answered; what was learned is not live, so that the scripted engine answers as ever."""
    learned = Checkpoint.objects.create(number=1, status="retired", adapter="talkback-1", path="checkpoints/1")
    turn = Turn.objects.create(
        session=Session.objects.create(user=ana, title="Sky"),
        position=0,
        status=Turn.Status.JUDGED,
        checkpoint=learned,
        messages=[{"role": "user", "content": "Why is the sky blue?"}],
        text="Air scatters blue light most.",
        response_ids=[8, 9, 2],
        finish_reason="stop",
    )
    base = Checkpoint.objects.get(number=0)
    return Shadow.objects.create(turn=turn, checkpoint=base, text="It is blue.", finish_reason="stop")


async def test_a_key_answers_and_another_takes_it_back(open_tab, pair):
    tab = await open_tab("/helped/")
    question = tab.locator("#blind")
    await expect(question).to_contain_text("Why is the sky blue?")
    await tab.keyboard.press("a")
    await expect(question).to_contain_text("You have seen every pair there is.")
    assert (await BlindChoice.objects.aget()).picked == ("shadow" if blind.is_swapped(pair.pk) else "reply")
    await tab.keyboard.press("u")
    await expect(question).to_contain_text("Why is the sky blue?")
    assert not await BlindChoice.objects.aexists()
    await tab.keyboard.press("s")
    await expect(question).to_contain_text("Skipped: 1.")
