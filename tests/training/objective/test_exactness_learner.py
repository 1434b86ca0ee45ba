"""The real learner on a tiny model: its loss is the reference's on plain transformers, and batching changes nothing.

Stated rounding: the learner works in float32 and the reference in float64, which leaves 2e-5 between them; two ways of
batching the same float32 numbers differ by 2e-6 in the loss and 1e-6 + 1e-3 of it in a gradient.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from gpu_workers.learner.learner import Learner
from tests.ready_samples import HINTED, PROMPT, RESPONSE
from tests.training.objective.test_exactness import RECIPES, Batch, constants, expected  # noqa: F401
from training import collation
from training.config import Recipe
from training.models import Sample
from training.objective import updates as objectives
from training.objective.updates import divergence, objective, updates

LONG, SHORT = [30, 31, 32, 33, 34, 35, 36, 2], [50, 51, 2]


def samples() -> list[Sample]:
    """Blamed and corrected, marked, praised, corrected with masked words: four replies of different lengths."""
    said = [
        (PROMPT, RESPONSE, {"teacher_prompt_ids": HINTED, "reward": -1.0}),
        ([1, 9, 8], LONG, {"rewards": [0, 0, 1, 0, -1, -1, 0, 0]}),
        ([1, 4], SHORT, {"reward": 1.0}),
        ([1, 9, 7, 6], LONG[::-1], {"teacher_prompt_ids": [1, 9, 7, 6, 5], "mask": [1, 1, 0, 0, 1, 1, 1, 0]}),
    ]
    draw = np.random.default_rng(3)
    return [
        Sample(
            prompt_ids=prompt,
            response_ids=response,
            behaviour_logprobs=list(-6 + draw.normal(size=len(response))),
            **fields,
        )
        for prompt, response, fields in said
    ]


def moved(tiny_model, recipe: Recipe, **how) -> tuple[Learner, list]:
    """A learner after one step of its own, so that the policy is neither its start nor the base, with its views."""
    learner = Learner(tiny_model, dtype="float32", seed=5, **how)
    views = [learner.score_example(one) for one in collation.examples(samples(), max_tokens=recipe.max_tokens)]
    list(updates(learner, views, recipe.model_copy(update={"lr": 3e-3, "updates": 1})))
    return learner, views


def gathered(learner: Learner, views, recipe: Recipe) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss, and the gradient of each parameter."""
    learner.optimizer.zero_grad()
    figures = learner.forward_backward(views, objective(recipe), divergence=divergence(recipe))
    return figures["loss"], {name: p.grad.clone() for name, p in learner.trainable() if p.grad is not None}


def plainly(model, prompt, response) -> np.ndarray:
    """(T, V) logits of a whole causal model, in float64, at the positions that predict the response."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*prompt, *response]])).logits[0]
    return logits[len(prompt) - 1 : len(prompt) + len(response) - 1].numpy()


def as_batch(model, learner: Learner, views, folder) -> Batch:
    """The same replies for the reference: logits of plain PEFT's forward passes, padded under mask 0."""
    learner.model.save_pretrained(str(folder))
    policy = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model, dtype=torch.float64), str(folder))
    policy.double()
    width = max(len(view.example.response_ids) for view in views)

    def padded(rows) -> np.ndarray:
        return np.stack([np.pad(row, [(0, width - len(row)), *[(0, 0)] * (np.ndim(row) - 1)]) for row in rows])

    examples = [view.example for view in views]
    logits = [plainly(policy, e.prompt_ids, e.response_ids) for e in examples]
    with policy.disable_adapter():
        targets = [plainly(policy, e.teacher_prompt_ids or e.prompt_ids, e.response_ids) for e in examples]
        base = [plainly(policy, e.prompt_ids, e.response_ids) for e in examples]

    def of_ids(rows) -> list[np.ndarray]:
        normal = [torch.tensor(row).log_softmax(-1).numpy() for row in rows]
        return [row[np.arange(len(row)), list(e.response_ids)] for row, e in zip(normal, examples, strict=True)]

    return Batch(
        logits=padded(logits),
        target_logits=padded(targets),
        ids=padded([np.array(e.response_ids) for e in examples]),
        start=padded([view.start_logprobs.double().numpy() for view in views]),  # the base: the adapter began at 0
        old=padded([np.array(e.behaviour_logprobs) for e in examples]),
        reference=padded(of_ids(base)),
        teacher=padded(of_ids(targets)),
        mask=padded([np.array(e.mask or [1.0] * len(e.response_ids), float) for e in examples]),
        rewards=padded([np.array(e.rewards or [e.reward] * len(e.response_ids), float) for e in examples]),
        is_marked=True,
        has_teacher=np.array([float(e.has_teacher) for e in examples]),
        weight=np.ones(len(examples)),
    )


