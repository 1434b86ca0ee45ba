"""Yes and no: for a message, a chat, a key and by default; what is told, exported, deleted, and removed."""

from __future__ import annotations

import io
import json

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from accounts.models import Role
from accounts.roles import give
from chat import sessions
from chat.api_keys import ApiKey
from chat.models import Session, Turn
from chat.tools.servers import ToolServer
from chat.usual_consent import Consent
from checkpoints.models import Checkpoint, Taint
from checkpoints.notice_rows import Notice
from feedback.models import Feedback
from judge.models import Hint, Judgement, Ruling, Vote
from judge.samples.sample_rows import Reason
from privacy import consent
from tests.chat.conftest import ask_in
from tests.webapp.conftest import text_of
from training.models import Sample
from webapp.people.own_data import own_export

SECRET = "ana@example.com"


@pytest.fixture
def page(client, talker):
    """The talker's browser."""
    client.force_login(talker)
    return client


@pytest.fixture
def lesson(make_lesson):
    """A judged turn with votes, a hint and a sample that waits."""
    judgement = make_lesson()
    Hint.objects.create(turn=judgement.turn, source="person", proposed="Be brief, please.", text="Be brief, please.")
    Turn.objects.filter(pk=judgement.turn_id).update(observed_at=judgement.judged_at)
    return judgement


def nothing_is_left_of(turn: Turn) -> bool:
    judgement = Judgement.objects.get(turn=turn)
    said = (judgement.evidence, judgement.hint, judgement.teacher, judgement.reward, judgement.sample)
    assert (judgement.reason, judgement.reason_code) == (Reason.OFF, "off")
    assert said == ("", "", {}, None, None)
    return not (Vote.objects.filter(turn=turn).exists() or Hint.objects.filter(turn=turn).exists())


# A chat


def test_a_chat_that_goes_off_the_record_leaves_no_trace_to_learn_from(page, lesson):
    answer = page.post(f"/chats/{lesson.turn.session_id}/learning/", {"learns": "off"}, follow=True)
    assert "One reply that waited to be learned from is out of it." in text_of(answer)
    assert nothing_is_left_of(lesson.turn)
    assert not Sample.objects.exists()
    turn = Turn.objects.get()
    assert (turn.text, turn.messages[0]["content"]) == ("Paris, of course.", "What is the capital of France?")


def test_what_was_learned_is_told_with_its_checkpoints_and_emptied(page, make_lesson, make_checkpoint):
    checkpoint = make_checkpoint(1)
    lesson = make_lesson("trained", run=checkpoint.run)
    answer = page.post(f"/chats/{lesson.turn.session_id}/learning/", {"learns": "off"}, follow=True)
    assert "Learned already: 1 reply, in the weights of talkback@1 and of what was trained on from there." in text_of(
        answer
    )
    sample = Sample.objects.get()
    assert (sample.prompt_ids, sample.response_ids, sample.teacher_prompt_ids) == ([], [], None)
    assert sample.run == checkpoint.run
    told = text_of(page.get("/privacy/"))
    assert "What was already learned is in the weights of talkback@1 and of what was trained on from there" in told
    assert "A checkpoint also keeps the tokens of one reply that it learned from" in told


def test_what_a_run_is_learning_goes_when_it_ends(page, make_lesson, make_run, django_capture_on_commit_callbacks):
    lesson = make_lesson("claimed", run=make_run("running"))
    answer = page.post(f"/chats/{lesson.turn.session_id}/learning/", {"learns": "off"}, follow=True)
    assert "A run is learning from one reply at this moment" in text_of(answer)
    assert Sample.objects.get().prompt_ids
    with django_capture_on_commit_callbacks(execute=True):
        Sample.objects.get().move("ready")  # the run failed
    assert not Sample.objects.exists()


def test_a_chat_that_comes_back_is_judged_anew_without_what_was_said_meanwhile(page, lesson):
    session = lesson.turn.session
    page.post(f"/chats/{session.pk}/learning/", {"learns": "off"})
    meanwhile = Turn.objects.create(
        session=session,
        position=1,
        status="served",
        messages=lesson.turn.messages,
        checkpoint=lesson.turn.checkpoint,
        learns=False,
        observed_at=lesson.judged_at,
    )
    Turn.objects.filter(pk=lesson.turn_id).update(status="judged")
    answer = page.post(f"/chats/{session.pk}/learning/", {"learns": "on"}, follow=True)
    assert "What was said meanwhile stays out" in text_of(answer)
    assert Turn.objects.get(pk=lesson.turn_id).status == "observed"
    assert Turn.objects.get(pk=meanwhile.pk).status == "served"


