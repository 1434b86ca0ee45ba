"""A chat's settings: what its person sets goes into the prompt, the sampling and the turn, and nothing else does."""

from __future__ import annotations

import uuid

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from chat.composing.defaults import ChatDefaults
from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from tests.chat.conftest import assistant, until, user
from training.provenance import retention

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

PIRATE = "You are a pirate.\nSay arr."
FIGURES = {"temperature": "0.2", "top_p": "0.9", "max_new_tokens": "64"}


@pytest.fixture
def settings_of(page, session):
    async def save(**said):
        return await page.post(f"/chats/{session.pk}/settings/", said)

    return save


@pytest.fixture
def ask(page, session):
    async def say(text: str, **more) -> Turn:
        message = {"text": text, "message_id": str(uuid.uuid4())} | more
        answer = await page.post(f"/chats/{session.pk}/say/", message, headers={"HX-Request": "true"})
        assert answer.status_code == 200, answer.content.decode()
        turn = await Turn.objects.select_related("session", "checkpoint").order_by("-position").afirst()

        async def is_over() -> bool:
            return await Turn.objects.filter(pk=turn.pk).exclude(status="answering").aexists()

        await until(is_over, "the reply")
        return await Turn.objects.select_related("session", "checkpoint").aget(pk=turn.pk)

    return say


@pytest.fixture
def retired(db) -> Checkpoint:
    return Checkpoint.objects.create(number=7, status="retired", adapter="talkback-7", path="checkpoints/7")


async def test_a_chat_sets_nothing_until_its_person_does(ask, engine):
    turn = await ask("Hello")
    assert turn.messages == [user("Hello")]
    # What counts where nothing is set: the sampling of a page's reply as it always was.
    assert (turn.sampling["temperature"], turn.sampling["top_p"], turn.sampling["max_new_tokens"]) == (0.7, 1.0, 512)


async def test_instructions_and_sampling_count_from_the_next_reply_on(ask, settings_of, engine, session):
    first = await ask("Hello")
    answer = await settings_of(instructions=PIRATE.replace("\n", "\r\n"), **FIGURES)
    assert answer.status_code == 302

    turn = await ask("And now?")

    assert turn.messages == [
        {"role": "system", "content": PIRATE}, user("Hello"), assistant(first.text), user("And now?"),
    ]  # fmt: skip
    call = engine.asked("stream")[-1]
    assert "You are a pirate.\nSay arr." in call.prompt
    assert (call.sampling.temperature, call.sampling.top_p, call.sampling.max_new_tokens) == (0.2, 0.9, 64)
    # So a sample of it is scored as it was served: its row has the temperature, its prompt the instructions.
    assert (turn.sampling["temperature"], turn.sampling["top_p"]) == (0.2, 0.9)
    assert list(call.prompt_ids) == turn.prompt_ids
    assert turn.follows_id == first.pk
    assert turn.asked == {}  # a next message, and no edit of what was said before

    await settings_of(instructions="Be kind.")
    last = await ask("Bye")
    assert [message["content"] for message in last.messages if message["role"] == "system"] == ["Be kind."]
    assert last.sampling["temperature"] == 0.7


async def test_another_try_is_answered_under_the_settings_of_now(page, ask, settings_of, engine, session):
    turn = await ask("Hello")
    await settings_of(instructions="Be kind.", max_new_tokens="32")
    await page.post(f"/turns/{turn.pk}/again/")
    again = await session.turns.aget(position=1)
    assert again.messages == [{"role": "system", "content": "Be kind."}, user("Hello")]
    assert again.request_chain == turn.request_chain  # two tries at one reply
    assert again.asked["event"] == "regeneration"


