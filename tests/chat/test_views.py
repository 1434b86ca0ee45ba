"""The chat's pages: one message is one turn, however often it is sent; no person sees another's."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from asgiref.sync import sync_to_async

from chat import branches, views
from chat.branches import Switch
from chat.models import Session, Turn
from chat.replying import live_replies
from tests.chat.conftest import assistant, open_turn, reply_to, until, user

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

HI = [user("Say hello")]


@pytest.fixture
def message():
    return {"text": "Say hello", "message_id": str(uuid.uuid4())}


async def all_spoken() -> None:
    """Wait until no reply is being written."""

    async def silent() -> bool:
        return not live_replies._speaking

    await until(silent, "the last reply")


async def test_the_first_visit_stores_nothing(page):
    answer = await page.get("/")
    assert answer.status_code == 200
    assert "What shall we talk about?" in answer.content.decode()
    assert await Session.objects.acount() == 0


async def test_a_visit_shows_the_newest_chat(page, session):
    answer = await page.get("/")
    assert answer.headers["Location"] == f"/chats/{session.pk}/"


async def test_the_address_that_takes_a_first_message_leads_a_reader_to_the_newest_chat(page, session):
    answer = await page.get("/chats/", follow=True)
    assert [there for there, _ in answer.redirect_chain] == ["/", f"/chats/{session.pk}/"]
    assert answer.status_code == 200


async def test_a_person_who_is_not_signed_in_is_asked_to(async_client, session):
    for path in ("/", "/chats/", "/chats/new/", f"/chats/{session.pk}/"):
        answer = await async_client.get(path)
        assert answer.headers["Location"].startswith("/login/")


async def test_the_first_message_makes_the_chat_and_is_answered(page, engine, message, htmx):
    engine.says("Hello, captain.", to="Say hello")

    answer = await page.post("/chats/", message, headers=htmx)
    await all_spoken()

    turn = await Turn.objects.select_related("session").aget()
    assert answer.headers["HX-Redirect"] == f"/chats/{turn.session.pk}/"
    assert (turn.text, turn.status) == ("Hello, captain.", Turn.Status.SERVED)
    assert turn.session.title == "Say hello"
    page_now = (await page.get(answer.headers["HX-Redirect"])).content.decode()
    assert "Hello, captain." in page_now
    assert "talkback@0" in page_now


async def test_a_browser_that_leaves_at_once_leaves_its_message_to_be_answered(page, engine, message, monkeypatch):
    engine.says("Hello, captain.", to="Say hello")
    really, loop = views.open_message, asyncio.get_running_loop()

    def leaves(*args, **kwargs):
        turn = really(*args, **kwargs)
        loop.call_soon_threadsafe(sent.cancel)  # the server ends the request of a connection that is gone
        return turn

    monkeypatch.setattr(views, "open_message", leaves)
    sent = asyncio.create_task(page.post("/chats/", message))
    with pytest.raises(asyncio.CancelledError):
        await sent
    await all_spoken()

    turn = await Turn.objects.aget()
    assert (turn.text, turn.status) == ("Hello, captain.", Turn.Status.SERVED)


async def test_a_message_works_without_scripts(page, engine, message):
    answer = await page.post("/chats/", message)
    await all_spoken()
    turn = await Turn.objects.aget()
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/chats/{turn.session_id}/")


@pytest.mark.parametrize("path", ["/chats/", "say"])
async def test_a_double_click_sends_once(page, engine, session, message, htmx, path):
    path = path if path != "say" else f"/chats/{session.pk}/say/"
    for _ in range(2):
        answer = await page.post(path, message, headers=htmx)
        assert answer.status_code == 200
        await all_spoken()
    assert await Turn.objects.acount() == 1
    assert len(engine.asked("stream")) == 1


async def test_the_next_message_carries_the_history(page, engine, session, message, htmx):
    first = await reply_to(await open_turn(session, HI), engine)
    answer = await page.post(f"/chats/{session.pk}/say/", message | {"text": "And in French?"}, headers=htmx)
    await all_spoken()
    second = await Turn.objects.aget(position=1)
    assert second.messages == [*HI, assistant(first.text), user("And in French?")]
    assert second.follows_id == first.pk
    assert f'id="turn-{second.pk}"' in answer.content.decode()
    assert (await Turn.objects.aget(pk=first.pk)).status == Turn.Status.OBSERVED


async def test_two_tabs_do_not_talk_over_each_other(page, engine, session, message, htmx):
    await open_turn(session, HI)
    answer = await page.post(f"/chats/{session.pk}/say/", message, headers=htmx)
    assert answer.status_code == 409
    assert "still being written" in answer.content.decode()
    assert await Turn.objects.acount() == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "Write something first."),
        (" \n ", "Write something first."),
        ("x" * 20_001, "A message may have at most 20000 characters; this one has 20001."),
        ("word " * 3000, "maximum context length is 2048 tokens"),
        ("nul \x00 inside", "Null characters are not allowed."),
    ],
)
async def test_what_cannot_be_sent_says_why_and_stores_nothing(page, engine, message, htmx, text, sentence):
    answer = await page.post("/chats/", message | {"text": text}, headers=htmx)
    assert answer.status_code in (400, 422)
    assert sentence in answer.content.decode()
    assert await Session.objects.acount() == 0


async def test_without_scripts_a_refused_message_stays_in_its_box(page, engine, message):
    answer = await page.post("/chats/", message | {"text": "word " * 3000})
    html = answer.content.decode()
    assert answer.status_code == 400
    assert "maximum context length" in html
    assert html.count("word ") >= 2999


async def test_lines_end_as_the_model_knows_them(page, engine, message):
    await page.post("/chats/", message | {"text": "one\r\ntwo"})
    await all_spoken()
    assert (await Turn.objects.aget()).messages == [user("one\ntwo")]


async def test_bytes_that_are_no_text_are_a_message_all_the_same(page, engine, message):
    body = f"message_id={message['message_id']}&text=caf%E9".encode()
    answer = await page.post("/chats/", body, content_type="application/x-www-form-urlencoded")
    await all_spoken()
    assert answer.status_code == 302
    assert (await Turn.objects.aget()).messages == [user("caf\ufffd")]


async def test_a_page_without_a_message_id_says_to_reload(page, engine, htmx):
    answer = await page.post("/chats/", {"text": "Hi"}, headers=htmx)
    assert answer.status_code == 422
    assert "out of date" in answer.content.decode()


async def test_another_persons_message_id_gives_nothing_away(page, ben, engine, message, htmx):
    theirs = await Session.objects.acreate(user=ben)
    await open_turn(theirs, HI, completion_id=f"chatcmpl-{uuid.UUID(message['message_id']).hex}")
    answer = await page.post("/chats/", message, headers=htmx)
    assert answer.status_code == 409
    assert str(theirs.pk) not in answer.content.decode() + str(answer.headers)


@pytest.mark.parametrize("what", ["", "say/", "stop/", "rename/", "learning/", "delete/"])
@pytest.mark.parametrize("whose", ["ben", "no person"])
async def test_other_peoples_chats_are_not_there(page, ben, message, what, whose):
    pk = (await Session.objects.acreate(user=ben)).pk if whose == "ben" else uuid.uuid4()
    path = f"/chats/{pk}/{what}"
    answer = await (page.post(path, message) if what else page.get(path))
    assert answer.status_code == 404
    assert await Session.objects.filter(user=ben).acount() == (whose == "ben")


async def test_other_peoples_replies_cannot_be_tried_again(page, ben, engine):
    turn = await reply_to(await open_turn(await Session.objects.acreate(user=ben), HI), engine)
    assert (await page.post(f"/turns/{turn.pk}/again/")).status_code == 404


async def test_a_forged_form_is_refused(ana, session):
    from django.test import AsyncClient

    strict = AsyncClient(enforce_csrf_checks=True)
    await sync_to_async(strict.force_login)(ana)
    answer = await strict.post(f"/chats/{session.pk}/delete/")
    assert answer.status_code == 403
    assert "out of date" in answer.content.decode()
    assert await Session.objects.acount() == 1


async def test_another_try_answers_the_same_question_in_the_old_ones_place(page, engine, session, htmx):
    first = await reply_to(await open_turn(session, HI), engine)
    engine.says("Ahoy.")
    answer = await page.post(f"/turns/{first.pk}/again/", headers=htmx)
    await all_spoken()
    assert answer.status_code == 204
    second = await Turn.objects.aget(position=1)
    assert (second.messages, second.follows_id, second.text) == (first.messages, None, "Ahoy.")
    assert (await Turn.objects.aget(pk=first.pk)).status == Turn.Status.SERVED  # nothing came back to it

    [shown] = (await sync_to_async(branches.conversation)(await Session.objects.aget())).turns
    assert (shown.pk, shown.wordings) == (second.pk, None)
    assert shown.tries == Switch(2, 2, before=first.pk, after=first.pk)


async def test_a_failed_reply_can_be_tried_again(page, engine, session, message, htmx):
    engine.goes_down()
    await page.post(f"/chats/{session.pk}/say/", message, headers=htmx)
    await all_spoken()
    failed = await Turn.objects.aget()
    assert "does not answer" in (await page.get(f"/chats/{session.pk}/")).content.decode()
    engine.comes_back()
    await page.post(f"/turns/{failed.pk}/again/", headers=htmx)
    await all_spoken()
    assert (await Turn.objects.aget(position=1)).status == Turn.Status.SERVED


async def test_stop_ends_the_reply(page, engine, session, message, htmx):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=2)
    await page.post(f"/chats/{session.pk}/say/", message, headers=htmx)
    answer = await page.post(f"/chats/{session.pk}/stop/", headers=htmx)
    await all_spoken()
    engine.release()
    assert answer.status_code == 204
    assert (await Turn.objects.aget()).finish_reason == "abort"


async def test_a_chats_name_with_what_is_not_seen_is_refused_with_a_sentence(page, session):
    await page.post(f"/chats/{session.pk}/rename/", {"title": "Plans"})
    answer = await page.post(f"/chats/{session.pk}/rename/", {"title": "Plans\u202efdp"}, follow=True)
    assert "A name holds only characters that are seen, and this one holds U+202E" in answer.content.decode()
    assert (await Session.objects.aget()).title == "Plans"


async def test_a_chat_without_a_name_is_called_by_what_was_said_with_marks(session, engine):
    await reply_to(await open_turn(session, [user("\x1b]0;mine\x07 Hi\u202e")]), engine)
    assert (await Session.objects.aget()).title == "␛]0;mine␇ Hi⟨U+202E⟩"


async def test_a_chat_is_renamed_put_off_the_record_and_deleted(page, session, engine):
    await reply_to(await open_turn(session, HI), engine)
    await page.post(f"/chats/{session.pk}/rename/", {"title": "Greetings <b>"})
    await page.post(f"/chats/{session.pk}/learning/", {"learns": "off"})
    html = (await page.get(f"/chats/{session.pk}/")).content.decode()
    assert "Greetings &lt;b&gt;" in html
    assert "off the record" in html
    assert not (await Session.objects.aget()).learns

    await page.post(f"/chats/{session.pk}/learning/", {"learns": "on"})
    assert (await Session.objects.aget()).learns
    answer = await page.post(f"/chats/{session.pk}/delete/")
    assert answer.headers["Location"] == f"/chats/new/?gone={session.pk}"
    assert await Turn.objects.visible_to(session.user).acount() == 0
    assert (await page.get(f"/chats/{session.pk}/")).status_code == 404


async def test_a_chat_can_be_off_the_record_from_its_first_word(page, engine, message):
    await page.post("/chats/", message | {"off_record": "on"})
    await all_spoken()
    assert not (await Session.objects.aget()).learns


async def test_what_people_and_models_write_is_text_on_the_page(page, engine, session):
    engine.says("<script>alert(1)</script>")
    await reply_to(await open_turn(session, [user("<img src=x onerror=alert(1)>")]), engine)
    html = (await page.get(f"/chats/{session.pk}/")).content.decode()
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert "<script>alert" not in html


async def test_a_long_chat_asks_no_more_of_the_database_than_a_short_one(
    page, engine, session, django_assert_max_num_queries
):
    async def queries() -> int:
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        def ask() -> int:
            with CaptureQueriesContext(connection) as seen:
                client.get(f"/chats/{session.pk}/")
            return len(seen)

        return await sync_to_async(ask)()

    from django.test import Client

    client = Client()
    await sync_to_async(client.force_login)(await sync_to_async(lambda: session.user)())
    first = await reply_to(await open_turn(session, HI), engine)
    short = await queries()
    history = [*HI, assistant(first.text)]
    for n in range(4):
        history = [*history, user(f"More {n}")]
        turn = await reply_to(await open_turn(session, history), engine)
        history = [*history, assistant(turn.text)]
    # Judged turns ask for verdicts, votes and hints, once for all of them.
    assert await queries() <= short + 3


async def test_every_page_says_that_only_our_own_files_may_run(page):
    policy = (await page.get("/")).headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    html = (await page.get("/")).content.decode()
    assert "<style" not in html
    assert " style=" not in html
    assert " onclick=" not in html
    assert all(" src=" in tag for tag in html.split("<script")[1:] for tag in [tag.split(">")[0]])


async def test_a_chat_of_the_api_is_read_and_not_written_in(page, key, ana):
    session = await Session.objects.acreate(user=ana, key=key)
    html = (await page.get(f"/chats/{session.pk}/")).content.decode()
    assert "comes through the API" in html
    assert 'id="composer"' not in html


def test_the_words_before_a_reply_that_failed_are_not_lost():
    turn = Turn(messages=HI, text="")
    assert views.history_with(turn) == HI