def test_what_is_said_off_the_record_stays_so_when_the_chat_comes_back(talker, tiny_model, settings):
    settings.MODEL = str(tiny_model)
    session = Session.objects.create(user=talker, learns=False)
    turn = ask_in(session, [{"role": "user", "content": "Between us: hello."}])
    consent.set_session(session, True)
    turn = Turn.objects.select_related("session").get(pk=turn.pk)
    assert (turn.session.learns, turn.learns) == (True, False)


@pytest.mark.parametrize(("learns", "badge"), [(True, "on the record"), (False, "off the record")])
def test_the_page_of_a_chat_always_says_which_it_is(page, make_turn, learns, badge):
    session = make_turn().session
    Session.objects.update(learns=learns)
    text = text_of(page.get(f"/chats/{session.pk}/"))
    assert f">{badge}</summary>" in text
    assert ("Still stored, until you delete it: the conversation itself" in text) is not learns


def test_a_chat_through_a_served_only_key_says_so(page, make_turn, talker):
    key, _ = ApiKey.objects.issue(talker, "laptop", learns=False)
    session = make_turn().session
    Session.objects.update(key=key)
    assert "This chat came through a key that is served only" in text_of(page.get(f"/chats/{session.pk}/"))


# A message


def test_one_message_goes_off_the_record_and_the_others_stay(page, lesson, make_lesson):
    other = make_lesson()
    answer = page.post(f"/turns/{lesson.turn_id}/learning/", {"learns": "off"}, headers={"HX-Request": "true"})
    assert 'aria-pressed="true"' in text_of(answer)
    assert nothing_is_left_of(lesson.turn)
    assert Sample.objects.get() == other.sample
    assert Turn.objects.get(pk=lesson.turn_id).status == "observed"  # its verdict is due, and will say why


def test_one_message_comes_back_and_is_judged_anew(page, lesson):
    page.post(f"/turns/{lesson.turn_id}/learning/", {"learns": "off"})
    Turn.objects.filter(pk=lesson.turn_id).update(status="judged")
    page.post(f"/turns/{lesson.turn_id}/learning/", {"learns": "on"})
    turn = Turn.objects.get(pk=lesson.turn_id)
    assert (turn.learns, turn.status) == (True, "observed")


def test_what_a_reviewer_took_out_its_person_cannot_put_back(page, lesson, operator):
    Turn.objects.filter(pk=lesson.turn_id).update(learns=False)
    Ruling.objects.create(
        verb="never learn", by=operator, turn=lesson.turn, before={"learns": True}, after={"learns": False}
    )
    answer = page.post(f"/turns/{lesson.turn_id}/learning/", {"learns": "on"}, headers={"HX-Request": "true"})
    assert answer.status_code == 409
    assert "A reviewer took this reply out of learning" in text_of(answer)
    assert not Turn.objects.get(pk=lesson.turn_id).learns


# A key


def test_a_key_that_is_served_only_from_now_on_takes_back_what_came_through_it(page, lesson, make_lesson, talker):
    key, _ = ApiKey.objects.issue(talker, "laptop")
    Session.objects.filter(pk=lesson.turn.session_id).update(key=key)
    other = make_lesson()
    answer = page.post(f"/privacy/keys/{key.pk}/", {"learns": "off"}, follow=True)
    assert "“laptop” is served only" in text_of(answer)
    assert nothing_is_left_of(lesson.turn)
    assert Sample.objects.get() == other.sample
    key.refresh_from_db()
    assert not key.learns


def test_a_key_that_may_teach_again_does_so_from_the_next_request_on(page, lesson, talker):
    key, _ = ApiKey.objects.issue(talker, "laptop")
    Session.objects.filter(pk=lesson.turn.session_id).update(key=key)
    page.post(f"/privacy/keys/{key.pk}/", {"learns": "off"})
    page.post(f"/privacy/keys/{key.pk}/", {"learns": "on"})
    key.refresh_from_db()
    assert key.learns
    assert not Turn.objects.get().learns


# By default


def test_by_default_what_is_begun_is_as_its_person_said(page, talker):
    page.post("/privacy/default/", {"learns": "off"})
    assert not Consent.objects.get(user=talker).learns
    key, _ = ApiKey.objects.issue(talker, "laptop")
    assert not key.learns
    found, _ = sessions.find(key, [{"role": "user", "content": "Hello"}])
    assert not found.learns
    named, _ = sessions.find(key, [{"role": "user", "content": "Hello"}], external_id="s1", named_by="header")
    assert not named.learns


