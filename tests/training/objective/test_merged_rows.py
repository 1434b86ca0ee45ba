"""Steps of an attempt in one row: its tokens, and that nothing is learned otherwise than from a row a step."""

from __future__ import annotations

import pytest
import torch

from gpu_workers.learner.learner import Learner
from gpu_workers.types import Example
from tests.training.gradients import at_step
from training.config import Recipe
from training.objective.merged_rows import Apart, Step, merged_rows
from training.objective.updates import described, updates

FIRST = Step([1, 2], [3, 4], [-1.0, -2.0], advantage=0.5)


def test_merged_rows_hold_replies_with_what_came_between_under_mask_0():
    second = Step([1, 2, 3, 4, 9, 9], [5], [-3.0], advantage=-1.5)

    merged = merged_rows([[FIRST, second]])

    row = merged.rows[0][0]
    assert (row.prompt_ids, row.response_ids) == ([1, 2], [3, 4, 9, 9, 5])
    assert row.behaviour_logprobs == [-1.0, -2.0, 0.0, 0.0, -3.0]
    assert row.mask == [1, 1, 0, 0, 1]
    assert row.rewards == [0.5, 0.5, 0.0, 0.0, -1.5]
    assert (list(row.spans), row.weight, merged.apart) == ([(0, 2), (4, 5)], 1.0, {})


def test_merged_rows_read_a_step_without_an_advantage_and_leave_out_what_lies_behind_the_last():
    silent = Step([1, 2, 3, 4, 9], [5], [-3.0])
    third = Step([1, 2, 3, 4, 9, 5, 9], [6, 7], [-4.0, -5.0], advantage=1.0)
    last = Step([1, 2, 3, 4, 9, 5, 9, 6, 7, 9], [8], [-6.0])

    row = merged_rows([[FIRST, silent, third, last]]).rows[0][0]

    assert row.response_ids == [3, 4, 9, 5, 9, 6, 7]  # and neither the result after them nor the last reply
    assert row.mask == [1, 1, 0, 0, 0, 1, 1]
    assert row.behaviour_logprobs == [-1.0, -2.0, 0.0, -3.0, 0.0, -4.0, -5.0]
    assert list(row.spans) == [(0, 2), (3, 4), (5, 7)]  # it was served, so engine and learner are compared on it


def test_merged_rows_cut_what_is_learned_of_each_step_and_not_the_row():
    second = Step([1, 2, 3, 4, 9], [5, 6, 7], [-3.0] * 3, mask=[0, 1, 1], advantage=1.0)

    row = merged_rows([[FIRST, second]], max_tokens=1).rows[0][0]

    assert (row.response_ids, row.mask) == ([3], [1])  # of the second step the first token is masked
    row = merged_rows([[FIRST, second]], max_tokens=2).rows[0][0]
    assert (row.response_ids, row.mask) == ([3, 4, 9, 5, 6], [1, 1, 0, 0, 1])


@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        ([1, 2, 3, 9], Apart.REPLY),  # as where a template drops thoughts, or spells a call anew
        ([1, 9, 3, 4, 9], Apart.PROMPT),
        ([2], Apart.CUT),
    ],
)
def test_merged_rows_fall_apart_where_a_prompt_does_not_go_on_and_count_why(prompt, why):
    second = Step(prompt, [5], [-3.0], advantage=-1.0)

    merged = merged_rows([[FIRST, second], [FIRST]])

    first, other = merged.rows[0]
    assert (first.prompt_ids, first.response_ids, first.weight) == ([1, 2], [3, 4], pytest.approx(2 / 3))
    assert (other.prompt_ids, other.response_ids, other.weight) == (prompt, [5], pytest.approx(1 / 3))
    assert merged.apart == {why: 1}


def test_merged_rows_of_an_attempt_of_which_nothing_is_learned_are_none():
    silent = Step([9], [5], [-3.0])

    merged = merged_rows([[Step([1, 2], [3], [-1.0]), silent], [FIRST, silent]])

    assert [len(rows) for rows in merged.rows] == [0, 1]
    assert merged.rows[1][0].weight == 1.0
    assert merged.apart == {Apart.CUT: 1}  # of the second: the first has no rows that could fall apart


def test_merged_rows_refuse_lengths_that_disagree():
    with pytest.raises(ValueError, match="behaviour_logprobs has 1 entries for 2"):
        Step([1], [2, 3], [-1.0])


# Through the real learner

LESSONS = [
    Example([1, 4], [50, 51, 2], [-5.0, -6.0, -5.5], reward=-1.0),
    Example([1, 5, 6], [7, 8, 2], [-6.0] * 3, teacher_prompt_ids=[1, 5, 9, 6]),
]
REHEARSED = Example([1, 44], [12, 13], [-5.0] * 2, mask=[0, 1], kind="rehearsal")


