"""Corrections that never trained: measured beside live, with an interval, and honest where there are too few."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.models import Checkpoint
from gate import findings, personal_part
from gate.personal_part import Lessons, Row
from judge.hints.hint_words import worded
from judge.models import Judgement
from tests.gate.candidates import both_say, check, lesson
from training.config import Gate

LIMITS = Gate(prompts=4, pack=0)


@pytest.fixture(autouse=True)
def enough(monkeypatch):
    """Three corrections are enough to know."""
    monkeypatch.setattr(personal_part, "ENOUGH", 3)


def rows(changes, person=1):
    return [Row(f"{person}-{at}", person, "rewrite", 0.0, change) for at, change in enumerate(changes)]


def taught(live, new, base=0.0):
    """Kept corrections of a kind that was taught, as the base, live and the candidate did on them."""
    both = zip(live, new, strict=True)
    return [Row(f"1-{at}", 1, "hint", one, other, base, True) for at, (one, other) in enumerate(both)]


@pytest.fixture
def keep(serve, say):
    """A turn whose correction was kept from training."""

    def keep(kind="rewrite", words="It is four."):
        turn = serve(status="judged")
        say(turn, kind, words)
        return Judgement.objects.create(turn=turn, hint=words, hint_from=kind, held_out=True)

    return keep


def test_too_few_to_know_is_said_and_never_fails():
    (found,) = findings.pleased(rows([-9.0, -9.0]), LIMITS)
    assert found.passed
    assert "Not enough to know: 2 of the 3" in found.sentence
    assert "Not enough to know: 0 of the 3" in findings.pleased([], LIMITS)[0].sentence


def test_worse_beyond_luck_fails_with_the_worst_first():
    (found,) = findings.pleased(rows([-0.2, -0.4, -0.3, -0.3]), LIMITS)
    assert not found.passed
    assert found.worst[:2] == ("1-1", "1-2")
    assert found.value < -0.03  # the interval's upper end


def test_luck_is_not_taken_for_a_fall():
    assert findings.pleased(rows([-0.4, 0.3, -0.2, 0.2]), LIMITS)[0].passed


def test_one_person_may_not_pay_for_the_others():
    fine, worse = rows([0.5] * 9), rows([-0.3, -0.4, -0.3], person=2)
    (found,) = findings.pleased([*fine, *worse], LIMITS)
    assert not found.passed
    assert "Worse off: 1 of 2 people" in found.sentence


def test_a_rewrite_that_the_candidate_finds_less_likely_counts_against_it(engine, examine, candidate, keep):
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


def test_a_hint_is_measured_on_a_fresh_reply_of_both(engine, examine, candidate, keep):
    keep("guidance", "Use fewer words, please.")
    both_say(engine)
    exam = examine(LIMITS)
    (row,) = exam.personal
    assert (row["kind"], row["live"] is not None, row["candidate"] is not None) == ("hint", True, True)
    assert {call.adapter for call in engine.asked("generate")} == {None, candidate.adapter}
    assert candidate.status == "passed"


def test_a_correction_that_cannot_be_laid_out_as_it_was_served_is_left_out(engine, examine, candidate, keep):
    kept = keep("guidance", "Use fewer words, please.")
    kept.turn.prompt_ids = [5, 6]
    kept.turn.save()
    both_say(engine)
    exam = examine(LIMITS)
    assert (exam.personal[0]["live"], candidate.status) == (None, "passed")


# Does the lesson show where it never trained?


def test_what_was_taught_has_to_be_won_and_no_worse_is_not_enough():
    flat = taught([0.0] * 4, [0.1, -0.1, 0.05, -0.05])
    (found,) = findings.learned(flat, LIMITS)
    assert (found.name, found.passed, found.limit) == ("lesson shown", False, 0.0)
    assert found.value < 0  # the interval's lower end
    assert found.worst[0] == "1-1"
    (won,) = findings.learned(taught([0.0] * 4, [0.1, 0.2, 0.15, 0.05]), LIMITS)
    assert (won.passed, won.worst) == (True, ())
    assert won.value > 0


def test_what_was_never_taught_need_not_be_won():
    assert findings.learned(rows([0.1, -0.1, 0.05, -0.05]), LIMITS) == []
    (found,) = findings.pleased([*rows([0.0] * 4), *taught([0.0] * 2, [0.0] * 2)], LIMITS)
    assert found.passed
    assert "2 of them are of a kind that it was taught: from 3 on it has to do better" in found.sentence


def test_what_live_has_already_has_only_to_be_kept():
    live = [0.4, 0.5, 0.6, 0.5]  # over the base: 0.5, for certain
    (same,) = findings.learned(taught(live, live), LIMITS)
    assert same.passed
    assert same.value > 0.2  # half of live's gain is 0.2 to 0.3; all of it was kept
    assert "Live has the lesson already" in same.sentence
    (half,) = findings.learned(taught(live, [one * 0.4 for one in live]), LIMITS)  # 0.2 of 0.5: less than half
    assert not half.passed
    assert half.value < 0


def test_a_recipe_may_ask_only_that_nothing_was_lost():
    flat = taught([0.0] * 4, [0.02, -0.02, 0.01, -0.01])
    assert findings.learned(flat, LIMITS.model_copy(update={"own_gain": -0.03}))[0].passed


@given(st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2)), min_size=3, max_size=9))
def test_only_a_candidate_above_live_or_above_the_base_passes(both):
    (found,) = findings.learned(taught(*zip(*both, strict=True)), LIMITS)
    live, new = (sum(side) / len(both) for side in zip(*both, strict=True))
    assert not found.passed or new > live or new > 0.5 * live > 0


def test_a_lesson_is_of_a_kind_by_what_it_asks_for_and_a_rewrite_by_who_wrote_it(serve, candidate, person):
    lesson(serve, candidate, "Keep it short.")
    assert not Lessons.of(candidate).hold(worded(rewrite="Four."), person.pk)
    lesson(serve, candidate, worded(rewrite="It is two."), hint_from="rewrite")
    found = Lessons.of(candidate)
    assert found.hold("Please use fewer words.", person.pk + 1)  # the same wish, of another person
    assert not found.hold("Answer in German.", person.pk)
    assert found.hold(worded(rewrite="Four."), person.pk)
    assert not found.hold(worded(rewrite="Four."), person.pk + 1)


def test_what_the_weights_that_it_came_from_learned_was_taught_too(serve, candidate, person):
    lesson(serve, candidate, "Keep it short.")
    child = Checkpoint(number=2, parent=candidate, adapter="talkback-2-b", path="checkpoints/2")
    child.save()
    assert Lessons.of(child).hold("Keep it short.", person.pk)
    assert not Lessons.of(Checkpoint.live()).hold("Keep it short.", person.pk)


def test_a_candidate_that_does_not_heed_what_it_was_taught_is_rejected(engine, serve, examine, candidate, keep):
    lesson(serve, candidate, worded(rewrite="It is two."), hint_from="rewrite")
    for word in ("four", "five", "six"):
        kept = keep(words=f"It is {word}.")
        kept.hint = worded(rewrite=kept.hint)
        kept.save()
    engine.logprobs = lambda prompt, response, adapter: [-1.0 - 0.001 * bool(adapter)] * len(response)
    Checkpoint.objects.filter(pk=candidate.pk).update(
        probe=candidate.probe | {"logprobs": [-1.001] * 3, "base_logprobs": [-1.0] * 3}
    )
    both_say(engine)
    exam = examine(LIMITS)
    found = check(exam, "lesson shown")
    assert candidate.status == "rejected"
    assert (found["passed"], found["value"]) == (False, pytest.approx(-0.001))
    assert {row["base"] for row in exam.personal} == {-1.0}  # live is the base: it is not asked twice
    assert check(exam, "kept corrections")["passed"]  # it is no worse, which is not enough