def test_a_key_that_was_let_teach_teaches_where_new_chats_begin_off_the_record(page, talker):
    consent.set_default(talker, False)
    key, _ = ApiKey.objects.issue(talker, "laptop")
    page.post(f"/privacy/keys/{key.pk}/", {"learns": "on"})
    key.refresh_from_db()
    found, _ = sessions.find(key, [{"role": "user", "content": "Hello"}])
    named, _ = sessions.find(key, [{"role": "user", "content": "Hello"}], external_id="s1", named_by="header")
    assert found.learns
    assert named.learns


def test_a_new_chat_shows_how_it_would_begin_and_can_begin_otherwise(page, talker):
    consent.set_default(talker, False)
    assert 'name="off_record" value="on" checked' in text_of(page.get("/chats/new/"))


@pytest.mark.parametrize(("said", "learns"), [({}, False), ({"off_record": "on"}, False), ({"off_record": "no"}, True)])
def test_the_page_has_the_last_word_on_how_a_chat_begins(talker, said, learns, tiny_model, settings):
    from chat.forms import MessageForm
    from chat.views import open_message

    settings.MODEL = str(tiny_model)
    consent.set_default(talker, False)
    form = MessageForm({"text": "Hello", "message_id": "5f0e8d6e-0b0c-4c66-9a6c-3d7d6f0c2a11"} | said)
    assert form.is_valid()
    assert open_message(talker, None, **form.cleaned_data).session.learns is learns


def test_the_installation_has_a_default_for_those_who_said_nothing(talker, settings):
    settings.LEARN_BY_DEFAULT = False
    assert not consent.by_default(talker)
    consent.set_default(talker, True)
    assert consent.by_default(talker)


def test_everything_at_once_goes_off_the_record(page, lesson, make_lesson, talker):
    make_lesson()
    key, _ = ApiKey.objects.issue(talker, "laptop")
    answer = page.post("/privacy/everything-off/", follow=True)
    assert "Everything is off the record. 2 lessons that waited went." in text_of(answer)
    assert not Session.objects.filter(learns=True).exists()
    assert not Sample.objects.exists()
    assert not consent.by_default(talker)
    key.refresh_from_db()
    assert not key.learns


# What is told, exported, deleted


def test_the_page_counts_what_is_stored_and_names_who_reads(page, lesson, settings):
    settings.ENGINE_URL = "http://127.0.0.1:8001"
    text = text_of(page.get("/privacy/"))
    assert '<th scope="row">conversations</th><td class="number">1</td>' in text
    assert '<th scope="row">lessons that wait</th><td class="number">1</td>' in text
    assert "No checkpoint has learned from what is stored of you." in text
    assert "stays here" in text
    assert "leaves this machine" not in text


def test_every_engine_that_answers_is_named_with_where_it_is(page, settings):
    settings.ENGINE_URLS = ["http://127.0.0.1:8001", "http://gpu.example.com:30000"]
    settings.ROUTER_URL = "http://127.0.0.1:9000"
    text = text_of(page.get("/privacy/"))
    assert "leaves this machine</span> gpu.example.com:30000" in text
    assert "127.0.0.1:8001" in text
    assert "the router" in text


def test_servers_of_tools_are_named_with_where_they_are(page):
    ToolServer.objects.create(name="shop", url="https://tools.example.com/mcp")
    ToolServer.objects.create(name="near", url="http://127.0.0.1:9/mcp")
    text = text_of(page.get("/privacy/"))
    assert "leaves this machine</span> tools.example.com" in text
    assert 'stays here</span> <span class="quiet">127.0.0.1:9' in text
    assert text.count("runs tools that you choose") == 2


