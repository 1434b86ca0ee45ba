"""Yes and no: for a message, a chat, a key and by default; what is told, exported, deleted, and removed."""

from __future__ import annotations

import io

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from chat import sessions
from chat.api_keys import ApiKey
from chat.models import Session, Turn
from chat.usual_consent import Consent
from checkpoints.models import Checkpoint
from judge.models import Hint, Judgement, Ruling, Vote
from judge.samples.sample_rows import Reason
from privacy import consent
from tests.chat.conftest import ask_in
from tests.webapp.conftest import text_of
from training.models import Sample

SECRET = "ana@example.com"


def nothing_is_left_of(turn: Turn) -> bool:
    judgement = Judgement.objects.get(turn=turn)
    said = (judgement.evidence, judgement.hint, judgement.teacher, judgement.reward, judgement.sample)
    assert (judgement.reason, judgement.reason_code) == (Reason.OFF, "off")
    assert said == ("", "", {}, None, None)
    return not (Vote.objects.filter(turn=turn).exists() or Hint.objects.filter(turn=turn).exists())


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


@pytest.mark.parametrize("path", ["/privacy/", "/privacy/export/"])
def test_strangers_are_asked_to_sign_in(client, db, path):
    assert client.get(path).headers["Location"].startswith("/login/")


@pytest.mark.parametrize("what", ["chats/{turn.session_id}", "turns/{turn.pk}"])
def test_no_person_decides_for_another(client, lesson, what):
    client.force_login(get_user_model().objects.create_user("eve"))
    assert client.post(f"/{what.format(turn=lesson.turn)}/learning/", {"learns": "off"}).status_code == 404
    assert Sample.objects.exists()


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