def attempt(*lengths: int, start: int, apart_at: int = -1) -> list[Step]:
    """Steps of so many tokens each, one after the other; one begins a prompt of its own, and one says nothing."""
    steps, prompt = [], [1, start]
    for at, length in enumerate(lengths):
        if at == apart_at:
            prompt = [1, start + 1, start + 2]
        ids = [(start + 7 * at + n) % 90 + 5 for n in range(length)]
        advantage = None if at == 1 and len(lengths) > 2 else 0.75 * (-1) ** at - 0.1 * at
        steps.append(Step(list(prompt), ids, [-5.5 - 0.1 * n for n in range(length)], advantage=advantage))
        prompt = [*prompt, *ids, 60 + at, 61]
    return steps


ATTEMPTS = [attempt(3, 2, 4, 5, start=20), attempt(2, start=30), attempt(2, 3, 2, 2, start=40, apart_at=2)]


def unmerged(steps: list[Step]) -> list[Example]:
    """A row a step, which counts as many tokens as it has of all that learn."""
    taught = [step for step in steps if step.advantage is not None]
    whole = sum(len(step.response_ids) for step in taught)
    return [
        Example(
            step.prompt_ids,
            step.response_ids,
            step.behaviour_logprobs,
            reward=step.advantage,
            weight=len(step.response_ids) / whole,
        )
        for step in taught
    ]


def pulled(tiny_model, examples, recipe, micro_batch=1):
    """The gradient of the second update, at which the policy is neither its start nor the base, and its figures."""
    learner = Learner(tiny_model, dtype="float32", seed=5, micro_batch=micro_batch)
    has_targets = recipe.distillation != "token"
    views = [learner.score_example(one, teacher=recipe.teacher, with_distribution=has_targets) for one in examples]
    held = at_step(learner)
    figures = list(updates(learner, views, recipe))
    return held, figures


def assert_alike(found, expected):
    assert found.keys() == expected.keys()
    assert max(float(one.abs().max()) for one in expected.values()) > 1e-3
    for name, one in expected.items():
        torch.testing.assert_close(found[name], one, atol=1e-5, rtol=1e-4, msg=name)


@pytest.mark.parametrize("distillation", ["token", "vocabulary"])
@pytest.mark.parametrize("micro_batch", [1, 3])
def test_merged_rows_have_the_gradient_of_a_row_a_step(tiny_model, distillation, micro_batch):
    recipe = Recipe(distillation=distillation, updates=2, lr=1e-3, beta=0.1)
    rows = [row for each in merged_rows(ATTEMPTS).rows for row in each]
    assert len(rows) == 4  # and seven steps that learn
    beside = [*LESSONS, *([REHEARSED] if distillation == "vocabulary" else [])]

    found, figures = pulled(tiny_model, [LESSONS[0], *rows, *beside[1:]], recipe, micro_batch)
    expected, plain = pulled(tiny_model, [*beside, *(row for each in ATTEMPTS for row in unmerged(each))], recipe)

    assert_alike(found, expected)
    for name in ("policy_loss", "kl_loss"):  # means over five lessons, in however many rows they lie
        assert figures[0][name] == pytest.approx(plain[0][name], abs=1e-5)


def test_a_long_attempt_weighs_what_a_short_one_and_what_a_reply_does(tiny_model):
    """The gradient of a batch is the mean of those of its three lessons, each alone: 1 token, 40 in 10 steps, 3."""
    recipe = Recipe(updates=1, lr=1e-3, beta=0.1)
    short, long = attempt(1, start=30), attempt(*[4] * 10, start=20, apart_at=5)
    lessons = [LESSONS[:1], *([*rows] for rows in merged_rows([short, long]).rows)]
    assert [len(rows) for rows in lessons] == [1, 1, 2]

    found, _ = pulled(tiny_model, [row for rows in lessons for row in rows], recipe, micro_batch=2)

    alone = [pulled(tiny_model, rows, recipe)[0] for rows in lessons]
    assert_alike(found, {name: sum(one[name] for one in alone) / 3 for name in found})


def test_a_batch_counts_attempts_and_their_steps_beside_peoples_replies(tiny_model):
    learner = Learner(tiny_model, dtype="float32", seed=5)
    rows = [row for each in merged_rows(ATTEMPTS).rows for row in each]
    views = [learner.score_example(one) for one in [*LESSONS, *rows]]

    told = described(views, Recipe())

    assert (told["attempts"], told["steps"]) == (3, 7)  # of nine steps two say nothing: 3 + 1 + 3
    assert (told["replies_blamed"], told["replies_marked"], told["replies_hinted"]) == (1, 0, 1)
    # 3 + 3 tokens of people's two, 3 + 4 + 5, 2, and 2 + 2 + 2 of the attempts': 26 in nine replies
    assert (told["reply_tokens_mean"], told["reply_tokens_max"]) == (pytest.approx(26 / 9), 5)
    assert sum(told["advantage_histogram"]["counts"]) == 26