def test_a_judge_elsewhere_is_named_as_one_that_text_leaves_the_machine_for(page, settings):
    settings.JUDGES = ""
    settings.JUDGE_URL, settings.JUDGE_MODEL = "https://judge.example.com/v1", "big"
    text = text_of(page.get("/privacy/"))
    assert "leaves this machine</span> judge.example.com" in text
    assert "without what is removed below" in text


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_the_export_is_all_a_person_said_and_nothing_of_others(async_client, make_lesson, talker, operator):
    turn = (await sync_to_async(make_lesson)()).turn
    said = {"turn": turn, "text": "Be brief, please."}
    await Hint.objects.acreate(source="person", proposed=said["text"], **said)
    await Feedback.objects.acreate(by=talker, kind="guidance", **said)
    foreign = await Session.objects.acreate(user=operator, title="Not yours")
    await async_client.aforce_login(talker)
    answer = await async_client.get("/privacy/export/")
    rows = [json.loads(line) for line in b"".join([part async for part in answer.streaming_content]).splitlines()]
    assert [row["object"] for row in rows] == ["account", "session", "turn", "feedback", "hint", "device", "deed"]
    assert rows[2]["reply"] == {"role": "assistant", "content": "Paris, of course."}
    assert rows[3]["text"] == rows[4]["text"] == "Be brief, please."
    assert str(foreign.pk) not in json.dumps(rows)
    assert "attachment" in answer["Content-Disposition"]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_a_long_export_comes_in_parts_and_whole(async_client, talker):
    for n in range(own_export.PART + 5):
        await Session.objects.acreate(user=talker, title=f"chat {n}")
    await async_client.aforce_login(talker)
    answer = await async_client.get("/privacy/export/")
    parts = [part async for part in answer.streaming_content]
    assert len(parts) == 2
    assert len(b"".join(parts).splitlines()) == own_export.PART + 8  # account, chats, browser, deed


def test_everything_is_deleted_once_its_person_is_sure(page, lesson, make_turn, operator, talker):
    foreign = Session.objects.create(user=operator)
    Feedback.objects.give(make_turn("served"), by=talker, kind="thumb", value=1)
    assert "Nothing was deleted: type “delete”" in text_of(page.post("/privacy/delete/", {"sure": "yes"}, follow=True))
    assert Session.objects.count() == 3
    text = text_of(page.post("/privacy/delete/", {"sure": " Delete "}, follow=True))
    gone = "2 conversations, 2 replies, 1 thumb or correction and 1 waiting lesson."
    assert f"Everything of yours is deleted</strong>, since {timezone.now():%-d %B %Y}" in text
    assert gone in text
    assert "No checkpoint had learned from it." in text
    assert Session.objects.get() == foreign
    assert not any(model.objects.exists() for model in (Turn, Sample, Hint, Vote, Feedback))


@pytest.mark.parametrize(("keys", "revoked"), [("revoke", True), ("keep", False)])
def test_keys_are_revoked_with_it_or_kept_as_their_person_says(page, talker, keys, revoked):
    key, _ = ApiKey.objects.issue(talker, "laptop")
    assert "Revoke them" in text_of(page.get("/privacy/"))
    page.post("/privacy/delete/", {"sure": "delete", "keys": keys})
    key.refresh_from_db()
    assert (key.revoked_at is not None) is revoked


def test_what_was_learned_is_named_and_an_operator_is_asked_to_have_it_out(page, make_lesson, make_checkpoint, talker):
    checkpoint = make_checkpoint(1, "retired")
    make_lesson("trained", run=checkpoint.run)
    text = text_of(page.post("/privacy/delete/", {"sure": "delete"}, follow=True))
    assert '1 reply was learned from before that, and is in the weights of <span class="badge">talkback@1' in text
    assert "No checkpoint has learned from you" not in text  # weights are no store, and hold it
    assert Taint.objects.get().checkpoint == checkpoint
    answer = text_of(page.post("/privacy/learn-again/", follow=True))
    assert "Those who run this Talkback read now that you want talkback@1 learned again without it." in answer
    assert "ben asks that talkback@1 be learned again" in Notice.objects.get(key__startswith="wish").text


def test_a_deleted_chat_names_the_weights_that_learned_from_it(page, make_lesson, make_checkpoint):
    turn = make_lesson("trained", run=make_checkpoint(1).run).turn
    Sample.objects.update(origin=turn.pk)
    text = text_of(page.post(f"/chats/{turn.session_id}/delete/", follow=True))
    assert "What was learned of it is in the weights of talkback@1 still" in text


@pytest.mark.parametrize(("is_staff", "offer"), [(True, "Learn it again without this"), (False, "Ask that it be")])
def test_feedback_that_is_taken_back_after_it_was_learned_says_where_it_is(
    page, make_lesson, make_checkpoint, talker, is_staff, offer
):
    if is_staff:
        give(talker, Role.OPERATOR)
    turn = make_lesson().turn
    Feedback.objects.give(turn, by=talker, kind="guidance", text="Be brief.")
    checkpoint = make_checkpoint(1, "retired")
    said = {"origin": turn.pk, "status": "trained", "run": checkpoint.run, "created_at": timezone.now()}
    Sample.objects.update(**said)
    answer = page.post(
        f"/turns/{turn.pk}/feedback/", {"kind": "guidance", "take_back": "1"}, headers={"HX-Request": "true"}
    )
    text = text_of(answer)
    assert "It was learned already, and is in the weights of talkback@1 still." in text
    assert offer in text
    assert Taint.objects.get().reason == "its feedback was withdrawn"
    answer = text_of(page.post("/privacy/learn-again/", {"turn": str(turn.pk)}, follow=True))
    if is_staff:  # it is begun, or refused with what to do instead
        assert "Nothing is left of what talkback@1 learned since talkback@0: roll back to talkback@0" in answer
    else:
        assert Notice.objects.filter(key__startswith="wish").exists()


