"""Continue a reply that was cut: one reply on one row, of the same weights, whole or as it was before."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from chat import turns
from chat.models import Session, Turn
from chat.replying import continuing, writers
from tests.chat.conftest import assistant, open_turn, reply_to, until, user

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

HI = [user("Count to four.")]


@pytest.fixture
def cut(session: Session, engine):
    """A reply that its length limit ended after "One, two"."""

    async def answer(words: str = "One, two") -> Turn:
        engine.says(words, finish_reason="length")
        return await reply_to(await open_turn(session, HI), engine)

    return answer


async def settled(turn: Turn) -> Turn:
    async def is_over() -> bool:
        return await Turn.objects.filter(pk=turn.pk).exclude(status="answering").aexists()

    await until(is_over, "the end of the reply")
    return await Turn.objects.select_related("session", "checkpoint").aget(pk=turn.pk)


async def test_a_cut_reply_goes_on_where_it_ended_and_is_one_reply_that_may_teach(page, engine, cut, htmx):
    before = await cut("One, two 🙂")
    assert not before.is_trainable
    engine.says(", three, four.")

    answer = await page.post(f"/turns/{before.pk}/continue/", headers=htmx)

    assert answer.status_code == 204
    turn = await settled(before)
    assert (turn.status, turn.finish_reason, turn.text) == ("served", "stop", "One, two 🙂, three, four.")
    first, rest = engine.asked("stream")
    assert list(rest.prompt_ids) == [*before.prompt_ids, *before.response_ids]
    assert rest.adapter == first.adapter
    # As many log-probs as ids; those of the first part are as they were sampled, those of the rest as the engine gave.
    said = len(before.response_ids)
    assert len(turn.logprobs) == len(turn.response_ids) > said
    assert (turn.response_ids[:said], turn.logprobs[:said]) == (before.response_ids, before.logprobs)
    assert turn.logprobs[said:] == list(engine.logprobs(rest.prompt_ids, turn.response_ids[said:], rest.adapter))
    assert (turn.prompt_ids, turn.checkpoint_id) == (before.prompt_ids, before.checkpoint_id)
    assert turn.is_trainable
    assert turn.first_token_s == before.first_token_s
    assert await Turn.objects.acount() == 1


async def test_the_next_message_continues_what_was_continued(page, engine, cut, session):
    before = await cut()
    engine.says(", three.")
    await page.post(f"/turns/{before.pk}/continue/")
    turn = await settled(before)
    follow = await open_turn(session, [*HI, assistant("One, two, three."), user("Thank you.")])
    assert follow.follows_id == turn.pk


async def test_a_reply_may_be_cut_and_continued_again(page, engine, cut):
    before = await cut()
    for words in (", three", ", four"):
        engine.says(words, finish_reason="length")
        await page.post(f"/turns/{before.pk}/continue/")
        turn = await settled(before)
    assert (turn.text, turn.finish_reason) == ("One, two, three, four", "length")
    assert len(turn.logprobs) == len(turn.response_ids)


async def test_the_rest_has_a_limit_of_its_own(page, engine, cut):
    before = await cut()
    await page.post(f"/turns/{before.pk}/continue/")
    await settled(before)
    assert engine.asked("stream")[-1].sampling.max_new_tokens == turns.MAX_NEW_TOKENS


@pytest.mark.parametrize("how", ["next message", "thumb", "whole", "writing", "full window"])
async def test_what_cannot_be_continued_says_why_and_stays(page, engine, cut, session, htmx, how):
    turn = await cut()
    sentence = "Something was said of this reply already, or after it."
    if how == "next message":
        await reply_to(await open_turn(session, [*HI, assistant(turn.text), user("Go on.")], follows=turn), engine)
    elif how == "thumb":
        await page.post(f"/turns/{turn.pk}/feedback/", {"kind": "thumb", "value": 1})
    elif how == "whole":
        await Turn.objects.filter(pk=turn.pk).aupdate(finish_reason="stop")
        sentence = "Only a reply that was cut off at its length limit can be continued."
    elif how == "writing":
        await open_turn(session, [user("Something else.")])
        sentence = "The last reply is still being written"
    else:
        await Turn.objects.filter(pk=turn.pk).aupdate(prompt_ids=[5] * 100_000)
        sentence = "The conversation fills the model&#x27;s window: nothing more fits."
    asked = len(engine.asked("stream"))
    answer = await page.post(f"/turns/{turn.pk}/continue/", headers=htmx)
    assert answer.status_code == 409
    assert sentence in answer.content.decode()
    assert len(engine.asked("stream")) == asked
    assert (await Turn.objects.aget(pk=turn.pk)).text == "One, two"


async def test_other_peoples_replies_cannot_be_continued(async_client, ben, cut):
    turn = await cut()
    await sync_to_async(async_client.force_login)(ben)
    assert (await async_client.post(f"/turns/{turn.pk}/continue/")).status_code == 404


async def test_a_crash_in_the_middle_leaves_what_was_said_before_whole(page, engine, cut, monkeypatch):
    before = await cut()
    held = await sync_to_async(continuing.reopen_cut)(before, 100)
    await Turn.objects.filter(pk=held.pk).aupdate(writer="gone", moved_at=timezone.now() - timezone.timedelta(hours=1))

    assert await sync_to_async(writers.close_stranded)() == 1

    turn = await Turn.objects.select_related("session").aget(pk=before.pk)
    assert (turn.status, turn.finish_reason, turn.text) == ("served", "length", "One, two")
    assert (turn.response_ids, turn.logprobs, turn.chain) == (before.response_ids, before.logprobs, before.chain)
    html = (await page.get(f"/chats/{turn.session_id}/")).content.decode()
    assert "The server was stopped before it had written more." in html
    engine.says(", three.")
    await page.post(f"/turns/{turn.pk}/continue/")  # and it can be continued again
    assert (await settled(turn)).text == "One, two, three."


async def test_an_engine_that_is_away_leaves_what_was_said_before_whole(page, engine, cut):
    before = await cut()
    engine.goes_down()
    await page.post(f"/turns/{before.pk}/continue/")
    turn = await settled(before)
    assert (turn.status, turn.finish_reason, turn.text) == ("served", "length", "One, two")
    assert (turn.response_ids, turn.logprobs) == (before.response_ids, before.logprobs)
    assert "does not answer" in turn.error
    engine.comes_back()


async def test_a_stop_keeps_what_was_said_so_far_as_a_cut_reply(page, engine, cut, session):
    before = await cut()
    engine.says(", three, four, five, six.")
    engine.hold(after=4)
    await page.post(f"/turns/{before.pk}/continue/")
    await sync_to_async(engine.holding.wait)(10)
    await page.post(f"/chats/{session.pk}/stop/")
    turn = await settled(before)
    engine.release()
    assert (turn.status, turn.finish_reason) == ("served", "length")
    assert turn.text.startswith("One, two, t")
    assert len(turn.response_ids) == len(turn.logprobs) == len(before.response_ids) + 4


async def test_other_weights_do_not_finish_what_these_began(page, engine, cut):
    before = await cut()
    engine.weight_version = "another"
    engine.says(", three.")
    await page.post(f"/turns/{before.pk}/continue/")
    turn = await settled(before)
    assert (turn.text, turn.response_ids) == ("One, two", before.response_ids)
    assert "other weights" in turn.error


async def test_lengths_that_disagree_raise(cut):
    before = await cut()
    before.asked, before.status = {"continued": [3]}, Turn.Status.ANSWERING
    before.logprobs = before.logprobs[:-1]
    with pytest.raises(ValueError, match="log-probs"):
        continuing.Begun.of(before)
