"""Agents' part of the exam in numbers: by hand, and by seeded exams of the real size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from checkpoints import line_policies
from gate import agent_pairs
from gate.agent_pairs import ATTEMPTS, CALLS, SOLVED, TRUNCATED, Attempt, Pair, Played
from training.config import Gate

YES = Attempt(is_solved=True, is_cut=False, steps=4, invalid=0, tokens=40)
NO = replace(YES, is_solved=False, invalid=1, steps=2, tokens=20)

TASKS = Gate().tasks

EXAMS = 200
"""Seeded exams of one sort. Of a rate of 0.95 they have at least 180 with all but certainty (10 are left to luck)."""


def played(pairs, **differs):
    wanted = {"exam": 1, "world": "till", "person": 1, "wanted": len(pairs), "is_whole": True}
    return Played(**wanted | {"pairs": pairs} | differs)


def by_task(*results):
    """A task for each (live, candidate): whether each solved its attempts, 1 or 0 for each."""
    return [
        Pair(f"t{number}", attempt, YES if one else NO, YES if other else NO)
        for number, (live, candidate) in enumerate(results)
        for attempt, (one, other) in enumerate(zip(live, candidate, strict=True))
    ]


def found(pairs, name, **differs):
    return next(check for check in agent_pairs.findings(played(pairs, **differs)) if check.name == name)


# By hand


def test_each_task_counts_once_however_many_pairs_of_it_are_left():
    # Of t0 four pairs are left and of t1 one: live solves 1/4 and 1, the candidate 3/4 and 0. Means over the tasks:
    # (0.25 + 1) / 2 = 0.625 and (0.75 + 0) / 2 = 0.375, so −0.25; over the five pairs it would be 0.4 and 0.6, so +0.2.
    outcome = agent_pairs.outcome(by_task(((1, 0, 0, 0), (1, 1, 1, 0)), ((1,), (0,))))
    assert (outcome.solved.live.mean, outcome.solved.candidate.mean, outcome.solved.change.mean) == (
        0.625,
        0.375,
        -0.25,
    )
    # Two tasks changed by +0.5 and −1: a draw of two of them has a mean of −1, −0.25 or 0.5, with ¼, ½ and ¼.
    assert (outcome.solved.change.low, outcome.solved.change.high) == (-1.0, 0.5)


def test_steps_calls_and_tokens_a_solved_task_by_hand():
    # Live: solved, failed; the candidate: solved, solved. YES has 4 replies, NO 2 of which 1 has no valid call.
    outcome = agent_pairs.outcome(by_task(((1, 0), (1, 1))))
    assert (outcome.steps.live.mean, outcome.steps.candidate.mean) == (3.0, 4.0)
    assert (outcome.invalid.live.mean, outcome.invalid.candidate.mean) == (0.25, 0.0)  # (0 + ½) / 2
    assert outcome.tokens == (60.0, 40.0)  # (40 + 20) / 1 and (40 + 40) / 2
    assert agent_pairs.outcome(by_task(((0, 0), (0, 0)))).tokens == (None, None)


def test_a_task_that_fell_most_comes_first_and_is_named_where_the_exam_fails():
    pairs = by_task(*[((1, 1), (0, 1))] * 10, ((1, 1), (0, 0)))  # ten fell by a half, t10 by all
    check = found(pairs, SOLVED)
    assert not check.passed
    assert check.worst[:2] == ("t10", "t0")
    # Live 1; the candidate (10 · ½ + 0) / 11 = 0.4545. Every draw has a mean of −½ or less.
    assert check.value == pytest.approx(-0.5, abs=0.05)
    assert check.sentence.startswith(
        "In till it solved 45% of 22 attempts at 11 held-out tasks (live 100%): -55% (95 % between "
    )


def test_where_all_failed_the_interval_is_not_a_point_and_the_sentence_says_so():
    check = found(by_task(*[((0,), (0,))] * 12), SOLVED)
    assert check.passed
    assert "Neither solved one, so a fall cannot be seen." in check.sentence
    live = agent_pairs.outcome(by_task(*[((0,), (0,))] * 12)).solved.live
    assert (live.low, round(live.high, 4)) == (0.0, 0.2425)  # Wilson's of 0 of 12: z² / (12 + z²) = 3.8416 / 15.8416


@pytest.mark.parametrize(("name", "broken"), [(TRUNCATED, {"is_cut": True}), (CALLS, {"invalid": 4})])
def test_more_that_are_cut_off_and_more_calls_that_are_none_fail_alone(name, broken):
    # Half of the candidate's attempts, at every task: +50 % each, and the limit is 10 %.
    pairs = [Pair(f"t{n}", k, YES, replace(YES, **broken) if k % 2 else YES) for n in range(12) for k in range(4)]
    failed = [check for check in agent_pairs.findings(played(pairs)) if not check.passed]
    assert [(check.name, check.value, check.limit) for check in failed] == [(name, 0.5, 0.1)]
    # One task of twelve: +4 %, which luck explains.
    few = [
        Pair(f"t{n}", k, YES, replace(YES, **broken) if n == k % 2 == 1 else YES) for n in range(12) for k in range(4)
    ]
    assert all(check.passed for check in agent_pairs.findings(played(few)))


def test_more_worlds_make_wider_intervals():
    pairs = by_task(*[((1, 0), (0, 1)), ((1, 1), (0, 1)), ((0, 0), (1, 0))] * 5)
    one, four = (agent_pairs.outcome(pairs, worlds).solved.change for worlds in (1, 4))
    assert (four.low, four.high) < (one.low, four.high)
    assert four.high > one.high
    assert "(98.75 % between" in agent_pairs.findings(played(pairs), 4)[0].sentence  # 1 − 0.05 / 4


# Where too little is known, a person decides


@pytest.mark.parametrize(
    ("pairs", "differs", "said"),
    [
        ([], {"wanted": 192, "why": "No player came."}, "Not played in till. No player came."),
        (by_task(*[((1,), (0,))] * 9), {}, "9 of 9 pairs count, at 9 tasks of the 10 that it takes at least."),
        # 4 of 16 pairs are a quarter, and a fifth may be left out.
        (
            by_task(*[((1,), (0,))] * 12),
            {"left_out": {"the world failed": 4}},
            "nothing of either: 4 the world failed.",
        ),
        (by_task(*[((1,), (1,))] * 12), {"is_whole": False, "why": "Its player ended it."}, "Its player ended it."),
    ],
)
def test_what_is_not_known_passes_with_no_room_so_that_no_policy_approves_it(pairs, differs, said):
    (check,) = agent_pairs.findings(played(pairs, **differs))
    assert (check.name, check.passed) == (SOLVED, True)
    assert said in check.sentence
    assert line_policies.tight([vars(check)], 0.05) == [SOLVED]


def test_half_an_exam_that_shows_a_fall_is_enough_to_fail():
    check = found(by_task(*[((1,), (0,))] * 12), SOLVED, is_whole=False, why="Its player ended it.")
    assert not check.passed


def test_a_fifth_of_the_pairs_may_be_left_out():
    left_out = {"the world failed": 2, "called off": 1}  # 3 of 15
    check = found(by_task(*[((1,), (1,))] * 12), SOLVED, left_out=left_out)
    assert check.value == check.limit == 0.0  # both solve all: no change at all
    assert "Left out, since they say nothing of either: 1 called off, 2 the world failed." in check.sentence


def test_what_the_exam_keeps_is_read_as_it_was():
    before = played(by_task(((1, 0), (0, 1))), left_out={"called off": 1}, groups={"t0": (3, None)})
    assert Played.read(before.written()) == before


# Exams of the real size


def exam(chance, live, candidate, *, tasks, spread=0.0, apart=0.0):
    """Whether an exam passes. Tasks differ in difficulty by `spread` (logits); the candidate is better at some tasks
    and worse at others by `apart`, as far as the middle lets it, at the same mean."""
    pairs = []
    for number in range(tasks):
        push, way = chance.normal(0, spread) if spread else 0.0, 1 if number % 2 else -1

        def at(rate, push=push):
            return 1 / (1 + (1 / rate - 1) * np.exp(-push))

        for attempt in range(ATTEMPTS):
            one, other = chance.random() < at(live), chance.random() < at(candidate) + way * apart
            pairs.append(Pair(f"t{number}", attempt, *(_drawn(chance, is_solved) for is_solved in (one, other))))
    return all(check.passed for check in agent_pairs.findings(played(pairs)))


def _drawn(chance, is_solved):
    """A fifth of what is not solved is cut off, and a tenth of all replies has no valid call."""
    is_cut = not is_solved and chance.random() < 0.2
    return Attempt(is_solved, is_cut, steps=5, invalid=int(chance.binomial(5, 0.1)), tokens=50)


def passes(live, candidate, seed, tasks=TASKS, **tasks_are):
    chance = np.random.default_rng(seed)
    return sum(exam(chance, live, candidate, tasks=tasks, **tasks_are) for _ in range(EXAMS))


def test_a_planted_worse_checkpoint_is_rejected_in_19_of_20_exams():
    # 48 tasks × 4: an attempt's variance is 0.45 · 0.55 + 0.25 · 0.75 = 0.435, so the change's standard error is
    # √(0.435 / 192) = 0.048, and 0.2 is 4.2 of them: the interval's 1.96 are left behind in 98 or 99 of 100.
    assert EXAMS - passes(0.45, 0.25, seed=1) >= 0.95 * EXAMS
    assert EXAMS - passes(0.45, 0.25, seed=3, apart=0.1) >= 0.95 * EXAMS


@pytest.mark.parametrize(("rate", "tasks_are"), [(0.35, {}), (0.45, {"spread": 1.5}), (0.5, {"apart": 0.3})])
def test_an_equal_checkpoint_passes_in_19_of_20_exams(rate, tasks_are):
    assert passes(rate, rate, seed=4, **tasks_are) >= 0.95 * EXAMS


def test_a_small_exam_does_not_see_what_the_full_one_does():
    """Twelve tasks: 0.2 is two standard errors, and half of such falls pass."""
    assert 0.25 * EXAMS < passes(0.45, 0.25, seed=5, tasks=12) < 0.75 * EXAMS
