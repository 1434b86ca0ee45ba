"""The welcome leads a new installation through one lesson: ask, teach, approve, with true progress from the rows."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from chat.models import Turn
from chat.replying import replies
from checkpoints.models import Checkpoint
from feedback.models import Feedback
from tests.webapp.conftest import text_of
from tests.webapp.console.test_console_board import NOW, facts, run
from training.batches import Filling
from webapp import sample_lesson
from webapp.console import welcome
from webapp.console.board import Board
from webapp.console.loop.stations import stations
from webapp.notifications.models import PutAway
from webapp.sample_lesson import Progress
from webapp.tasks import ask_samples

TALKED = {"turns": {"served": 4}}


def states(sample=Progress(), **changes) -> list[str]:  # noqa: B008 - frozen
    known = facts(**changes)
    return [step.state for step in welcome.decide(Board(known, stations(known)), sample)]


def shown(console) -> str:
    page = text_of(console.get(reverse("console:board")))
    return page[page.index('id="board-welcome"') :].split("</section>")[0]


@pytest.mark.parametrize(
    ("sample", "changes", "expected"),
    [
        (Progress(), {}, ["ask", "later", "later"]),
        (Progress(4, 2), {"turns": {"served": 2, "answering": 2}}, ["asking", "later", "later"]),
        (Progress(4, 4), TALKED, ["done", "teach", "later"]),
        (Progress(4, 4, 4, 1), TALKED, ["done", "judging", "later"]),
        (Progress(4, 4, 4, 4), {**TALKED, "batch": Filling(16, 4)}, ["done", "learn", "later"]),
        (Progress(), TALKED, ["done", "teach", "later"]),  # a chat of one's own
        (Progress(), {**TALKED, "batch": Filling(16, 2)}, ["done", "learn", "later"]),
        (Progress(4, 4, 4, 4), {"run": run("running", progress={"share": 0.4})}, ["done", "learning", "later"]),
        (
            Progress(4, 4, 4, 4),
            {"candidate": Checkpoint(number=1, status="candidate", moved_at=NOW), "checkpoints": {"candidate": 1}},
            ["done", "done", "exam"],
        ),
        (
            Progress(4, 4, 4, 4),
            {"passed": Checkpoint(number=1, status="passed", moved_at=NOW), "checkpoints": {"passed": 1}},
            ["done", "done", "decide"],
        ),
        (Progress(4, 4, 4, 4), {"checkpoints": {"rejected": 1}}, ["done", "done", "refused"]),
    ],
)
def test_each_step_says_how_far_it_is(sample, changes, expected):
    assert states(sample, **changes) == expected


def test_a_step_has_one_button_and_only_what_is_open_has_one(console, make_turn):
    assert "welcome-ask" in shown(console)
    assert len(re.findall(r'class="button primary"', shown(console))) == 1
    make_turn("served")
    assert "welcome-teach" in shown(console)
    assert len(re.findall(r'class="button primary"', shown(console))) == 1


def test_the_sample_asks_four_questions_once_and_teaches_one_wish(operator, engine, console):
    assert sample_lesson.ask(operator, engine) == 4
    assert sample_lesson.progress(operator) == Progress(4, 4, 0, 0)
    assert sample_lesson.ask(operator, engine) == 0  # a second press
    assert Turn.objects.count() == 4
    assert {turn.session.learns for turn in Turn.objects.select_related("session")} == {True}
    asked = [call.sampling.max_new_tokens for call in engine.asked("stream")]
    assert asked == [sample_lesson.MAX_NEW_TOKENS] * 4

    console.post(reverse("console:welcome_teach"))
    console.post(reverse("console:welcome_teach"))
    said = Feedback.objects.filter(withdrawn_at=None).values_list("kind", "text", "by__username")
    assert list(said) == [("guidance", sample_lesson.WISH, "ana")] * 4
    assert sample_lesson.progress(operator) == Progress(4, 4, 4, 0)
    assert 'max="4" value="0" aria-label="Teach: 0 of 4"' in shown(console)


def test_a_question_that_failed_is_asked_again_by_a_press(operator, engine, monkeypatch):
    monkeypatch.setattr(replies, "PATIENCE_S", 0.0)
    engine.goes_down()
    sample_lesson.ask(operator, engine)
    assert set(Turn.objects.values_list("status", flat=True)) == {"closed"}
    assert sample_lesson.progress(operator) == Progress()
    engine.comes_back()
    sample_lesson.ask(operator, engine)
    assert sample_lesson.progress(operator).written == 4


def test_the_button_has_a_worker_ask(console, operator, monkeypatch):
    sent = []
    monkeypatch.setattr(ask_samples, "apply_async", lambda args, **options: sent.append(args))
    assert console.post(reverse("console:welcome_ask")).url == reverse("console:board")
    assert sent == [(operator.pk,)]


def test_without_a_sample_teach_leads_to_the_chat(console, make_turn):
    make_turn("served")
    assert console.post(reverse("console:welcome_teach")).url == reverse("chat:home")


def test_it_is_gone_once_a_checkpoint_went_live_or_a_person_put_it_away(console, operator, make_checkpoint):
    assert "Your first lesson" in shown(console)
    console.post(reverse("console:welcome_put_away"))
    assert "Your first lesson" not in shown(console)
    PutAway.objects.all().delete()
    make_checkpoint(1, "retired")
    assert "Your first lesson" not in shown(console)


def test_beside_it_the_headline_is_hidden_but_for_what_is_wrong(console, make_turn, workers):
    def headline() -> str:
        page = text_of(console.get(reverse("console:board")))
        return re.search(r'<section id="board-headline"[^>]*>', page)[0]

    assert " hidden" in headline()
    make_turn("observed")
    workers.never_heard("judge")
    assert " hidden" not in headline()


def test_only_who_runs_it_begins_a_sample(client, talker):
    client.force_login(talker)
    for name in ("ask", "teach", "put_away"):
        assert client.post(reverse(f"console:welcome_{name}")).status_code == 403