async def test_what_is_set_is_shown_in_the_head_and_the_usual_beside_it(page, settings_of, session):
    html = (await page.get(f"/chats/{session.pk}/")).content.decode()
    assert "has instructions" not in html
    await settings_of(instructions=PIRATE, temperature="0", max_new_tokens="512")
    html = (await page.get(f"/chats/{session.pk}/")).content.decode()
    assert "has instructions" in html
    assert ">temperature 0.0<" in html
    assert "at most" not in html  # 512 is the usual
    panel = (await page.get(f"/chats/{session.pk}/settings/", headers={"HX-Request": "true"})).content.decode()
    assert "<html" not in panel
    assert PIRATE in panel
    assert "Usually 0.7." in panel
    assert "<html" in (await page.get(f"/chats/{session.pk}/settings/")).content.decode()  # without scripts


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"temperature": "3"}, "less than or equal to 2"),
        ({"top_p": "0"}, "greater than or equal to 0.05"),
        ({"max_new_tokens": "1000000"}, "This model reads and writes at most"),
        ({"instructions": "x" * 4001}, "Instructions may have at most 4000 characters; these have 4001."),
        ({"checkpoint": "99"}, "This checkpoint does not answer you."),
    ],
)
async def test_what_cannot_be_set_says_why_and_keeps_what_was_typed(settings_of, session, said, sentence):
    answer = await settings_of(**{"instructions": "Be kind.", **said})
    assert answer.status_code == 422
    html = answer.content.decode()
    assert sentence in html
    assert said.get("instructions", "Be kind.") in html
    await session.arefresh_from_db()
    assert (session.instructions, session.sampling) == ("", {})


async def test_other_peoples_settings_are_not_there(async_client, ben, session, ana):
    await sync_to_async(async_client.force_login)(ben)
    assert (await async_client.get(f"/chats/{session.pk}/settings/")).status_code == 404
    assert (await async_client.post(f"/chats/{session.pk}/settings/", {"instructions": "x"})).status_code == 404


async def test_new_chats_begin_with_their_persons_settings(page, engine, ana, ben):
    answer = await page.post("/chats/settings/", {"instructions": "Be brief.", "temperature": "0.1"})
    assert answer.status_code == 302
    message = {"text": "Hello", "message_id": "7b52009b-64fd-4a2a-9b7f-2f6b3c1d9a01"}
    await page.post("/chats/", message)
    turn = await Turn.objects.select_related("session").aget()
    assert turn.messages[0] == {"role": "system", "content": "Be brief."}
    assert turn.sampling["temperature"] == 0.1
    assert (turn.session.instructions, turn.session.sampling) == ("Be brief.", {"temperature": 0.1})
    other = await sync_to_async(ChatDefaults.of)(ben)
    assert (other.instructions, other.sampling) == ("", {})


async def test_a_chat_is_answered_by_the_checkpoint_it_asks_for(page, ask, settings_of, engine, session, retired):
    engine.loaded["talkback-7"] = "anywhere"
    await settings_of(checkpoint="7")
    turn = await ask("Hello")
    assert turn.checkpoint == retired
    assert engine.asked("stream")[-1].adapter == "talkback-7"
    html = (await page.get(f"/chats/{session.pk}/")).content.decode()
    assert "answered by talkback@7" in html
    assert "answers now:" not in html
    await settings_of(checkpoint="")
    assert (await ask("And now?")).checkpoint == await sync_to_async(Checkpoint.live)()


@pytest.mark.parametrize("status", ["candidate", "passed", "rejected", "let go"])
async def test_what_may_not_be_served_is_not_offered(page, settings_of, session, retired, status):
    about = {"let_go_at": timezone.now()} if status == "let go" else {"status": status}
    await Checkpoint.objects.filter(pk=retired.pk).aupdate(**about)
    assert "talkback@7" not in (await page.get(f"/chats/{session.pk}/settings/")).content.decode()
    assert (await settings_of(checkpoint="7")).status_code == 422


async def test_of_a_checkpoint_that_went_away_no_other_takes_the_place(page, settings_of, session, retired, htmx):
    await settings_of(checkpoint="7")
    await Checkpoint.objects.filter(pk=retired.pk).aupdate(status="rejected")
    message = {"text": "Hello", "message_id": "7b52009b-64fd-4a2a-9b7f-2f6b3c1d9a02"}
    answer = await page.post(f"/chats/{session.pk}/say/", message, headers=htmx)
    assert answer.status_code == 409
    assert "talkback@7 does not answer you any more." in answer.content.decode()
    assert not await Session.objects.filter(turns__isnull=False).aexists()


async def test_the_weights_of_a_checkpoint_that_a_chat_asks_for_are_kept(settings_of, session, retired):
    def kept_for_chats() -> list[int]:
        return [one.checkpoint.pk for one in retention.plan() if "a chat asks for it" in one.reasons]

    assert await sync_to_async(kept_for_chats)() == []
    await settings_of(checkpoint="7")
    assert await sync_to_async(kept_for_chats)() == [retired.pk]
