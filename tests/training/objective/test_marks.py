"""Words that a person marked: tokens with a reward of their own."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_workers.learner.learner import Learner
from gpu_workers.types import Example
from tests.training.gradients import gradients
from training import batches, collation, runs
from training.config import Recipe
from training.models import Run
from training.objective import losses
from training.objective.advantages import combined
from training.objective.updates import objective, updates

PROMPT, RESPONSE = [1, 5, 6, 40], [7, 8, 9, 10, 2]
RECIPE = Recipe(batch_size=2, max_age=2)


# The advantage


def test_a_mark_rewards_its_words_and_the_teacher_speaks_of_all():
    # gaps 0.5, −3 cut to −1, and 0.25; the second token is marked bad, the third good
    advantages = combined(
        torch.tensor([[0.0, -1.0, 1.0]]),
        torch.tensor([1.0]),
        torch.tensor([[-0.5, -4.0, -0.75]]),
        torch.full((1, 3), -1.0),
        w_rl=2.0,
        w_opd=1.0,
        clip=1.0,
    )

    assert advantages.tolist() == [[0.5, -3.0, 2.25]]  # 0.5, 2 · −1 − 1, 2 · 1 + 0.25


def test_the_same_reward_at_every_token_is_the_one_reward():
    teacher, old = torch.randn(2, 3), torch.randn(2, 3)
    weights = {"w_rl": 1.5, "w_opd": 0.5, "clip": 1.0}

    one = combined(torch.tensor([-1.0, 1.0]), torch.ones(2), teacher, old, **weights)
    each = combined(torch.tensor([[-1.0] * 3, [1.0] * 3]), torch.ones(2), teacher, old, **weights)

    assert torch.equal(one, each)


@pytest.mark.parametrize("shape", [(3,), (1, 2), (2, 3), (1, 3, 1)])
def test_rewards_of_another_shape_raise(shape):
    with pytest.raises(ValueError, match="neither one a reply nor one a token"):
        combined(torch.zeros(shape), torch.zeros(1), torch.zeros(1, 3), torch.zeros(1, 3), w_rl=1, w_opd=1, clip=1)


@given(st.integers(1, 4), st.integers(1, 6), st.floats(0, 3), st.floats(0, 3), st.floats(0.1, 5), st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_advantage_and_loss_equal_a_slow_reference_in_float64(rows, tokens, w_rl, w_opd, clip, seed):
    draw = torch.Generator().manual_seed(seed)
    reward = torch.randint(-1, 2, (rows, tokens), generator=draw).double()
    has_teacher = torch.randint(0, 2, (rows,), generator=draw).double()
    mask = torch.randint(0, 2, (rows, tokens), generator=draw).double()
    teacher, old, now = (-torch.rand(rows, tokens, generator=draw, dtype=torch.float64) * 4 for _ in range(3))

    advantages = combined(reward, has_teacher, teacher, old, w_rl=w_rl, w_opd=w_opd, clip=clip)
    loss, _ = losses.policy_loss(now, old, advantages, mask, clip_low=0.2, clip_high=0.28)

    means = []
    for row in range(rows):
        total, count = 0.0, 0
        for token in range(tokens):
            gap = max(-clip, min(clip, float(teacher[row, token] - old[row, token])))
            expected = w_rl * float(reward[row, token]) + w_opd * float(has_teacher[row]) * gap
            assert float(advantages[row, token]) == pytest.approx(expected, abs=1e-12)
            if mask[row, token]:
                ratio = math.exp(float(now[row, token]) - float(old[row, token]))
                total += min(ratio * expected, max(0.8, min(1.28, ratio)) * expected)
                count += 1
        if count:
            means.append(total / count)  # over all that learn, marked or not
    assert float(loss) == pytest.approx(-sum(means) / max(1, len(means)), abs=1e-9)


# The example


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="rewards has 2 entries for 5"):
        Example(PROMPT, RESPONSE, [-1.0] * 5, rewards=[0, 1])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        ({"reward": -1.0}, True),
        ({"rewards": [0, 0, -1, 0, 0]}, True),
        ({"rewards": [0] * 5, "reward": 1.0}, False),  # marks say where, and the one number goes nowhere else
        ({"rewards": [0, 0, -1, 0, 0], "mask": [1, 1, 0, 1, 1]}, False),
        ({"reward": 1.0, "mask": [0] * 5}, False),
    ],
)
def test_it_knows_whether_anything_in_it_is_rewarded(fields, expected):
    assert Example(PROMPT, RESPONSE, [-1.0] * 5, **fields).has_reward is expected


# The batch


def test_good_and_bad_words_that_balance_fill_a_batch(ready):
    ready(teacher_prompt_ids=None, rewards=[1, 0, 0, -1, 0])
    assert batches.fill(RECIPE) is None
    ready(teacher_prompt_ids=None, rewards=[0, 0, 1, 0, 0])

    assert batches.fill(RECIPE.model_copy(update={"w_rl": 0.0})) is None
    assert batches.fill(RECIPE).samples.count() == 2


def test_rows_bring_their_rewards(ready):
    example = collation.examples([ready(rewards=[0, 1, 0, -1, 0])])[0]

    assert example.rewards == [0, 1, 0, -1, 0]
    with pytest.raises(ValueError, match="rewards has 1 entries for 5"):
        collation.examples([ready(rewards=[1])])


def test_of_a_long_reply_the_part_with_the_marks_is_learned(ready, served):
    sample = ready(rewards=[0, 0, 0, -1, 0], mask=[1, 0, 1, 1, 1])

    example = collation.examples([sample], max_tokens=2)[0]

    # tokens 2 and 3 are the first two in a row that hold the mark; 0 and 1 are read before them
    assert (example.response_ids, example.rewards, example.mask) == ([9, 10], [0, -1], [1, 1])
    assert (example.prompt_ids, example.teacher_prompt_ids) == (
        [*sample.prompt_ids, 7, 8],
        [*sample.teacher_prompt_ids, 7, 8],
    )
    assert example.behaviour_logprobs == served[2:4]


def test_a_part_reads_as_it_does_in_the_whole(ready, tiny_model, served, rounding):
    learner = Learner(tiny_model, dtype="float32")

    view = learner.score_example(collation.examples([ready(rewards=[0, 0, 0, -1, 0])], max_tokens=2)[0])

    torch.testing.assert_close(view.start_logprobs, torch.tensor(served[2:4]), atol=rounding.logprob, rtol=0)


@given(st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=30), st.integers(1, 10))
def test_the_part_holds_as_many_marks_as_any_and_is_the_first_such(rewards, tokens):
    held = [sum(map(bool, rewards[at : at + tokens])) for at in range(max(1, len(rewards) - tokens + 1))]

    assert collation._densest(rewards, tokens) == held.index(max(held))


@pytest.mark.parametrize(
    ("recipe", "rewards", "learns"),
    [
        ({"w_opd": 0}, [0, -1, 1, 0, 0], True),
        ({"w_opd": 0}, [0] * 5, False),  # nothing of it is marked: all advantages are zero, and that is said
        ({"w_rl": 0}, [0, -1, 1, 0, 0], False),
    ],
)
def test_a_run_without_any_marked_word_says_that_nothing_can_be_learned(home, ready, recipe, rewards, learns):
    sample = ready(teacher_prompt_ids=None, rewards=rewards)
    recipe = Recipe(batch_size=1, distillation="token", **recipe)
    run = Run.objects.create(recipe=recipe.model_dump(), parent=sample.checkpoint, seed=1)
    sample.move("claimed", run=run)

    checkpoint = runs.train(run)

    run.refresh_from_db()
    assert (checkpoint is not None) is learns
    assert ("Every advantage is zero" in run.error) is not learns


# The learner


def test_its_gradient_is_that_of_the_marked_tokens(tiny_model, rounding):
    """(−g₂ + g₄) / 5 by hand: with β = 0 the loss at the start is −Σ r_t ρ_t / T, and ∇ρ_t = ∇ log π_t."""
    learner = Learner(tiny_model, dtype="float32")
    old = learner.score(PROMPT, RESPONSE)
    example = Example(PROMPT, RESPONSE, old, rewards=[0, -1, 0, 1, 0])
    learner.forward_backward([learner.score_example(example)], objective(Recipe(beta=0.0)))
    found = {name: p.grad.clone() for name, p in learner.trainable() if p.grad is not None}
    learner.optimizer.zero_grad()

    ids = torch.tensor([[*PROMPT, *RESPONSE]])
    logs = learner.causal(input_ids=ids).logits[0, len(PROMPT) - 1 : -1].log_softmax(-1)
    logprobs = logs.gather(-1, torch.tensor(RESPONSE)[:, None]).squeeze(-1)
    (-(logprobs[3] - logprobs[1]) / 5).backward()

    rounding.assert_gradients(found, gradients(learner))


def test_replies_with_and_without_marks_learn_side_by_side(tiny_model, rounding):
    seen = []
    for micro_batch in (1, 3):
        learner = Learner(tiny_model, dtype="float32", micro_batch=micro_batch)
        examples = [
            Example(PROMPT, RESPONSE, learner.score(PROMPT, RESPONSE), rewards=[0, -1, 0, 1, 0]),
            Example([1, 9], [11, 12, 2], learner.score([1, 9], [11, 12, 2]), reward=1.0),
            Example([1, 3], [30, 31], learner.score([1, 3], [30, 31]), rewards=[1, 0], reward=-1.0),
        ]
        learner.forward_backward([learner.score_example(e) for e in examples], objective(Recipe()))
        seen.append(gradients(learner))

    rounding.assert_gradients(seen[1], seen[0])


@pytest.mark.real_model
def test_a_bad_word_becomes_less_likely_a_good_one_more_and_the_others_move_less(smol_model):
    from chat.rendering.renderer import Renderer

    renderer = Renderer.for_model(smol_model)
    prompt = renderer.prompt_ids([{"role": "user", "content": "What is the capital of France?"}])
    reply = "The capital of France is Paris, a lovely and wonderful city on the Seine."
    ids = renderer.encode(reply)
    pieces = [renderer.decode([id]) for id in ids]
    bad, good = pieces.index(" wonderful"), pieces.index(" lovely")
    rewards = [0] * len(ids)
    rewards[bad], rewards[good] = -1, 1
    learner = Learner(smol_model, dtype="float32", seed=1)
    before = learner.score(prompt, ids)

    view = learner.score_example(Example(prompt, ids, before, rewards=rewards))
    list(updates(learner, [view], Recipe(lr=1e-4, updates=4)))

    moved = [now - was for now, was in zip(learner.score(prompt, ids), before, strict=True)]
    others = [abs(change) for at, change in enumerate(moved) if at not in (bad, good)]
    assert moved[bad] < 0 < moved[good]
    assert sum(others) / len(others) < 0.2 * min(-moved[bad], moved[good]), (moved[bad], moved[good], others)
