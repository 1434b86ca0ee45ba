"""What a person wrote is preferred to the reply that they wrote it in place of, as far as it is not already."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import logsigmoid

from gpu_workers.learner import Learner
from gpu_workers.types import Example
from tests.training.conftest import PROMPT, RESPONSE
from tests.training.gradients import at_step, gradients
from training.config import Recipe, read
from training.forecast import Lengths, reads
from training.objective import updates
from training.preferences import Couple, Preferences, couples

REWRITE = [7, 8, 30, 2]
OTHER_PROMPT, OTHER_REWRITE = [1, 9, 8], [31, 2]
RECIPE = Recipe(
    w_rl=0, w_opd=0, w_sft=1e-9, w_dpo=3, dpo_beta=0.5, beta=0.0, lr=1e-2, max_grad_norm=1e9, distillation="token"
)


def rewritten(rewrite: list[int] | None, prompt: list[int] = PROMPT) -> Example:
    pair = (prompt, rewrite) if rewrite else None
    return Example(prompt, RESPONSE, [-1.0] * len(RESPONSE), rewrite=pair)


def moved(learner: Learner) -> Learner:
    """Some way from its base, so that margins are not 0."""
    learner.supervise([(PROMPT, [30, 31])])
    learner.optim_step(1e-2)
    return learner


def by_autograd(learner: Learner, pairs: list[tuple[list[int], list[int], list[int]]], beta: float) -> torch.Tensor:
    """The mean of DPO's loss as the paper has it (arXiv:2305.18290, equation 7), with its graph."""

    def logprob(prompt: list[int], answer: list[int]) -> torch.Tensor:
        logits = learner.model(input_ids=torch.tensor([[*prompt, *answer]])).logits[0].log_softmax(-1)
        return torch.stack([logits[len(prompt) - 1 + at, id] for at, id in enumerate(answer)]).sum()

    losses = []
    for prompt, chosen, rejected in pairs:
        with torch.no_grad(), learner.model.disable_adapter():
            before = logprob(prompt, chosen) - logprob(prompt, rejected)
        losses.append(-logsigmoid(beta * (logprob(prompt, chosen) - logprob(prompt, rejected) - before)))
    return torch.stack(losses).mean()


@pytest.mark.parametrize("micro_batch", [1, 4])
def test_its_gradient_is_dpos(tiny_model, micro_batch, rounding):
    learner = moved(Learner(tiny_model, dtype="float32", micro_batch=micro_batch, seed=3))
    examples = [rewritten(REWRITE), rewritten(None), rewritten(None), rewritten(None)]
    replayed = [rewritten(OTHER_REWRITE, OTHER_PROMPT)]
    views = [learner.score_example(one) for one in examples]
    held = at_step(learner)

    (figures,) = updates(learner, views, RECIPE, replayed)

    by_hand = moved(Learner(tiny_model, dtype="float32", seed=3))
    pairs = [(PROMPT, REWRITE, RESPONSE), (OTHER_PROMPT, OTHER_REWRITE, RESPONSE)]
    loss = by_autograd(by_hand, pairs, beta=0.5)
    (3 * 2 / 4 * loss).backward()  # w_dpo is 3, and of four replies' weight two preferences take their share
    expected = gradients(by_hand)
    rounding.assert_gradients(held, expected)
    assert figures["preference_loss"] == pytest.approx(loss.item(), abs=rounding.logprob)
    assert figures["loss"] == pytest.approx(1.5 * loss.item(), abs=rounding.logprob)


def test_as_many_as_there_are_replies_weigh_what_the_batch_does_and_more_no_more(tiny_model, rounding):
    learner = moved(Learner(tiny_model, dtype="float32", seed=3))
    replayed = [rewritten(OTHER_REWRITE, OTHER_PROMPT)] * 5
    view = learner.score_example(rewritten(REWRITE))

    (figures,) = updates(learner, [view], RECIPE, replayed)

    assert figures["loss"] == pytest.approx(3 * figures["preference_loss"], abs=rounding.logprob)


def test_what_is_learned_becomes_preferred(tiny_model, rounding):
    learner = Learner(tiny_model, dtype="float32", seed=3)
    view = learner.score_example(rewritten(REWRITE))

    seen = list(updates(learner, [view], RECIPE.model_copy(update={"updates": 4})))

    assert seen[0]["preference_loss"] == pytest.approx(math.log(2))  # the base's own margin is 0: −log σ(0)
    margins = [figures["preference_margin"] for figures in seen]
    assert margins == sorted(margins)
    assert margins[0] == pytest.approx(0.0, abs=rounding.logprob)
    assert margins[-1] > 0.1
    assert seen[-1]["preferred"] == 1