@pytest.mark.parametrize(
    ("name", "max_tokens"),
    [("combined", None), ("combined", 3), ("topk", None), ("embedded", 3), ("all weights odd", None)],
)
def test_the_learners_loss_is_the_references_on_plain_transformers(tiny_model, tmp_path, name, max_tokens, rounding):
    recipe = RECIPES[name].model_copy(update={"max_tokens": max_tokens})
    learner, views = moved(tiny_model, recipe, micro_batch=2)

    found, _ = gathered(learner, views, recipe)

    assert found == pytest.approx(
        expected(as_batch(tiny_model, learner, views, tmp_path / "adapter"), recipe), abs=rounding.logprob
    )


@pytest.mark.parametrize("name", ["combined", "topk", "embedded"])
def test_micro_batches_pieces_padding_and_order_change_nothing_but_rounding(tiny_model, name, rounding):
    recipe = RECIPES[name]
    learner, views = moved(tiny_model, recipe)
    loss, gradient = gathered(learner, views, recipe)

    for micro_batch, piece, order in [
        (1, 1, (3, 0, 2, 1)),
        (2, 3, (0, 1, 2, 3)),
        (3, 64, (1, 3, 0, 2)),
        (4, 5, (2, 1, 3, 0)),
    ]:
        learner.micro_batch, learner.piece = micro_batch, piece
        again, other = gathered(learner, [views[n] for n in order], recipe)
        assert again == pytest.approx(loss, abs=rounding.logprob)
        rounding.assert_gradients(other, gradient)


@pytest.mark.parametrize("name", ["combined", "topk", "embedded"])
def test_company_changes_nothing_but_rounding(tiny_model, name, rounding):
    """The gradient of a batch is the mean of those of its replies, each of them alone."""
    recipe = RECIPES[name]
    learner, views = moved(tiny_model, recipe, micro_batch=4)
    _, together = gathered(learner, views, recipe)

    alone = [gathered(learner, [view], recipe)[1] for view in views]

    rounding.assert_gradients(
        together,
        {
            key: sum(one.get(key, torch.zeros_like(value)) for one in alone) / len(alone)
            for key, value in together.items()
        },
    )


@pytest.mark.parametrize("weights", ["lora", "full"])
@pytest.mark.parametrize("name", ["combined", "embedded"])
def test_the_gradient_is_the_slope_of_the_loss(tiny_model, name, weights, monkeypatch):
    """A step of a thousandth along the gradient and one back: their difference over their distance is its length.

    Top k is left out: the student's ids change places where two are nearly as likely, and the loss jumps.
    """
    monkeypatch.setattr(objectives, "CLIP_LOW", 0.9)  # no kink nearby
    monkeypatch.setattr(objectives, "CLIP_HIGH", 9.0)
    recipe = RECIPES[name].model_copy(update={"weights": weights})
    learner, views = moved(tiny_model, recipe, **({"lora": None} if weights == "full" else {}))
    _, gradient = gathered(learner, views, recipe)
    length = sum(float(value.double().square().sum()) for value in gradient.values()) ** 0.5

    def at(step: float) -> float:
        with torch.no_grad():
            for key, parameter in learner.trainable():
                if key in gradient:
                    parameter.add_(gradient[key], alpha=step / length)
        loss, _ = gathered(learner, views, recipe)
        return loss

    ahead = at(1e-3)
    behind = at(-2e-3)

    assert (ahead - behind) / 2e-3 == pytest.approx(length, rel=0.02)
