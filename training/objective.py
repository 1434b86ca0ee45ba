"""A recipe as the learner wants it: one function of a micro-batch's scores, and one of two distributions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from gpu_workers.learner import Divergence, Learner, Objective, Scores, View
from training import advantages, losses
from training.config import Recipe


def objective(recipe: Recipe) -> Objective:
    """The loss of method.md, section 2, as this recipe weighs it: policy, teacher, and the anchor to the base."""

    def loss(scores: Scores) -> tuple[Tensor, dict[str, Tensor]]:
        is_token = recipe.distillation == "token"
        advantage = advantages.combined(
            scores.reward,
            scores.has_teacher,
            scores.teacher_logprobs,
            scores.start_logprobs,
            w_rl=recipe.w_rl,
            w_opd=recipe.w_opd if is_token else 0.0,
            clip=recipe.advantage_clip,
        )  # (B, T)
        importance = advantages.truncated_importance(
            scores.start_logprobs, scores.old_logprobs, cap=recipe.importance_cap
        )  # (B, T)
        policy, figures = losses.policy_loss(
            scores.logprobs,
            scores.start_logprobs,
            advantage,
            scores.mask,
            clip_low=recipe.clip_low,
            clip_high=recipe.clip_high,
            importance=importance,
            weights=scores.weight,
        )
        anchor, near = losses.kl_loss(scores.logprobs, scores.reference_logprobs, scores.mask, weights=scores.weight)
        total = policy + recipe.beta * anchor
        figures |= near | {"policy_loss": policy.detach(), "kl_loss": anchor.detach()} | _tails(advantage, scores.mask)
        if not is_token:
            pull = torch.where(scores.has_teacher > 0, recipe.w_opd, recipe.trust)  # (B,)
            taught = losses.sequence_mean(scores.distance, scores.mask, scores.weight * pull)
            total = total + taught
            figures["distillation_loss"] = taught.detach()
        return total, figures

    return loss


def divergence(recipe: Recipe) -> Divergence | None:
    """How far from its target each position is; None when the teacher is heard through the advantage alone."""
    if recipe.distillation == "token":
        return None
    return partial(losses.divergence, k=recipe.top_k if recipe.distillation == "topk" else None, support=recipe.support)


def updates(
    learner: Learner, views: Sequence[View], recipe: Recipe, *, progress: Callable[[int], None] | None = None
) -> Iterator[dict[str, float]]:
    """Do a run's updates, one an iteration; each gives its figures. `progress` is told how many samples are done.

    Every update sees the whole batch, against the same frozen views: the policy's clip and the anchor are measured
    from where the run began, so that several updates cannot run away where one would not have. Where no gradient is
    left after the first (every token at the clip, and no anchor), the run has learned what there was, and stops.
    """
    loss, apart = objective(recipe), divergence(recipe)
    for update in range(1, recipe.updates + 1):
        done = (update - 1) * len(views)
        figures = learner.forward_backward(
            views, loss, divergence=apart, progress=None if progress is None else partial(_onward, progress, done)
        )
        if update > 1 and not learner.has_gradient():
            return
        lr = recipe.lr * min(1.0, update / (recipe.warmup + 1))
        step = learner.optim_step(lr, weight_decay=recipe.weight_decay, max_grad_norm=recipe.max_grad_norm)
        speed = figures["tokens"] / figures["seconds"] if figures["seconds"] else 0.0
        yield figures | step | {"update": update, "lr": lr, "tokens_per_s": speed}


def _onward(progress: Callable[[int], None], done: int, more: int) -> None:
    progress(done + more)


def _tails(advantage: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """The advantages' mean and both ends, over the tokens that learn."""
    held = torch.where(mask > 0, advantage, torch.zeros_like(advantage))
    return {
        "advantage_mean": losses.sequence_mean(advantage, mask).detach(),
        "advantage_max": held.max().detach(),
        "advantage_min": held.min().detach(),
    }
