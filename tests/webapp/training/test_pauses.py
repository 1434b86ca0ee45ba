"""Learning that waits says why, wherever it is looked for; and a person can hold it back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.urls import reverse
from django.utils import timezone

from chat import quiet
from chat.models import Turn
from tests.webapp.conftest import text_of
from tests.webapp.console.test_console_board import run, station
from tests.webapp.test_commands import said
from training import batches, config, hours, line_recipes
from training.batches import Filling
from training.hours import Wait
from training.models import Pause, Run
from webapp.console import board

NIGHT = Wait("it may run from 22:00", datetime(2026, 3, 2, 22, tzinfo=UTC))
SENTENCE = "Training waits: it may run from 22:00. 16 lessons are ready."


@pytest.fixture
def at_two(settings, monkeypatch):
    """Two in the afternoon, where learning may run at night."""
    settings.LEARN_HOURS = "22:00-07:00"
    monkeypatch.setattr(hours.timezone, "localtime", lambda timezone=None: datetime(2026, 3, 2, 14, tzinfo=UTC))


def test_a_full_batch_says_that_it_waits_for_the_hours():
    now = station("batch", batch=Filling(16, 16), wait=NIGHT)
    assert (now.mood, now.sentence) == ("waiting", f"{SENTENCE}")
    now = station("learn", batch=Filling(16, 16), wait=NIGHT)
    assert (now.figure, now.mood, now.sentence) == ("waits", "waiting", SENTENCE)


def test_a_queued_run_says_that_it_waits_with_what_it_has_claimed():
    now = station(
        "learn", runs={"queued": 1}, samples={"claimed": 16}, batch=Filling(16, 3), run=run("queued"), wait=NIGHT
    )
    assert (now.figure, now.mood, now.sentence) == ("run 3", "waiting", SENTENCE)


def test_hours_are_not_told_where_samples_are_wanted_or_a_run_is_at_work():
    said = station("batch", batch=Filling(16, 3), wait=NIGHT).sentence
    assert said == "3 of 16 lessons. Training starts at 16, or now."
    assert station("learn", batch=Filling(16, 3), wait=NIGHT).mood == "idle"
    assert (
        station("learn", batch=Filling(16, 16), runs={"running": 1}, run=run("running"), wait=NIGHT).mood == "working"
    )


def test_a_pause_is_told_even_where_samples_are_wanted():
    now = station("learn", batch=Filling(16, 3), wait=Wait("paused until a person resumes it", None), pause=Pause())
    assert now.sentence == "Training waits: paused until a person resumes it. 3 lessons are ready."
    assert now.figure == "paused"


def test_the_board_reads_the_clock_and_the_settings(make_lesson, at_two, monkeypatch):
    monkeypatch.setattr(
        line_recipes, "current", lambda: config.PRESETS["embedded"].model_copy(update={"batch_size": 2})
    )
    make_lesson(), make_lesson()

    found = board.read()

    sentence = "Training waits: it may run from 22:00. 2 lessons are ready."
    assert found.as_json()["waiting"]["batch"] == f"{sentence}"
    assert found.facts.held == sentence


def test_the_headline_says_what_is_waited_for_in_place_of_no_more_lessons(console, make_lesson, at_two, monkeypatch):
    monkeypatch.setattr(
        line_recipes, "current", lambda: config.PRESETS["embedded"].model_copy(update={"batch_size": 1})
    )
    make_lesson()

    page = text_of(console.get(reverse("console:board")))

    assert (
        "<strong>Nothing is waiting for you.</strong> Training waits: it may run from 22:00. 1 lesson is ready." in page
    )


def test_a_person_pauses_and_resumes_in_the_console(console, operator):
    page = text_of(console.post(reverse("console:pause"), {"reason": "benchmarks", "hours": "2,5"}, follow=True))
    held = hours.current()
    assert (held.by, held.reason) == (operator, "benchmarks")
    assert timedelta(hours=2.4) < held.until - timezone.now() <= timedelta(hours=2.5)
    assert "Training is paused." in page
    assert f"Training waits: paused by {operator} (benchmarks). It goes on at " in page

    page = text_of(console.post(reverse("console:resume"), follow=True))
    assert "Training resumed" in page
    assert hours.current() is None
    assert "Training was not paused." in text_of(console.post(reverse("console:resume"), follow=True))


@pytest.mark.parametrize("said_hours", ["soon", "-1", "nan", "1e300"])
def test_hours_that_are_no_hours_pause_nothing(console, said_hours):
    page = text_of(console.post(reverse("console:pause"), {"hours": said_hours}, follow=True))
    assert "is no number of hours" in page or "ends in the future" in page
    assert hours.current() is None


def test_only_staff_may_pause(client, talker):
    client.force_login(talker)
    assert client.post(reverse("console:pause")).status_code == 403
    assert client.post(reverse("console:resume")).status_code == 403
    assert not Pause.objects.exists()


def test_learn_now_under_a_pause_says_that_it_waits(console, make_lesson, capsys):
    hours.pause()
    make_lesson(), make_lesson(hint="Say it kindly.")

    page = text_of(console.post(reverse("console:learn_now"), follow=True))

    assert "Training waits: paused until a person resumes it. 2 lessons are ready." in page
    assert Run.objects.get().status == "queued"


def test_the_same_in_a_terminal(make_lesson, capsys):
    assert said(capsys, "learning", "status") == "Training may start at any moment.\n"
    out = said(capsys, "learning", "pause", "--reason", "a benchmark")
    assert out == "Training waits: paused (a benchmark) until a person resumes it. 0 lessons are ready.\n"

    make_lesson()
    assert said(capsys, "learn_now").splitlines()[-1].endswith("until a person resumes it. 1 lesson is ready.")
    assert "Training waits: paused (a benchmark)" in said(capsys, "runs", "list")

    assert said(capsys, "learning", "resume") == "Training resumed.\n"
    assert "Training waits" not in said(capsys, "runs", "list")


def test_a_pause_until_a_time_that_is_none_fails_with_a_sentence(db):
    for wrong, reason in (("tomorrow", "looks like 2026-12-24T18:00"), ("2020-01-01T00:00", "ends in the future")):
        with pytest.raises(CommandError, match=reason):
            call_command("learning", "pause", "--until", wrong)
    assert not Pause.objects.exists()


def test_a_run_that_waits_for_its_hours_says_so_in_the_list(make_lesson, at_two, capsys, monkeypatch):
    make_lesson()
    batches.fill(config.PRESETS["embedded"].model_copy(update={"batch_size": 1}))

    assert "Training waits: it may run from 22:00. 1 lesson is ready." in said(capsys, "runs", "list")


# What chat says of it


def test_a_person_chats_from_their_question_to_the_end_of_the_answer(make_turn, db):
    assert quiet.last_chat() is None
    before = timezone.now()
    turn = make_turn("answering")
    assert quiet.last_chat() >= before

    ended = timezone.now() - timedelta(minutes=5)
    Turn.objects.filter(pk=turn.pk).update(status="served", created_at=ended - timedelta(minutes=20), served_at=ended)
    assert quiet.last_chat() == ended
    Turn.objects.filter(pk=turn.pk).update(status="closed", served_at=None)
    assert quiet.last_chat() == ended - timedelta(minutes=20)


def test_the_pipeline_lets_learning_ask_chat(settings, make_turn):
    settings.LEARN_IDLE_S = "60"
    assert hours.waiting() is None
    make_turn("answering")
    assert hours.waiting().why.startswith("a person is chatting")
