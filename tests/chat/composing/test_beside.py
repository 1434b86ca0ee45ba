"""Compare with: the same prompt by another checkpoint, side by side; the one that is kept is preferred."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async

from chat.composing import beside
from chat.models import Turn
from checkpoints.models import Checkpoint
from tests.chat.conftest import assistant, open_turn, reply_to, until, user

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

HI = [user("What is a rainbow?")]


@pytest.fixture
def retired(engine) -> Checkpoint:
    engine.loaded["talkback-7"] = "anywhere"
    return Checkpoint.objects.create(number=7, status="retired", adapter="talkback-7", path="checkpoints/7")


@pytest.fixture
async def old(session, engine) -> Turn:
    engine.says("An arc.")
    return await reply_to(await open_turn(session, HI), engine)


async def compared(page, old: Turn, number: int = 7) -> Turn:
    answer = await page.post(f"/turns/{old.pk}/compare/with/", {"checkpoint": number})
    assert (answer.status_code, answer["Location"]) == (302, f"/turns/{old.pk}/beside/")

    async def is_over() -> bool:
        return not await Turn.objects.filter(status="answering").aexists()

    await until(is_over, "the reply")
    return await Turn.objects.select_related("session", "checkpoint").order_by("-position").afirst()


async def test_another_checkpoint_answers_the_very_prompt_and_both_are_shown(page, engine, session, retired, old):
    engine.says("A bow of seven colours.")
    new = await compared(page, old)
    first, second = engine.asked("stream")
    assert (second.prompt_ids, second.adapter) == (first.prompt_ids, "talkback-7")
    assert (new.checkpoint, new.text) == (retired, "A bow of seven colours.")
    html = (await page.get(f"/turns/{old.pk}/beside/")).content.decode()
    for seen in ("What is a rainbow?", "An arc.", "A bow of seven colours.", "talkback@0", "talkback@7"):
        assert seen in html
    assert html.count("Keep this one") == 2


async def test_to_compare_says_nothing_against_a_reply_and_shows_no_other_branch(page, engine, session, retired, old):
    new = await compared(page, old)
    await old.arefresh_from_db()
    await session.arefresh_from_db()
    assert (old.marks, new.marks) == ([], [])
    assert new.asked == {"event": "comparison", "of": old.completion_id}
    assert session.head == old.pk
    html = (await page.get(f"/chats/{session.pk}/")).content.decode()
    assert f'id="turn-{old.pk}"' in html
    assert 'aria-label="Try 1 of 2"' in html


@pytest.mark.parametrize("kept", ["the other", "the first"])
async def test_the_one_that_is_kept_is_preferred_and_the_chat_goes_on_from_it(
    page, engine, session, retired, old, kept
):
    new = await compared(page, old)
    chosen, left = (new, old) if kept == "the other" else (old, new)
    answer = await page.post(f"/turns/{chosen.pk}/keep/")
    assert answer["Location"] == f"/chats/{session.pk}/#turn-{chosen.pk}"
    for turn in (chosen, left):
        await turn.arefresh_from_db()
    assert (chosen.marks, left.marks) == ([], ["regenerated"])
    await session.arefresh_from_db()
    assert session.head == chosen.pk
    follow = await open_turn(session, [*HI, assistant(chosen.text), user("Thank you.")], follows=chosen)
    assert follow.follows_id == chosen.pk


async def test_a_choice_can_be_changed(page, engine, session, retired, old):
    new = await compared(page, old)
    await page.post(f"/turns/{new.pk}/keep/")
    await page.post(f"/turns/{old.pk}/keep/")
    for turn in (new, old):
        await turn.arefresh_from_db()
    assert (old.marks, new.marks) == ([], ["regenerated"])


async def test_what_is_being_written_is_looked_at_again_until_it_ends(page, engine, session, retired, old, htmx):
    engine.says("A bow of seven colours.")
    engine.hold(after=2)
    await page.post(f"/turns/{old.pk}/compare/with/", {"checkpoint": 7})
    part = (await page.get(f"/turns/{old.pk}/beside/", headers=htmx)).content.decode()
    assert "every 1s" in part
    assert "Being written" in part
    assert "<html" not in part
    engine.release()

    async def is_over() -> bool:
        return not await Turn.objects.filter(status="answering").aexists()

    await until(is_over, "the reply")
    assert "every 1s" not in (await page.get(f"/turns/{old.pk}/beside/", headers=htmx)).content.decode()


async def test_with_whom_it_may_be_compared_is_brought_on_first_use(page, session, old, htmx):
    html = (await page.get(f"/turns/{old.pk}/compare/", headers=htmx)).content.decode()
    assert "There is no other checkpoint yet." in html
    await Checkpoint.objects.acreate(number=7, status="retired", adapter="talkback-7", path="checkpoints/7")
    await Checkpoint.objects.acreate(number=8, status="candidate", adapter="talkback-8", path="checkpoints/8")
    html = (await page.get(f"/turns/{old.pk}/compare/", headers=htmx)).content.decode()
    assert '<option value="7">' in html
    assert '<option value="8">' not in html
    assert '<option value="0">' not in html  # its own


async def test_what_cannot_be_compared_says_why(page, engine, session, retired, old, monkeypatch):
    answer = await page.post(f"/turns/{old.pk}/compare/with/", {"checkpoint": 99})
    assert (answer.status_code, "This checkpoint does not answer you." in answer.content.decode()) == (409, True)
    monkeypatch.setattr(beside, "MOST", 1)
    answer = await page.post(f"/turns/{old.pk}/compare/with/", {"checkpoint": 7})
    assert "There are 1 replies to this message already" in answer.content.decode()
    assert await Turn.objects.acount() == 1


async def test_other_peoples_replies_are_not_compared_or_kept(async_client, ben, old, retired):
    await sync_to_async(async_client.force_login)(ben)
    for path in ("compare/", "beside/"):
        assert (await async_client.get(f"/turns/{old.pk}/{path}")).status_code == 404
    for path in ("compare/with/", "keep/"):
        assert (await async_client.post(f"/turns/{old.pk}/{path}", {"checkpoint": 7})).status_code == 404
