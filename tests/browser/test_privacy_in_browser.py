"""The switches and the privacy page in a real browser: in place, by keyboard too, and without a page that complains."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async

from chat.models import Session, Turn
from chat.usual_consent import Consent
from checkpoints.models import Checkpoint
from judge.models import Judgement
from training.models import Sample

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]


@pytest.fixture
def judged(ana) -> Turn:
    """A reply whose sample waits."""
    turn = Turn.objects.create(
        session=Session.objects.create(user=ana, title="Paris"),
        position=0,
        status=Turn.Status.JUDGED,
        checkpoint=Checkpoint.live(),
        messages=[{"role": "user", "content": "What is the capital of France?"}],
        text="Paris, of course.",
        response_ids=[8, 9, 2],
        finish_reason="stop",
    )
    sample = Sample.objects.create(
        checkpoint=turn.checkpoint, prompt_ids=[5], response_ids=[8, 9, 2], behaviour_logprobs=[-1.0] * 3, reward=1.0
    )
    Judgement.objects.create(turn=turn, reward=1, reward_from="thumb", sample=sample)
    return turn


async def test_one_message_is_put_off_the_record_in_its_place_and_back(open_tab, judged):
    tab = await open_tab(f"/chats/{judged.session_id}/")
    switch = tab.locator(f"#record-{judged.pk} button")
    await switch.focus()
    await tab.keyboard.press("Enter")
    await expect(tab.locator(f"#record-{judged.pk}")).to_contain_text("is out of it")
    await expect(switch).to_have_attribute("aria-pressed", "true")
    assert not await Sample.objects.aexists()
    await switch.click()
    await expect(switch).to_have_attribute("aria-pressed", "false")
    assert (await Turn.objects.aget()).learns


async def test_a_chat_says_what_it_is_and_what_is_still_stored(open_tab, judged):
    tab = await open_tab(f"/chats/{judged.session_id}/")
    badge = tab.locator(".record > summary")
    await expect(badge).to_have_text("on the record")
    await badge.click()
    await tab.get_by_role("button", name="Don’t learn from this chat").click()
    await expect(badge).to_have_text("off the record")
    await expect(tab.locator(".note.good")).to_contain_text("nothing said here is learned from")
    await badge.click()
    await expect(tab.locator(".record")).to_contain_text("Still stored, until you delete it")
    assert not (await Session.objects.aget()).learns


async def test_a_text_is_tried_and_the_default_is_changed_on_the_privacy_page(open_tab, judged, ana):
    tab = await open_tab("/privacy/")
    await tab.get_by_label("Try it").fill("Write to bo@example.com.")
    await tab.get_by_role("button", name="Show what would be removed").click()
    await expect(tab.locator("#tried del")).to_have_text("bo@example.com")
    await expect(tab.locator("#tried ins")).to_have_text("[email 1]")
    await tab.get_by_role("button", name="Begin new chats off the record").click()
    await expect(tab.locator(".note.good")).to_contain_text("new chats and new keys begin off the record")
    assert not await sync_to_async(Consent.by_default)(ana)


async def test_everything_goes_only_with_the_word_typed(open_tab, judged):
    tab = await open_tab("/privacy/")
    await tab.get_by_text("Delete everything of mine …").click()
    await tab.get_by_role("button", name="Delete everything of mine").click()  # the browser asks for the word
    assert await Session.objects.acount() == 1
    await tab.get_by_label("to say that you are sure").fill("delete")
    await tab.get_by_role("button", name="Delete everything of mine").click()
    await expect(tab.locator("#erasure .note.good")).to_contain_text("Everything of yours is deleted")
    assert await Session.objects.acount() == 0
