"""What is said while a turn is judged, or after it, is heeded once."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from chat import turns
from chat.models import Turn
from feedback.models import Feedback
from judge.models import Judgement, Sitting
from judge.samples import sample_rows
from judge.samples.sample_rows import Reason
from judge.votes import judges
from tests.judge.votes_said import again
from training.config import Recipe
from training.models import Run, Sample

BINARY, OPD = Recipe(w_opd=0), Recipe(w_rl=0)


def claimed(turn: Turn) -> Sample:
    """The turn's sample, as a run that has just begun holds it."""
    sample = turn.judgement.sample
    sample.move(Sample.Status.CLAIMED, run=Run.objects.create(recipe={}))
    return sample


def test_judging_twice_is_judging_once(serve, say, judge_it):
    turn = serve()
    say(turn, "thumb", value=1)
    assert judge_it(turn)
    assert not judge_it(turn)
    assert Judgement.objects.count() == Sample.objects.count() == 1


def test_a_turn_that_another_worker_is_judging_is_left_to_it(serve, say, judge_it):
    turn = serve()
    say(turn, "thumb", value=1)
    seat = Sitting.objects.create(matter=f"turn {turn.pk}", until=timezone.now() + timedelta(seconds=60))
    assert not judge_it(turn)
    seat.until = timezone.now() - timedelta(seconds=1)  # the worker that sat there has died
    seat.save()
    assert judge_it(turn)


def test_two_judges_at_once_write_one_verdict(serve, judge_it, engine, monkeypatch):
    engine.says(r"\boxed{1}", times=None)
    turn = serve(next_state="Thanks.")
    ask, others = judges.ask, []

    def meanwhile(*args, **kwargs):
        if not others:
            others.append("at work")
            Sitting.objects.all().delete()  # the first one's seat has run out, and a second one sits down
            others.append(judge_it(turn, BINARY))
        return ask(*args, **kwargs)

    monkeypatch.setattr(judges, "ask", meanwhile)
    assert not judge_it(turn, BINARY)
    assert others[1]
    assert Judgement.objects.count() == Sample.objects.count() == 1


def test_feedback_that_arrives_during_the_votes_is_not_lost(serve, say, judge_it, engine, monkeypatch):
    turn = serve(next_state="Hm.")
    ask = judges.ask

    def meanwhile(*args, **kwargs):
        if not Feedback.objects.exists():
            say(turn, "thumb", value=-1)
        return ask(*args, **kwargs)

    monkeypatch.setattr(judges, "ask", meanwhile)
    engine.says(r"\boxed{1}", times=None)
    judge_it(turn, BINARY)
    assert Judgement.objects.get(turn=turn).reward == -1
    assert Sample.objects.get().reward == -1


def test_learning_switched_off_during_the_votes_is_heeded(serve, judge_it, engine, monkeypatch):
    turn = serve(next_state="Hm.")
    ask = judges.ask

    def meanwhile(*args, **kwargs):
        turns.set_learning(turn.session, False)
        return ask(*args, **kwargs)

    monkeypatch.setattr(judges, "ask", meanwhile)
    engine.says(r"\boxed{1}", times=None)
    judge_it(turn, BINARY)
    assert Judgement.objects.get(turn=turn).reason == Reason.OFF
    assert not Sample.objects.exists()


def test_a_changed_thumb_supersedes_a_sample_that_waits(serve, say, judge_it):
    turn = serve()
    thumb = say(turn, "thumb", value=1)
    judge_it(turn)
    thumb.withdrawn_at = timezone.now()
    thumb.save()
    say(turn, "thumb", value=-1)
    judge_it(again(turn))
    old, new = Sample.objects.all()
    assert (old.status, old.drop_reason, old.reward) == ("stale", sample_rows.SUPERSEDED, 1)
    assert (new.status, new.reward) == ("ready", -1)
    assert Judgement.objects.get(turn=turn).sample == new


def test_withdrawn_feedback_takes_a_waiting_sample_away(serve, say, judge_it):
    turn = serve()
    thumb = say(turn, "thumb", value=1)
    judge_it(turn)
    thumb.withdrawn_at = timezone.now()
    thumb.save()
    judge_it(again(turn))
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.reward, judgement.sample, judgement.reason) == (None, None, Reason.NO_SIGNAL)
    assert Sample.objects.get().status == "stale"


def test_the_same_signals_leave_a_waiting_sample_where_it_is(serve, say, judge_it):
    turn = serve()
    say(turn, "thumb", value=1)
    judge_it(turn)
    before = Sample.objects.get()
    judge_it(again(turn))
    assert Sample.objects.get() == before
    assert Judgement.objects.get(turn=turn).sample == before


def test_what_is_said_while_a_run_learns_waits_for_its_end(serve, say, judge_it):
    turn = serve()
    say(turn, "thumb", value=1)
    judge_it(turn)
    sample = claimed(Turn.objects.get(pk=turn.pk))
    late = say(turn, "guidance", "Use fewer words.")
    assert not judge_it(again(turn))
    turn.refresh_from_db()
    late.refresh_from_db()
    assert (turn.status, late.late) == ("observed", True)

    sample.move(Sample.Status.READY, run=None)  # the run failed: nothing was learned, so this verdict replaces it
    assert judge_it(turn)
    assert [s.status for s in Sample.objects.all()] == ["stale", "ready"]


def test_late_feedback_enters_once_and_never_again(serve, say, judge_it):
    turn = serve()
    first = say(turn, "thumb", value=1)
    judge_it(turn)
    learned = claimed(Turn.objects.get(pk=turn.pk))
    learned.move(Sample.Status.TRAINED)
    say(turn, "guidance", "Use fewer words.")
    judge_it(again(turn))
    judgement = Judgement.objects.get(turn=turn)
    assert judgement.learned == learned
    assert (judgement.sample.status, judgement.sample.reward, judgement.sample.has_teacher) == ("ready", 1, True)
    first.refresh_from_db()
    assert [f.late for f in Feedback.objects.order_by("pk")] == [False, True]

    claimed(Turn.objects.get(pk=turn.pk)).move(Sample.Status.TRAINED)
    say(turn, "rewrite", "Four.")
    judge_it(again(turn))
    judgement.refresh_from_db()
    assert judgement.reason == Reason.LEARNED
    assert Sample.objects.count() == 2
    assert not Sample.objects.filter(status="ready").exists()


def test_what_was_learned_is_not_learned_again_for_the_same_reason(serve, say, judge_it):
    turn = serve()
    say(turn, "thumb", value=1)
    judge_it(turn)
    claimed(Turn.objects.get(pk=turn.pk)).move(Sample.Status.TRAINED)
    judge_it(again(turn))
    assert Sample.objects.count() == 1
    assert Judgement.objects.get(turn=turn).reason == Reason.LEARNED


def test_withdrawing_what_was_learned_says_so(serve, say, judge_it):
    turn = serve()
    thumb = say(turn, "thumb", value=1)
    judge_it(turn)
    claimed(Turn.objects.get(pk=turn.pk)).move(Sample.Status.TRAINED)
    thumb.withdrawn_at = timezone.now()
    thumb.save()
    judge_it(again(turn))
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.reason, judgement.reward) == (Reason.WITHDRAWN, None)
    assert judgement.sample.status == "trained"