def test_what_is_preferred_clearly_pulls_no_more(tiny_model):
    learner = Learner(tiny_model, dtype="float32", seed=3)
    couple = Couple(PROMPT, REWRITE, RESPONSE)
    chosen, rejected = sum(learner.score(PROMPT, REWRITE)), sum(learner.score(PROMPT, RESPONSE))

    near, _ = Preferences([couple], [(chosen, rejected)], beta=0.1, scale=1.0).pull(learner)
    far, told = Preferences([couple], [(chosen - 60, rejected + 40)], beta=0.1, scale=1.0).pull(learner)

    assert near.weights
    assert far.weights
    assert near.weights[0][0] == pytest.approx(0.05, abs=1e-6)  # β · σ(0)
    assert far.weights[0][0] == pytest.approx(0.1 / (1 + math.exp(10)), rel=1e-3)  # β · σ(−β · 100)
    assert near.weights[1] == [-near.weights[0][0]] * len(RESPONSE)
    assert told["preference_margin"] == pytest.approx(100, abs=1e-4)  # the one rose by 60, and the other fell by 40
    assert told["preference_chosen"] == pytest.approx(60, abs=1e-4)


def test_both_answers_are_cut_alike_and_what_is_the_same_till_then_is_left_out():
    same = rewritten([*RESPONSE[:3], 50])

    assert couples([rewritten(REWRITE), rewritten(None), same], 3) == [Couple(PROMPT, REWRITE[:3], RESPONSE[:3])]


def test_a_reply_that_cannot_be_learned_from_is_held_against_nothing():
    cut_to_its_marked_words = Example([*PROMPT, 7, 8], [9, 10], [-1.0] * 2, rewrite=(PROMPT, REWRITE))
    without_personal_data = replace(rewritten(REWRITE), mask=[1, 0, 0, 1, 1])

    assert couples([cut_to_its_marked_words, without_personal_data], None) == []
    assert couples([replace(without_personal_data, mask=[1] * 5)], None) == [Couple(PROMPT, REWRITE, RESPONSE)]


def test_where_no_couple_is_left_nothing_is_preferred(tiny_model):
    learner = Learner(tiny_model, dtype="float32", seed=3)
    view = learner.score_example(replace(rewritten(REWRITE), mask=[1, 0, 0, 1, 1]))

    (figures,) = updates(learner, [view], RECIPE.model_copy(update={"w_sft": 1.0}))

    assert "preference_loss" not in figures


def test_where_no_person_wrote_now_what_was_written_earlier_is_preferred(tiny_model, rounding):
    learner = moved(Learner(tiny_model, dtype="float32", seed=3))
    views = [learner.score_example(rewritten(None)) for _ in range(4)]

    (figures,) = updates(learner, views, RECIPE, [rewritten(REWRITE)])

    assert figures["loss"] == pytest.approx(
        3 / 4 * figures["preference_loss"], abs=rounding.logprob
    )  # one, and four replies


def test_it_is_foreseen():
    samples = [Lengths(60, 40, rewrite=20), Lengths(60, 40)]
    alone, preferred = Recipe(w_opd=0, w_sft=1), Recipe(w_opd=0, w_sft=1, w_dpo=1)

    def more(**run: list[Lengths]) -> int:
        return reads(samples, preferred, is_fresh=True, **run) - reads(samples, alone, is_fresh=True, **run)

    # 60 + 20 and 60 + 40 by the base and once in the one update; what was rewritten is a reply of the batch
    assert more() == 2 * (80 + 100)
    # two couples more, whose rewritten replies are read there and back too
    assert more(replayed=samples[:1] * 2) == 3 * 2 * (80 + 100) + 2 * 3 * 100


def test_nothing_is_preferred_where_rewrites_are_not_learned(tiny_model):
    learner = Learner(tiny_model, dtype="float32", seed=3)
    view = learner.score_example(replace(rewritten(REWRITE), reward=1.0))
    recipe = read({"preset": "embedded", "w_sft": 0, "w_dpo": 3})

    (figures, *_) = updates(learner, [view], recipe, [rewritten(REWRITE)])

    assert recipe.w_dpo > 0
    assert recipe.prefers == 0
    assert "preference_loss" not in figures
