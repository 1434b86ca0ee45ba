"""What a person sees at the moment of teaching: what counts, what will not, what a judge guessed, and how far it is."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat import branches
from chat.api_keys import ApiKey
from chat.listing import pages
from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from feedback.models import Feedback
from judge.models import Hint, Judgement, Ruling
from judge.samples import sample_rows
from privacy.models import Erasure
from tests.webapp.conftest import text_of
from training.batches import Filling
from training.models import Sample
from webapp.console.loop import newest_turns
from webapp.journeys.known import journey

SENTENCE = "1 of 16 lessons. Training starts at 16, or now."


@pytest.fixture
def own(client, talker):
    client.force_login(talker)
    return client


def page_of(client, turn) -> str:
    return text_of(client.get(reverse("chat:session", args=[turn.session_id])))


def boxes_of(client, turn) -> str:
    """What is in the boxes under a reply, as it is brought on first use."""
    return "".join(text_of(client.get(reverse(f"feedback:{box}", args=[turn.pk]))) for box in ("teach", "marking"))


# One sentence


def test_one_sentence_says_everywhere_when_training_starts(make_lesson, own, operator, capsys):
    from django.core.management import call_command

    lesson = make_lesson()
    staff = Client()
    staff.force_login(operator)
    call_command("pipeline")
    assert SENTENCE in capsys.readouterr().out
    assert SENTENCE in page_of(own, lesson.turn)  # the chip
    assert SENTENCE in text_of(staff.get(reverse("console:board")))
    assert SENTENCE in text_of(staff.get(reverse("console:recipe")))
    assert SENTENCE in text_of(staff.get(reverse("console:lines")))
    _, key = ApiKey.objects.issue(lesson.turn.session.user, "laptop")
    told = own.get(f"/v1/completions/{lesson.turn.completion_id}/learning", headers={"Authorization": f"Bearer {key}"})
    assert SENTENCE in told.json()["detail"]


def test_only_who_may_press_it_has_now_as_a_button(make_lesson, own, operator):
    lesson = make_lesson()
    assert "learn-now-form" not in page_of(own, lesson.turn)
    Session.objects.update(user=operator)
    own.force_login(operator)
    page = page_of(own, lesson.turn)
    assert '<form id="learn-now-form" method="post" action="/console/learn-now/"' in page
    assert 'form="learn-now-form" title="Learn now" aria-label="Learn now">now</button>' in page


def test_waiting_for_rewrites_is_a_line_of_its_own_and_never_in_the_sentence():
    waits = Filling(size=16, ready=16, said=3, rewrites=1, awaited=8)
    assert waits.sentence == "16 of 16 lessons. Training can start now."
    # 8 - 1 rewrites, 16 - 3 from people, or 6 · 16 - 16 of any kind
    said = "The recipe waits for 7 more rewrites, for 13 more lessons from people, or for 80 more of any kind."
    assert waits.why_it_waits == said
    assert Filling(size=16, ready=15, said=3, rewrites=1, awaited=8).why_it_waits == ""
    assert Filling(size=16, ready=16, said=16, awaited=8).why_it_waits == ""


# The chip


@pytest.mark.parametrize(("reward", "tone"), [(1, "good"), (-1, "bad"), (0, ""), (None, "")])
def test_a_chips_colour_is_the_verdict_and_not_how_far_it_has_come(make_lesson, make_turn, reward, tone):
    lesson = make_lesson()
    Judgement.objects.update(reward=reward)
    assert journey(lesson.turn).tone == tone
    unused = make_turn("judged")
    Judgement.objects.create(turn=unused, reward=reward, reward_from="votes", reason="not asked for")
    assert journey(unused).tone == tone


def test_an_unclear_reply_has_a_grey_chip_that_says_so(make_turn):
    turn = make_turn("judged")
    Judgement.objects.create(turn=turn, reward=-1, reward_from="votes", reason="unclear", reason_code="unclear")
    told = journey(turn)
    assert (told.label, told.tone, told.stage) == ("unclear", "", "unused")


def test_operators_read_the_stage_in_the_title_and_others_do_not(make_turn, own, operator):
    turn = make_turn()
    assert 'title="Nothing has come back' in page_of(own, turn)
    Session.objects.update(user=operator)
    own.force_login(operator)
    assert 'title="served: Nothing has come back' in page_of(own, turn)


# What a judge guessed


@pytest.fixture
def guessed(make_lesson) -> Hint:
    turn = make_lesson(hint="Add type hints.").turn
    Judgement.objects.update(hint_from="votes")
    return Hint.objects.create(
        turn=turn, status="accepted", source="user", proposed="Add type hints.", text="Add type hints.", confidence=1.0
    )


def test_a_chip_shows_the_words_that_a_judge_found_with_a_way_to_say_no(own, guessed):
    page = page_of(own, guessed.turn)
    assert "The judge thinks that you want: <q>Add type hints.</q>" in page
    answer = own.post(reverse("preferences:not_meant", args=[guessed.pk]), headers={"HX-Request": "true"})
    assert "It will not be taught." in text_of(answer)
    assert "Add type hints." not in text_of(answer)
    guessed.refresh_from_db()
    assert (guessed.status, guessed.decided_by) == ("rejected", guessed.turn.session.user)
    assert Ruling.objects.get(hint=guessed).reason == "That is not what I meant."
    assert Turn.objects.get(pk=guessed.turn_id).status == "observed"  # it is judged again, without the hint


def test_no_one_but_its_person_and_reviewers_says_what_was_meant(client, guessed, operator):
    path = reverse("preferences:not_meant", args=[guessed.pk])
    client.force_login(get_user_model().objects.create_user("cy"))
    assert client.post(path).status_code == 404
    client.force_login(operator)
    assert client.post(path).status_code == 302
    guessed.refresh_from_db()
    assert guessed.decided_by == operator


def test_what_a_person_said_themselves_is_no_guess(own, guessed):
    Hint.objects.update(source="person")
    assert "The judge thinks" not in page_of(own, guessed.turn)
    assert own.post(reverse("preferences:not_meant", args=[guessed.pk])).status_code == 404


def test_what_is_learned_already_is_shown_and_not_taken_back_here(own, guessed):
    Sample.objects.update(status="trained")
    assert own.get(reverse("chat:session", args=[guessed.turn.session_id])).status_code == 200
    Sample.objects.update(status="claimed")
    page = page_of(own, guessed.turn)
    assert "<q>Add type hints.</q>" in page
    assert "That is not what I meant" not in page


# What will not teach


def off_chat(turn):
    Session.objects.filter(pk=turn.session_id).update(learns=False)


def off_message(turn):
    Turn.objects.filter(pk=turn.pk).update(learns=False)


def serve_only(turn):
    key, _ = ApiKey.objects.issue(turn.session.user, "laptop", learns=False)
    Session.objects.filter(pk=turn.session_id).update(key=key)
    off_message(turn)


def side(turn):
    Turn.objects.filter(pk=turn.pk).update(line="side")


def leaving(turn):
    Erasure.objects.create(user=turn.session.user, total=1)


def emptied(turn):
    sample = Sample.objects.create(status="trained", checkpoint=turn.checkpoint, reward=1.0, **sample_rows.NOTHING)
    Turn.objects.filter(pk=turn.pk).update(status="judged")
    Judgement.objects.create(turn=turn, reward=1, reward_from="votes", sample=sample)


@pytest.mark.parametrize(
    ("happens", "says"),
    [
        (off_chat, "This chat is off the record: what you write here is kept with it, and will not be taught."),
        (off_message, "This message is off the record: what you write here is kept with it, and will not be taught."),
        (serve_only, "This chat came through a key that is served only: what you write here is kept with it,"),
        (side, "A side request never teaches: what you write here is kept with it, and will not be taught."),
        (leaving, "You asked to have everything deleted, this chat too. Nothing you write here will be taught."),
        (emptied, "What this reply taught was erased, so it teaches nothing more. What you write is kept."),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_the_box_says_before_it_is_written_what_will_not_teach(own, make_turn, happens, says):
    turn = make_turn()
    amber = f'<p class="note warn small">{says}'
    assert amber not in boxes_of(own, turn)
    happens(turn)
    assert boxes_of(own, turn).count(amber) == 2  # in the box of corrections, and in the one of marks
    answer = own.post(f"/turns/{turn.pk}/feedback/", {"kind": "thumb", "value": -1}, follow=True)
    assert amber in text_of(answer)  # without scripts


def test_a_reply_that_was_cut_short_may_be_corrected_without_a_warning(own, make_turn):
    assert "note warn small" not in boxes_of(own, make_turn(finish_reason="length"))


# What was asked for lately


def test_recent_guidance_is_offered_once_each_and_newest_first(own, talker, make_turn):
    wishes = ("Be brief.", "Use a list.", "be  brief", "Add a joke.", "x" * 161, "In French.", "No lists.", "Cite.")
    for words in wishes:
        Feedback.objects.create(turn=make_turn(), by=talker, kind="guidance", text=words)
    Feedback.objects.filter(text="Cite.").update(withdrawn_at=timezone.now())
    # Of eight, one is taken back, one is too long for a chip, and two say the same: the newest five are left.
    lately = ["No lists.", "In French.", "Add a joke.", "be brief", "Use a list."]
    assert Feedback.objects.recent_guidance(talker) == lately
    other = get_user_model().objects.create_user("cy")
    assert Feedback.objects.recent_guidance(other) == []
    page = boxes_of(own, make_turn())
    assert '<button class="pick" name="text" value="No lists." title="No lists.">No lists.</button>' in page


def test_one_tap_on_recent_guidance_asks_for_it_of_this_reply(own, talker, make_turn):
    turn = make_turn()
    own.post(f"/turns/{turn.pk}/feedback/", {"kind": "guidance", "text": "Be brief."}, headers={"HX-Request": "true"})
    said = Feedback.objects.standing().get(turn=turn)
    assert (said.kind, said.text, said.by) == ("guidance", "Be brief.", talker)


# Without scripts


def test_without_scripts_teach_opens_and_closes_by_the_same_button(own, make_turn):
    turn = make_turn()
    page = page_of(own, turn)
    assert f'name="open" value="teach-{turn.pk}" aria-expanded="false"' in page
    opened = text_of(own.get(reverse("chat:session", args=[turn.session_id]), {"open": f"teach-{turn.pk}"}))
    assert 'name="open" value="" aria-expanded="true"' in opened
    assert f'<section id="teach-{turn.pk}" class="opened correction card panel" aria-label="Teach">' in opened


def test_without_scripts_a_thumb_down_asks_what_to_do_next_time(own, make_turn):
    turn = make_turn()
    answer = own.post(f"/turns/{turn.pk}/feedback/", {"kind": "thumb", "value": -1}, follow=True)
    assert answer.redirect_chain[-1][0].endswith(f"?open=teach-{turn.pk}#turn-{turn.pk}")
    assert f'<section id="teach-{turn.pk}" class="opened correction card panel" aria-label="Teach">' in text_of(answer)


# Signed out


def test_a_form_of_a_page_that_was_signed_out_elsewhere_says_so(talker, make_turn):
    turn = make_turn()
    strict = Client(enforce_csrf_checks=True)
    answer = strict.post(f"/turns/{turn.pk}/feedback/", {"kind": "thumb", "value": 1})
    assert (answer.status_code, answer.headers["X-Signed-Out"]) == (403, "1")
    assert "You are signed out." in text_of(answer)
    strict.force_login(talker)
    answer = strict.post(f"/turns/{turn.pk}/feedback/", {"kind": "thumb", "value": 1})
    assert "X-Signed-Out" not in answer.headers
    assert "This page is out of date" in text_of(answer)


# What lies beyond the newest hundred


def test_every_chat_is_reached_from_the_side_list(own, talker, monkeypatch):
    monkeypatch.setattr(pages, "LISTED", 3)
    now = timezone.now()
    # Two of the seven were spoken in at the same moment.
    for n in range(7):
        Session.objects.create(user=talker, title=f"Chat {n}", active_at=now - timedelta(hours=min(n, 5)))
    seen, path = [], reverse("chat:new")
    answer = own.get(path)
    listed = answer.context["own"]
    while True:
        seen += [one.title for one in listed.rows]
        if not listed.more:
            break
        assert 'class="more-chats"' in text_of(answer)
        answer = own.get(listed.more, headers={"HX-Request": "true"})
        assert "<html" not in text_of(answer)
        listed = answer.context["chats"]
    assert sorted(seen) == [f"Chat {n}" for n in range(7)]
    assert seen[:5] == [f"Chat {n}" for n in range(5)]


def test_without_scripts_more_chats_are_a_page(own, talker, monkeypatch):
    monkeypatch.setattr(pages, "LISTED", 1)
    for n in range(3):
        Session.objects.create(user=talker, title=f"Chat {n}", active_at=timezone.now() - timedelta(hours=n))
    page = text_of(own.get(own.get(reverse("chat:new")).context["own"].more))
    assert "Chat 1" in page
    assert "Chat 0" not in page
    assert own.get(reverse("chat:more-own"), {"after": "nowhere"}).status_code == 404


def test_every_turn_of_a_chat_is_reached_from_its_page(own, talker, monkeypatch):
    monkeypatch.setattr(branches, "SHOWN", 2)
    session = Session.objects.create(user=talker)
    turn = None
    for n in range(5):
        turn = Turn.objects.create(
            session=session, position=n, follows=turn, status="served", checkpoint=Checkpoint.live(), text=f"Reply {n}",
            messages=[{"role": "user", "content": f"Question {n}"}], response_ids=[1], finish_reason="stop",
        )  # fmt: skip
    path, shown = reverse("chat:session", args=[session.pk]), []
    answer = own.get(path)
    while True:
        shown = [turn.text for turn in answer.context["turns"]] + shown
        earlier = answer.context["earlier"]
        if earlier is None:
            break
        assert f'href="{path}?before={earlier}"' in text_of(answer)
        answer = own.get(path, {"before": earlier})
        assert "ws-connect" not in text_of(answer)  # what is new belongs to the newest page
    assert shown == [f"Reply {n}" for n in range(5)]


# The board


def test_turns_off_the_record_are_one_line_of_the_board(console, make_turn):
    for _ in range(3):
        make_turn(learns=False)
    kept = make_turn()
    assert [turn.pk for turn in newest_turns.turns()] == [kept.pk]
    page = text_of(console.get(reverse("console:turns")))
    assert "(off the record)" not in page.split('id="board-turns"')[1].split("</section>")[0]
    assert "3 turns off the record are not listed: only their people read them." in page
