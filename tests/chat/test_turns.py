"""What was said is kept, word for word and token for token, and what comes back is paired with what it answers."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async

from chat import asking, turns
from chat.models import Session, Turn
from chat.rendering.renderer import Renderer
from chat.replying import replies
from chat.requests import Ask
from checkpoints.models import Checkpoint
from gpu_workers.errors import EngineGarbled
from gpu_workers.types import Sampling
from tests.chat.conftest import assistant, open_turn, reply_to, user

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


HI = [user("Say hello")]


async def test_the_message_is_stored_before_anything_is_generated(session, engine):
    turn = await open_turn(session, HI)

    stored = await Turn.objects.select_related("checkpoint").aget(pk=turn.pk)
    assert stored.status == Turn.Status.ANSWERING
    assert stored.messages == HI
    assert stored.checkpoint.status == Checkpoint.Status.LIVE
    assert not engine.calls


async def test_the_row_keeps_what_the_engine_gave(session, engine, tiny_model):
    engine.says("Hello, captain.", to="Say hello")
    renderer = Renderer.for_model(tiny_model)
    ids = [*renderer.encode("Hello, captain."), 2]

    turn = await reply_to(await open_turn(session, HI), engine)

    [asked] = engine.asked("stream")
    assert asked.prompt_ids == tuple(turn.prompt_ids) == tuple(renderer.prompt_ids(HI))
    assert asked.request_id == turn.completion_id
    assert turn.status == Turn.Status.SERVED
    assert turn.text == "Hello, captain."
    assert turn.response_ids == ids
    assert turn.logprobs == list(engine.logprobs(turn.prompt_ids, ids, None))
    assert turn.finish_reason == "stop"
    assert turn.served_at is not None
    assert turn.is_trainable


async def test_the_turn_is_served_before_its_last_piece_is_read(session, engine):
    turn = await open_turn(session, HI)
    async for delta in replies.reply(turn, engine):
        if delta.finish_reason:
            assert (await Turn.objects.aget(pk=turn.pk)).status == Turn.Status.SERVED


async def test_a_reply_cut_at_its_length_is_served_and_does_not_teach_itself(session, engine):
    engine.says("A long story that goes on and on.")
    turn = await reply_to(await open_turn(session, HI, sampling=Sampling(max_new_tokens=3)), engine)
    assert turn.status == Turn.Status.SERVED
    assert turn.finish_reason == "length"
    assert not turn.is_trainable


async def test_lengths_that_disagree_raise(session, engine):
    class Forgetful(type(engine)):
        async def stream(self, *args, **kwargs):
            async for delta in super().stream(*args, **kwargs):
                yield type(delta)(delta.text, delta.ids, (), delta.finish_reason)

    engine.__class__ = Forgetful
    with pytest.raises(EngineGarbled, match="0 log-probs for 1 tokens"):
        await reply_to(turn := await open_turn(session, HI), engine)
    turn = await Turn.objects.aget(pk=turn.pk)
    assert turn.status == Turn.Status.CLOSED
    assert turn.finish_reason == "error"


async def test_the_next_message_observes_the_turn_it_continues(session, engine):
    first = await reply_to(await open_turn(session, HI), engine)
    back = [*HI, assistant(first.text), user("No, in French.")]

    second = await open_turn(session, back)

    first = await Turn.objects.aget(pk=first.pk)
    assert second.follows_id == first.pk
    assert first.status == Turn.Status.OBSERVED
    assert first.next_state == [user("No, in French.")]
    assert first.observed_at is not None


@pytest.mark.parametrize(
    "messages",
    [
        HI,  # the same again: another try
        [user("Say goodbye")],  # an edit of what was asked
        [*HI, assistant("Something it never said."), user("Well?")],  # a foreign history
    ],
)
async def test_what_does_not_continue_a_reply_says_nothing_of_it(session, engine, messages):
    first = await reply_to(await open_turn(session, HI), engine)
    await open_turn(session, messages)
    assert (await Turn.objects.aget(pk=first.pk)).status == Turn.Status.SERVED


async def test_a_side_request_says_nothing_of_the_reply(key, engine):
    @sync_to_async
    def ask(messages, turn_type):
        request = Ask(messages, Sampling(), Checkpoint.live(), session_id="s1", turn_type=turn_type)
        return asking.open_turns(key, request)[0]

    first = await reply_to(await ask(HI, "main"), engine)
    title = [*HI, assistant(first.text), user("Give this chat a title.")]
    side = await ask(title, "side")
    assert (await Turn.objects.aget(pk=first.pk)).status == Turn.Status.SERVED
    side = await reply_to(side, engine)
    assert side.chain == ""
    assert not side.is_trainable


async def test_a_second_answer_to_the_same_reply_changes_nothing(session, engine):
    first = await reply_to(await open_turn(session, HI), engine)
    for words in ("No, in French.", "No, in Dutch."):
        await reply_to(await open_turn(session, [*HI, assistant(first.text), user(words)]), engine)
    assert (await Turn.objects.aget(pk=first.pk)).next_state == [user("No, in French.")]


async def test_a_message_after_feedback_is_evidence_as_well(session, engine):
    first = await reply_to(await open_turn(session, HI), engine)
    await sync_to_async(turns.reopen)(first)
    before = (await Turn.objects.aget(pk=first.pk)).observed_at
    await open_turn(session, [*HI, assistant(first.text), user("Better!")])
    first = await Turn.objects.aget(pk=first.pk)
    assert first.next_state == [user("Better!")]
    assert first.observed_at > before


async def test_all_parallel_tool_results_come_back_together(session, engine):
    first = await reply_to(await open_turn(session, HI), engine)
    results = [{"role": "tool", "tool_call_id": name, "content": name} for name in ("a", "b")]
    await open_turn(session, [*HI, assistant(first.text), *results])
    assert (await Turn.objects.aget(pk=first.pk)).next_state == results


async def test_off_the_record_nothing_is_due_for_a_verdict(ana, engine):
    session = await Session.objects.acreate(user=ana, learns=False)
    first = await reply_to(await open_turn(session, HI), engine)
    await open_turn(session, [*HI, assistant(first.text), user("Thanks.")])
    assert (await Turn.objects.aget(pk=first.pk)).status == Turn.Status.SERVED


async def test_going_off_the_record_opens_the_verdicts_that_stand(session, engine):
    turn = await reply_to(await open_turn(session, HI), engine)
    await sync_to_async(turn.move)(Turn.Status.OBSERVED)
    await sync_to_async(turn.move)(Turn.Status.JUDGED)

    await sync_to_async(turns.set_learning)(session, False)

    turn = await Turn.objects.select_related("session").aget(pk=turn.pk)
    assert turn.status == Turn.Status.OBSERVED
    assert not turn.is_trainable


async def test_the_same_message_sent_twice_is_one_turn(session, engine):
    first = await open_turn(session, HI, completion_id="chatcmpl-1")
    second = await open_turn(session, HI, completion_id="chatcmpl-1")
    assert first.pk == second.pk
    assert (first.repeated, second.repeated) == (False, True)
    assert await session.turns.acount() == 1


async def test_a_second_message_waits_for_the_reply(session, engine):
    await open_turn(session, HI)
    with pytest.raises(turns.TurnUnfinished, match="still being written"):
        await open_turn(session, [user("Hurry")])
    assert await session.turns.acount() == 1


async def test_what_does_not_fit_the_window_is_refused_in_words_that_clients_know(session):
    with pytest.raises(turns.ContextTooLong) as refusal:
        await open_turn(session, [user("word " * 3000)])
    assert str(refusal.value).startswith("This model's maximum context length is 2048 tokens. However, you requested ")
    assert await session.turns.acount() == 0


async def test_a_long_prompt_leaves_the_reply_what_room_there_is(session):
    turn = await open_turn(session, [user("x " * 900)], sampling=Sampling(max_new_tokens=5000))
    assert turn.sampling["max_new_tokens"] == 2048 - len(turn.prompt_ids)


async def test_nothing_said_is_nothing_to_answer(session):
    with pytest.raises(turns.NothingSaid):
        await open_turn(session, [{"role": "system", "content": "Be brief."}])


@pytest.mark.parametrize(
    ("words", "title"),
    [
        ("Hello", "Hello"),
        ("  two\n lines ", "two lines"),
        ("a" * 61, "a" * 60 + "…"),
        ("word " * 20, "word word word word word word word word word word word word…"),
    ],
)
def test_a_conversation_is_called_by_its_first_words(words, title):
    assert turns.title_of([user(words)]) == title
