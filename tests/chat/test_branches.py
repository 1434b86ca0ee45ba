"""Edits and other tries are branches: each keeps its own history, and says nothing of a sibling's reply."""

from __future__ import annotations

import uuid

import pytest
from asgiref.sync import sync_to_async

from chat import branches
from chat.models import Session, Turn
from chat.requests import Ask
from tests.chat.conftest import assistant, open_turn, reply_to, user
from tests.chat.test_views import HI, all_spoken

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@pytest.fixture
async def talk(session, engine) -> list[Turn]:
    """Two turns, the second an answer to the first."""
    engine.says("Hello.")
    first = await reply_to(await open_turn(session, HI), engine)
    engine.says("Bonjour.")
    second = await reply_to(
        await open_turn(session, [*HI, assistant("Hello."), user("And in French?")], follows=first), engine
    )
    return [first, second]


async def say(page, session, text: str, *, after: Turn | None = None) -> Turn:
    body = {"text": text, "message_id": str(uuid.uuid4())} | ({"after": str(after.pk)} if after else {})
    answer = await page.post(f"/chats/{session.pk}/say/", body, headers={"HX-Request": "true"})
    assert answer.status_code == 200, answer.content
    await all_spoken()
    return await session.turns.alast()


async def press(page, turn: Turn, what: str, **body: str) -> Turn:
    """Edit a message, try a reply again, or show a branch; returns the session's newest turn."""
    answer = await page.post(f"/turns/{turn.pk}/{what}/", body)
    assert answer.status_code == 302, answer.content
    await all_spoken()
    return await Turn.objects.filter(session=turn.session_id).alast()


@sync_to_async
def shown(session: Session) -> list[Turn]:
    return branches.conversation(Session.objects.get(pk=session.pk)).turns


async def now(turn: Turn) -> Turn:
    return await Turn.objects.aget(pk=turn.pk)


async def test_an_edit_of_an_older_message_branches_and_the_old_one_stays_reachable(page, session, engine, talk):
    first, second = talk
    edited = await press(page, first, "edit", text="Say good night")

    assert (edited.messages, edited.follows_id) == ([user("Say good night")], None)
    [only] = await shown(session)
    assert (only.pk, only.wordings.place, only.wordings.total, only.tries) == (edited.pk, 2, 2, None)
    assert only.wordings.before == second.pk  # to the end of the other branch
    await press(page, edited, "show")
    await press(page, await now(second), "show")
    assert [turn.pk for turn in await shown(session)] == [first.pk, second.pk]
    assert (await shown(session))[0].wordings.place == 1


async def test_nothing_of_another_branch_is_sent_to_the_model(page, session, engine, talk):
    first, second = talk
    again = await press(page, first, "again")
    engine.says("Hallo.")
    further = await say(page, session, "And in German?")
    assert further.follows_id == again.pk
    assert further.messages == [*HI, assistant(again.text), user("And in German?")]

    await press(page, second, "show")
    onward = await say(page, session, "And in Spanish?")
    assert onward.follows_id == second.pk
    french = [*HI, assistant("Hello."), user("And in French?"), assistant("Bonjour.")]
    assert onward.messages == [*french, user("And in Spanish?")]


async def test_a_message_continues_what_its_own_page_shows(page, session, engine, talk):
    first, second = talk
    again = await press(page, first, "again")  # another tab: this one shows the second turn still
    onward = await say(page, session, "And in Spanish?", after=second)
    assert onward.follows_id == second.pk
    assert (await now(again)).next_state == []
    assert [turn.pk for turn in await shown(session)] == [first.pk, second.pk, onward.pk]


@pytest.mark.parametrize("what", ["again", "edit"])
async def test_a_branch_is_no_answer_to_a_sibling_nor_another_next_state(page, session, engine, talk, what):
    first, second = talk
    third = await say(page, session, "And in Spanish?")
    new = await press(page, second, what, text="And in Latin?")
    further = await say(page, session, "Too long!")

    assert (new.follows_id, further.follows_id) == (first.pk, new.pk)
    assert (await now(first)).next_state == [user("And in French?")]  # the first one counts
    assert (await now(second)).next_state == [user("And in Spanish?")]
    assert (await now(third)).next_state == []
    assert (await now(third)).status == Turn.Status.SERVED
    assert (await now(new)).next_state == [user("Too long!")]


