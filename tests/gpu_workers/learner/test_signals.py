"""What each signal of a sample does to the weights."""

from __future__ import annotations

import pytest
import torch

from gpu_workers.errors import NothingLearned
from gpu_workers.learner.learner import Learner
from gpu_workers.types import Example
from tests.gpu_workers.learner.examples import HINTED, PROMPT, RESPONSE, batch, example, gradients
from training.config import Recipe
from training.objective import losses
from training.objective import updates as objectives
from training.objective.updates import objective, updates

RECIPE = Recipe(distillation="vocabulary", lr=1e-2)


@pytest.mark.parametrize(("reward", "sign"), [(1.0, 1), (-1.0, -1)])
def test_a_praised_reply_gets_likelier_and_a_blamed_one_less(learner, reward, sign):
    e = example(learner, reward=reward)

    list(updates(learner, [learner.score_example(e)], Recipe(lr=1e-3, beta=0.0)))

    assert sign * (sum(learner.score(PROMPT, RESPONSE)) - sum(e.behaviour_logprobs)) > 0


@pytest.mark.parametrize("kind", ["token", "topk", "vocabulary"])
def test_hinted_tokens_move_toward_the_teacher(learner, kind):
    view = learner.score_example(example(learner, hint=HINTED))
    gap = view.teacher_logprobs - view.start_logprobs

    list(updates(learner, [view], Recipe(distillation=kind, lr=1e-3, beta=0.0, updates=3)))

    moved = torch.tensor(learner.score(PROMPT, RESPONSE)) - view.start_logprobs
    assert float((moved * gap).sum()) > 0
    largest = gap.abs().argmax()
    assert moved[largest].sign() == gap[largest].sign()


def test_a_reward_alone_leaves_what_it_does_not_say_as_it_is(learner, tiny_model, monkeypatch):
    seen = {}
    for trust in (0.0, 1.0):
        monkeypatch.setattr(objectives, "TRUST", trust)
        policy = Learner(tiny_model, dtype="float32", seed=1)
        view = policy.score_example(example(policy, reward=-1.0))
        figures = list(updates(policy, [view], Recipe(distillation="vocabulary", lr=3e-3, updates=8)))
        seen[trust] = figures[-1]["kl"]

    assert seen[1.0] < seen[0.0]


@pytest.mark.parametrize(
    ("signal", "stays"), [({"reward": 1.0}, True), ({"reward": -1.0}, True), ({"kind": "rehearsal"}, False)]
)
def test_without_a_teacher_the_policy_is_held_where_it_is_and_rehearsals_hold_it_to_the_base(learner, signal, stays):
    recipe = Recipe(distillation="vocabulary", lr=3e-3, updates=3)
    list(updates(learner, [learner.score_example(example(learner, hint=HINTED))], recipe))  # it was taught something

    (first, *_) = updates(learner, [learner.score_example(example(learner, **signal))], recipe)

    # What it is held to is what it is, before the first step, or else something that it has left.
    assert (first["distillation_loss"] < 1e-6) is stays


def test_a_run_ends_early_when_every_token_has_reached_its_clip(learner):
    view = learner.score_example(example(learner, reward=-1.0))

    figures = list(updates(learner, [view], Recipe(lr=1e-2, beta=0.0, updates=5)))

    assert len(figures) == 1  # one step of this size takes all five tokens beyond the clip


def test_the_anchor_pulls_back_to_the_base(learner):
    e = example(learner, reward=1.0)
    list(updates(learner, [learner.score_example(e)], Recipe(lr=1e-2, beta=0.0, updates=3)))
    drifted = learner.score_example(e)

    only_anchor = losses.kl_loss
    learner.forward_backward(
        [drifted], lambda scores: only_anchor(scores.logprobs, scores.reference_logprobs, scores.mask)
    )
    learner.optim_step(1e-3)

    before = (drifted.start_logprobs - drifted.reference_logprobs).abs().sum()
    after = (torch.tensor(learner.score(PROMPT, RESPONSE)) - drifted.reference_logprobs).abs().sum()
    assert after < before


