"""Trials and the guard in the console, and from the command line."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from chat.models import Session, Turn
from checkpoints import trials
from checkpoints.models import Checkpoint, Decision, Line, Trial
from feedback.models import Feedback
from tests.webapp.conftest import unfolded
from webapp.charts import shares
from webapp.console.checkpoints import tried


@pytest.fixture(autouse=True)
def house(settings, tiny_model, tmp_path, db):
    settings.MODEL, settings.MODEL_NAME, settings.DATA_DIR = str(tiny_model), "talkback", tmp_path


@pytest.fixture
def passed(engine):
    """A checkpoint that passed the gate, which the scripted engine answers for."""
    adapter = "talkback-1-00000001"
    probe = engine.probe(adapter)
    return Checkpoint.objects.create(number=1, status="passed", adapter=adapter, path="checkpoints/1", probe=probe)


@pytest.fixture
def vote(talker):
    """Chats of a trial, each with a thumb."""

    def vote(trial, is_candidate, values):
        for value in values:
            session = Session.objects.create(user=talker)
            while trials.falls_to(trial.pk, session.pk, trial.share) != is_candidate:
                session = Session.objects.create(user=talker)
            said = {"status": "closed", "messages": [], "finish_reason": "stop", "text": "Yes.", "position": 0}
            checkpoint = trial.checkpoint if is_candidate else trial.against
            turn = Turn.objects.create(session=session, checkpoint=checkpoint, response_ids=[8, 9, 2], **said)
            Feedback.objects.create(turn=turn, by=talker, kind="thumb", value=value)

    return vote


def page(console, number=1):
    return unfolded(console, number)


def start(console, **fields):
    return console.post(reverse("console:start_trial", args=[1]), fields, follow=True).content.decode()


def end(console, **fields):
    return console.post(reverse("console:end_trial", args=[1]), fields, follow=True).content.decode()


def test_a_trial_is_begun_read_and_ended_on_the_page(console, operator, passed, vote):
    assert "Try it" in page(console)

    said = start(console, share="30", reason="to see")
    assert "talkback@1 is being tried: 30 per cent of the sessions, from the next reply on." in said
    trial = Trial.objects.get()
    assert (trial.share, trial.by) == (30, operator)
    vote(trial, True, [1, 1, -1])
    vote(trial, False, [1])
    said = page(console)
    assert "Not yet known. About" in said
    assert "talkback@1: 2 of 3 up" in said
    assert "is being tried with 30 per cent of the sessions" in page(console, 0)

    assert "The trial has ended: talkback@0 writes every new reply." in end(console, reason="enough", outcome="better")
    trial.refresh_from_db()
    assert (trial.outcome, trial.evidence["candidate"]) == ("stopped", {"ups": 2, "downs": 1})  # thumbs decide
    assert "2 of 3 conversations with talkback@1 were thumbed up" in page(console)
    assert Decision.objects.filter(by=operator, verb="end trial", reason="Stopped. enough").exists()


def test_reviewers_say_themselves_how_it_ended(console, passed):
    start(console, share=["10", "0"])  # the number in its field, and the other button
    assert "you say how it ended" in page(console)
    end(console, outcome="no worse")
    assert (Trial.objects.get().share, Trial.objects.get().outcome) == (0, "no worse")


@pytest.mark.parametrize("share", ["", "ten", "-1", "91", "9999999999"])
def test_a_share_that_is_none_is_refused_and_nothing_begins(share, console, passed):
    start(console, share=share)
    assert not Trial.objects.exists()


def test_only_staff_try_anything(client, talker, passed):
    client.force_login(talker)
    assert client.post(reverse("console:start_trial", args=[1]), {"share": "10"}).status_code == 403
    assert client.post(reverse("console:end_trial", args=[1])).status_code == 403
    assert not Trial.objects.exists()


def test_an_engine_that_lies_is_said_aloud(console, passed, engine):
    engine.logprobs = lambda prompt, response, adapter: [-1.0] * len(response)
    assert "as if the adapter were not there" in start(console, share="10")
    assert not Trial.objects.exists()


def test_the_line_says_how_many_a_trial_takes(console, passed):
    Line.objects.update(policy={"trial_share": 25})
    assert 'value="25"' in page(console)


def test_the_live_checkpoint_shows_its_guard(console, passed):
    assert "live from the start" in page(console, 0)
    Checkpoint.objects.filter(number=0).update(status="retired")
    Checkpoint.objects.filter(number=1).update(status="live")
    Decision.objects.create(checkpoint=passed, verb="promote")
    said = page(console)
    assert "Its newest replies are compared with those of" in said
    assert "repetition" in said


def test_the_drawing_says_in_words_what_it_shows(passed, vote):
    trial = Trial.objects.create(checkpoint=passed, against=Checkpoint.live(), line_id="shared", share=50)
    vote(trial, True, [1, 1])
    chart = shares.trial(tried.arms.standing(trial))
    # two up: M(p) = B(2.5, .5)/pi/p^2 = 0.375/p^2 is 20 at p = 0.137, and nothing is known of the other arm
    assert chart.sentence == (
        "talkback@1: 2 of 2 up, 34% to 100%; talkback@0: 0 of 0 up, 0% to 100%; difference -86 to +100 points."
    )
    assert chart.bars[1].at is None
    # From 96 to 424 over −1 to 1: nothing at 260, and a loss of a tenth at 96 + 328 · 0.45
    assert [x for x, mark in chart.scales[1].marks if mark == "0"] == [260.0]
    assert chart.rule.x == 243.6
    assert "right of the dashed line (−10 points) no worse" in chart.caption


def test_the_command_starts_shows_and_ends(passed, capsys):
    call_command("trial", "show")
    call_command("trial", "start", "1", "--share", "20")
    call_command("trial", "show")
    with pytest.raises(CommandError, match="Thumbs decide"):
        call_command("trial", "end", "--outcome", "better")
    call_command("trial", "end", "--reason", "enough")
    said = capsys.readouterr().out
    assert "Nothing was ever tried in shared." in said
    assert "talkback@1 is being tried: 20 per cent of the sessions, beside talkback@0." in said
    assert "talkback@1, 20 per cent of the sessions, beside talkback@0: running." in said
    assert "The trial of talkback@1 has ended: talkback@0 writes every new reply." in said
    with pytest.raises(CommandError, match="Nothing is being tried in shared"):
        call_command("trial", "end")
    with pytest.raises(CommandError, match="There is no checkpoint 7"):
        call_command("trial", "start", "7")