async def test_an_edit_says_nothing_of_the_reply_before_it_and_a_retry_says_not_this_one(page, session, engine, talk):
    first, second = talk
    for n in range(25):  # further back than what is looked at of a request
        await say(page, session, f"More {n}")
    edited = await press(page, second, "edit", text="And in Latin?")
    assert edited.asked == {"event": "edit", "of": second.completion_id}
    assert (await now(second)).marks == []
    again = await press(page, first, "again")
    assert again.asked == {"event": "regeneration", "of": first.completion_id}
    assert (await now(first)).marks == ["regenerated"]


async def test_going_on_from_an_earlier_try_chooses_it(page, session, engine, talk):
    _, second = talk
    again = await press(page, second, "again")
    assert (await now(second)).marks == ["regenerated"]

    await press(page, second, "show")
    await say(page, session, "And in Spanish?")

    assert (await now(second)).marks == []
    assert (await now(again)).marks == ["regenerated"]


async def test_tries_and_wordings_have_a_switch_each(page, session, engine, talk):
    _, second = talk
    third = await press(page, second, "again")
    latin = await press(page, third, "edit", text="And in Latin?")
    _, end = await shown(session)
    assert (end.pk, end.wordings.place, end.wordings.total, end.tries) == (latin.pk, 2, 2, None)
    assert end.wordings.before == third.pk  # the branch that was last worked at
    await press(page, third, "show")
    _, end = await shown(session)
    assert (end.tries.place, end.tries.total, end.tries.before) == (2, 2, second.pk)
    html = (await page.get(f"/chats/{session.pk}/")).content.decode()
    assert html.count(">2/2<") == 1
    assert html.count(">1/2<") == 1


async def test_of_a_long_branch_the_newest_turns_are_shown_and_the_rest_is_asked_for(
    page, session, engine, talk, monkeypatch
):
    _, second = talk
    await press(page, second, "again")
    await press(page, second, "show")
    third = await say(page, session, "And in Spanish?")
    monkeypatch.setattr(branches, "SHOWN", 1)
    newest = await sync_to_async(branches.conversation)(await Session.objects.aget())
    assert ([turn.pk for turn in newest.turns], newest.earlier) == ([third.pk], 3)
    before = await sync_to_async(branches.conversation)(await Session.objects.aget(), 3)
    assert [turn.pk for turn in before.turns] == [second.pk]  # not the try at it, which stands between


@pytest.mark.parametrize("what", ["edit", "show", "again"])
async def test_branches_of_another_person_are_not_there(page, ben, engine, what):
    turn = await reply_to(await open_turn(await Session.objects.acreate(user=ben), HI), engine)
    answer = await page.post(f"/turns/{turn.pk}/{what}/", {"text": "Mine"})
    assert answer.status_code == 404
    assert await Turn.objects.acount() == 1


@pytest.mark.parametrize("what", ["edit", "again"])
async def test_a_clients_chat_is_not_branched_on_a_page(page, key, engine, what):
    from chat import asking
    from checkpoints.models import Checkpoint
    from gpu_workers.types import Sampling

    ask = Ask(HI, Sampling(max_new_tokens=8), await sync_to_async(Checkpoint.for_user)(key.user_id))
    [turn] = await sync_to_async(asking.open_turns)(key, ask)
    await reply_to(turn, engine)
    answer = await page.post(f"/turns/{turn.pk}/{what}/", {"text": "Mine"}, headers={"HX-Request": "true"})
    assert answer.status_code == 409
    assert await Turn.objects.acount() == 1


async def test_an_empty_edit_is_refused_and_stores_nothing(page, engine, talk, htmx):
    answer = await page.post(f"/turns/{talk[0].pk}/edit/", {"text": " "}, headers=htmx)
    assert answer.status_code == 422
    assert "Write something first." in answer.content.decode()
    assert await Turn.objects.acount() == 2


async def test_a_branch_whose_turns_are_gone_shows_the_newest(page, session, engine, talk):
    edited = await press(page, talk[0], "edit", text="Say good night")
    await Turn.objects.filter(pk=edited.pk).adelete()
    assert [turn.pk for turn in await shown(session)] == [turn.pk for turn in talk]
