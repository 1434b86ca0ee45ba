"""Corrections that never trained: measured beside live, with an interval, and honest where there are too few."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import bootstrap
from judge import gate
from judge.models import Judgement
from judge.own import Row
from tests.judge.test_gate import both_say, candidate, check, examine  # noqa: F401
from training.config import Gate

LIMITS = Gate(prompts=4, handful=2, pack=0, own_enough=3)


def rows(changes, person=1):
    return [Row(f"{person}-{at}", person, "rewrite", 0.0, change) for at, change in enumerate(changes)]


@pytest.fixture
def keep(serve, say):
    """A turn whose correction was kept from training."""

    def keep(kind="rewrite", words="It is four."):
        turn = serve(status="judged")
        say(turn, kind, words)
        return Judgement.objects.create(turn=turn, hint=words, hint_from=kind, held_out=True)

    return keep


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12))
def test_an_interval_holds_its_mean_and_is_the_same_each_time(changes):
    found = bootstrap.interval(changes, draws=200)
    assert min(changes) - 1e-9 <= found.low <= found.high <= max(changes) + 1e-9
    assert found == bootstrap.interval(changes, draws=200)


def test_too_few_to_know_is_said_and_never_fails():
    (found,) = gate.pleased(rows([-9.0, -9.0]), LIMITS)
    assert found.passed
    assert "Not enough to know: 2 of the 3" in found.sentence
    assert "Not enough to know: 0 of the 3" in gate.pleased([], LIMITS)[0].sentence


def test_worse_beyond_luck_fails_with_the_worst_first():
    (found,) = gate.pleased(rows([-0.2, -0.4, -0.3, -0.3]), LIMITS)
    assert not found.passed
    assert found.worst[:2] == ("1-1", "1-2")
    assert found.value < -0.03  # the interval's upper end


def test_luck_is_not_taken_for_a_fall():
    assert gate.pleased(rows([-0.4, 0.3, -0.2, 0.2]), LIMITS)[0].passed


def test_one_person_may_not_pay_for_the_others():
    fine, worse = rows([0.5] * 9), rows([-0.3, -0.4, -0.3], person=2)
    (found,) = gate.pleased([*fine, *worse], LIMITS)
    assert not found.passed
    assert "Worse off: 1 of 2 people" in found.sentence


def test_a_rewrite_that_the_candidate_finds_less_likely_counts_against_it(engine, examine, candidate, keep):  # noqa: F811
    kept = [keep(words=f"It is {word}.") for word in ("four", "five", "six")]
    written = {tuple(engine.tokenizer.encode(one.hint, add_special_tokens=False).ids) for one in kept}
    honest = engine.logprobs
    engine.logprobs = lambda prompt, response, adapter: [
        value - 0.5 * (adapter is not None and tuple(response) in written)
        for value in honest(prompt, response, adapter)
    ]
    both_say(engine)
    exam = examine(LIMITS)
    assert candidate.status == "rejected"
    assert {row["turn"] for row in exam.personal} == {str(one.turn_id) for one in kept}
    assert check(exam, "kept corrections")["value"] == pytest.approx(-0.5, abs=0.1)
    assert not any("It is" in str(value) for row in exam.personal for value in row.values())  # numbers, and no words


def test_a_hint_is_measured_on_a_fresh_reply_of_both(engine, examine, candidate, keep):  # noqa: F811
    keep("guidance", "Use fewer words, please.")
    both_say(engine)
    exam = examine(LIMITS)
    (row,) = exam.personal
    assert (row["kind"], row["live"] is not None, row["candidate"] is not None) == ("hint", True, True)
    assert {call.adapter for call in engine.asked("generate")} == {None, candidate.adapter}
    assert candidate.status == "passed"


def test_a_correction_that_cannot_be_laid_out_as_it_was_served_is_left_out(engine, examine, candidate, keep):  # noqa: F811
    kept = keep("guidance", "Use fewer words, please.")
    kept.turn.prompt_ids = [5, 6]
    kept.turn.save()
    both_say(engine)
    exam = examine(LIMITS)
    assert (exam.personal[0]["live"], candidate.status) == (None, "passed")