@pytest.mark.real_model
@pytest.mark.parametrize(
    ("reward", "hint", "sign"), [(1.0, "", 1), (-1.0, "", -1), (0.0, " Answer in Spanish.", 0)], ids=str
)
def test_signs_on_the_real_small_model(smol_model, reward, hint, sign):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(smol_model / "tokenizer.json"))

    def prompt(text):
        return tokenizer.encode(f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n").ids

    question = "What is the capital of France?"
    response = tokenizer.encode("The capital of France is Paris.<|im_end|>").ids
    learner = Learner(smol_model)
    old = learner.score(prompt(question), response)
    e = Example(
        prompt(question), response, old, reward=reward, teacher_prompt_ids=prompt(question + hint) if hint else None
    )
    view = learner.score_example(e)

    list(updates(learner, [view], Recipe(distillation="vocabulary", lr=1e-3, updates=3)))

    moved = torch.tensor(learner.score(prompt(question), response)) - torch.tensor(old)
    if sign:
        assert sign * float(moved.sum()) > 0
    else:
        gap = view.teacher_logprobs - view.start_logprobs
        assert moved[gap.abs().argmax()].sign() == gap[gap.abs().argmax()].sign()
        assert float((moved * gap).sum()) > 0


def test_samples_without_a_signal_give_no_gradient_and_say_so(learner):
    learner.forward_backward([learner.score_example(example(learner))], objective(RECIPE))

    before = learner.adapter_norm()
    with pytest.raises(NothingLearned, match="gradient is zero everywhere"):
        learner.optim_step(1e-3)
    assert learner.adapter_norm() == before


def test_a_rate_too_small_to_change_a_weight_is_no_update(learner):
    learner.forward_backward(batch(learner), objective(RECIPE))

    with pytest.raises(NothingLearned, match="changed no weight"):
        learner.optim_step(0.0)


def test_with_a_large_epsilon_a_weight_moves_by_its_gradient_and_not_by_the_rate(learner, tiny_model):
    def moved(epsilon):
        learner = Learner(tiny_model, dtype="float32", piece=3)
        learner.forward_backward(batch(learner), objective(RECIPE))
        before = {name: p.detach().clone() for name, p in learner.trainable()}
        gradient = gradients(learner)
        figures = learner.optim_step(1e-2, weight_decay=0.0, max_grad_norm=1e9, epsilon=epsilon)
        return [(p.detach() - before[name], gradient[name]) for name, p in learner.trainable()], figures

    # Adam's first step is lr · g / (|g| + ε): the rate where ε is nothing, lr · g / ε where it is far above g.
    for step, gradient in moved(1e-8)[0]:
        sure = gradient.abs() > 1e-5
        assert torch.allclose(step[sure].abs(), torch.full_like(step[sure], 1e-2), rtol=1e-2)
    for step, gradient in moved(1e3)[0]:
        assert torch.allclose(step, -1e-5 * gradient, rtol=1e-2, atol=1e-9)


def test_a_loss_that_is_not_a_number_stops_before_anything_changes(learner):
    before = learner.score(PROMPT, RESPONSE)

    with pytest.raises(NothingLearned, match="loss of sample 3 is nan"):
        learner.forward_backward(batch(learner), lambda scores: (scores.logprobs.sum() * float("nan"), {}))
    assert learner.score(PROMPT, RESPONSE) == before


def test_a_gradient_that_is_not_a_number_is_thrown_away(learner):
    learner.forward_backward(batch(learner), objective(RECIPE))
    learner.trainable()[0][1].grad.fill_(float("nan"))
    before = learner.score(PROMPT, RESPONSE)

    with pytest.raises(NothingLearned, match="gradient is nan"):
        learner.optim_step(1e-3)
    assert learner.score(PROMPT, RESPONSE) == before
    assert gradients(learner) == {}


def test_nothing_at_all_is_refused(learner):
    with pytest.raises(ValueError, match="no samples"):
        learner.forward_backward([], objective(RECIPE))
    with pytest.raises(ValueError, match="prompt and a response"):
        learner.score(PROMPT, [])