@pytest.mark.parametrize("path", ["/privacy/", "/privacy/export/"])
def test_strangers_are_asked_to_sign_in(client, db, path):
    assert client.get(path).headers["Location"].startswith("/login/")


@pytest.mark.parametrize("what", ["chats/{turn.session_id}", "turns/{turn.pk}"])
def test_no_person_decides_for_another(client, lesson, what):
    client.force_login(get_user_model().objects.create_user("eve"))
    assert client.post(f"/{what.format(turn=lesson.turn)}/learning/", {"learns": "off"}).status_code == 404
    assert Sample.objects.exists()


# What is removed


def test_a_text_can_be_tried_and_is_stored_nowhere(page, django_assert_num_queries):
    text = f"I am {SECRET}. My password is hunter2!"
    answer = page.post("/privacy/try/", {"text": text}, headers={"HX-Request": "true"})
    assert "2 things would be removed: 1 email, 1 password." in text_of(answer)
    assert (
        f"I am <del>{SECRET}</del><ins>[email 1]</ins>. My password is <del>hunter2</del><ins>[password 1]</ins>!"
        in (text_of(answer))
    )
    assert f"<del>{SECRET}</del>" in text_of(page.post("/privacy/try/", {"text": text}))  # without scripts too


def test_hostile_text_is_shown_as_text(page):
    answer = page.post("/privacy/try/", {"text": f"<script>alert(1)</script> {SECRET}"}, headers={"HX-Request": "true"})
    assert "&lt;script&gt;" in text_of(answer)
    assert "<script>" not in text_of(answer)


def test_the_page_says_when_nothing_is_removed(page, settings):
    settings.REMOVE_PERSONAL_DATA = "0"
    assert "switched it off (REMOVE_PERSONAL_DATA)" in text_of(page.get("/privacy/"))


def test_under_a_reply_stands_how_much_was_removed(page, lesson):
    Sample.objects.update(
        redactions=[
            {"where": "request", "kind": "email", "count": 1},
            {"where": "reply", "kind": "email", "count": 1},
            {"where": "request", "kind": "key", "count": 1},
        ]
    )
    text = text_of(page.get(f"/chats/{lesson.turn.session_id}/"))
    assert "2 personal details were removed before learning" in text


def test_the_console_shows_what_was_removed_before_and_after(console, lesson):
    messages = [{"role": "user", "content": f"I am {SECRET}. What is the capital of France?"}]
    Turn.objects.filter(pk=lesson.turn_id).update(messages=messages)
    Sample.objects.update(redactions=[{"where": "request", "kind": "email", "count": 1}])
    text = text_of(console.get(f"/console/turns/{lesson.turn_id}/"))
    assert f"I am <del>{SECRET}</del><ins>[email 1]</ins>. What is" in text
    assert '1 email <span class="quiet">in the request</span>' in text


def test_a_file_is_redacted_on_the_command_line(tmp_path, capsys):
    file = tmp_path / "text.txt"
    file.write_text(f"I am {SECRET}.\n")
    call_command("redact", str(file))
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("I am [email 1].\n", "removed: 1 email\n")


def test_what_is_piped_in_is_redacted_too(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("Version 1.24.0"))
    call_command("redact", "-")
    assert capsys.readouterr().out == "Version 1.24.0"


def test_a_file_that_is_not_there_is_a_sentence(tmp_path):
    with pytest.raises(CommandError, match="cannot be read as text"):
        call_command("redact", str(tmp_path / "nothing.txt"))


def test_checkpoints_that_learned_are_listed_with_how_many_replies(make_lesson, make_checkpoint, talker):
    from webapp.people.privacy_page import learned_in, lessons_of

    run = make_checkpoint(1).run
    make_lesson("trained", run=run)
    make_lesson("trained", run=run)
    assert learned_in(lessons_of(talker)) == [(Checkpoint.objects.get(number=1), 2)]
    Session.objects.update(deleted_at=timezone.now())  # in the bin: still kept, and no longer listed
    made = lessons_of(talker)
    assert (sum(one.all for one in made), learned_in(made)) == (2, [])
