"""A recipe as the learner wants it: one function of a micro-batch's scores, and one of two distributions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gpu_workers.learner.answers import Answers
from gpu_workers.learner.head import Divergence, reverse_kl
from gpu_workers.learner.learner import Learner
from gpu_workers.learner.scores import Objective, ScoredExample, Scores
from gpu_workers.types import Example
from training import config
from training.config import Recipe
from training.objective import advantages, losses, out_of_memory
from training.objective import closed_questions as closed
from training.objective.closed_questions import Question, Questions

CLIP_LOW, CLIP_HIGH = 0.2, 0.28
"""PPO's clip below and above a ratio of 1; the wider side lets unlikely tokens rise (DAPO, arXiv:2503.14476)."""

IMPORTANCE_CAP = 2.0
"""Bounds the weight for drift between the policy that served a token and the one that starts the run (TIS)."""

ADVANTAGE_CLIP = 1.0
"""Bounds the teacher's token gap in the advantage; one unlikely token would otherwise outweigh a reply."""

TRUST = 1.0
"""Weighs the divergence on samples without a teacher beside `w_opd` on those with one. A reward says that something was
right or wrong, not what would be better: what it does not say is left to the policy that the run starts from. The base
would draw out of it what it was taught (decision 0008)."""

TOP_K = 50
"""Ids that a top-k distillation looks at; the rest is one tail bin."""

WEIGHT_DECAY = 0.1
"""AdamW's. The reference's."""

W_KEPT = 1.5
"""Weighs all that people let stand in a run's rewrites, beside 1 for all that they changed; no token that was let stand
counts more than one that was changed. The policy says it of itself, so there is nothing in it to learn but itself;
without any of it, a phrase is learned and not what follows it."""

WEIGHED = ("loss", "policy_loss", "kl_loss", "distillation_loss")
"""Figures in which a row counts by its weight."""

LEAST_KEPT = 0.1
"""What a token that was let stand counts at least beside one that was decided on: a lone change in a thousand words is
not to be learned as if nothing stood around it."""


def objective(recipe: Recipe) -> Objective:
    """The loss of method.md, section 2, as this recipe weighs it: policy, teacher, and the anchor to the base."""

    def loss(scores: Scores) -> tuple[Tensor, dict[str, Tensor]]:
        is_token = recipe.distillation == "token"
        advantage = _advantage(
            recipe, scores.reward, scores.has_teacher, scores.teacher_logprobs, scores.start_logprobs
        )  # (B, T)
        importance = advantages.truncated_importance(
            scores.start_logprobs, scores.behaviour_logprobs, cap=IMPORTANCE_CAP
        )  # (B, T)
        policy, figures = losses.policy_loss(
            scores.logprobs,
            scores.start_logprobs,
            advantage,
            scores.mask,
            clip_low=CLIP_LOW,
            clip_high=CLIP_HIGH,
            importance=importance,
            weights=scores.weight,
        )
        anchor, near = losses.kl_loss(scores.logprobs, scores.reference_logprobs, scores.mask, weights=scores.weight)
        total = policy + recipe.beta * anchor
        figures |= near | {"policy_loss": policy.detach(), "kl_loss": anchor.detach()} | _tails(advantage, scores.mask)
        if not is_token:
            pull = torch.where(scores.has_teacher > 0, recipe.w_opd, TRUST)  # (B,)
            taught = losses.sequence_mean(scores.distance, scores.mask, scores.weight * pull)
            total = total + taught
            figures["distillation_loss"] = taught.detach()
        return total, figures

    return loss


def divergence(recipe: Recipe) -> Divergence | None:
    """How far from its target each position is; None when the teacher is heard through the advantage alone."""
    if recipe.distillation == "token":
        return None
    if recipe.distillation == "vocabulary":
        return reverse_kl
    return partial(losses.divergence, k=TOP_K)


def described(views: Sequence[ScoredExample], recipe: Recipe, replayed: Sequence[Example] = ()) -> dict[str, Any]:
    """What a batch says before any update, the same at each: how many replies carry which signal, how many tokens of
    a reply are learned from (mean, max), and the advantages of all tokens that learn, {"edges", "counts"}. A reply
    whose teacher reads demonstrations in a hint's place counts as demonstrated alone. Rehearsals are counted beside the
    replies, and are none of them. Agents' "attempts", and those of their "steps" that are learned from, are there where
    there are any; their replies are counted in the tokens, and carry no signal of a person's."""
    turns = [view for view in views if view.example.kind == "turn"]
    steps = [length for view in turns for length in _learned_of_spans(view.example)]
    examples = [view.example for view in turns if not view.example.spans]
    rewards = [example.reward for example in examples if not example.rewards]
    lengths = [*(len(example.response_ids) for example in examples), *steps]
    heard = torch.cat([_heard(view, recipe) for view in turns])  # (N,)
    played = {"attempts": round(sum(v.example.weight for v in turns if v.example.spans)), "steps": len(steps)}
    return (played if steps else {}) | {
        "replies_praised": sum(reward > 0 for reward in rewards),
        "replies_blamed": sum(reward < 0 for reward in rewards),
        "replies_marked": sum(bool(example.rewards) for example in examples),
        "replies_hinted": sum(example.has_teacher and example.is_hinted for example in examples),
        "replies_demonstrated": sum(example.demonstrations > 0 for example in examples),
        "replies_rewritten": sum(example.rewrite is not None for example in examples),
        "replies_rehearsed": len(views) - len(turns),
        "replies_replayed": len(replayed),
        "reply_tokens_mean": sum(lengths) / len(lengths),
        "reply_tokens_max": max(lengths),
        "advantage_histogram": {"edges": list(advantages.EDGES), "counts": advantages.histogram(heard)},
    }


def _learned_of_spans(example: Example) -> list[int]:
    """How many tokens are learned of each step of an agent's row, of those of which any are."""
    learned = [sum(one > 0 for one in example.mask[first:last]) for first, last in example.spans]
    return [length for length in learned if length]


def _heard(view: ScoredExample, recipe: Recipe) -> Tensor:
    """The advantages of a view's tokens that learn, (N,)."""
    example, start = view.example, view.start_logprobs
    reward = start.new_tensor([list(example.rewards)] if example.rewards else [example.reward])  # (1, T) or (1,)
    teacher = start if view.teacher_logprobs is None else view.teacher_logprobs
    has_teacher = start.new_tensor([float(example.has_teacher)])
    advantage = _advantage(recipe, reward, has_teacher, teacher[None], start[None])[0]  # (T,)
    return advantage[start.new_tensor(list(example.mask)) > 0] if example.mask else advantage


def _advantage(
    recipe: Recipe, reward: Tensor, has_teacher: Tensor, teacher_logprobs: Tensor, start_logprobs: Tensor
) -> Tensor:
    """(B, T); a teacher who is heard through his distribution has no part in it."""
    return advantages.combined(
        reward,
        has_teacher,
        teacher_logprobs,
        start_logprobs,
        w_rl=recipe.w_rl,
        w_opd=recipe.w_opd if recipe.distillation == "token" else 0.0,
        clip=ADVANTAGE_CLIP,
    )


def updates(
    learner: Learner,
    views: Sequence[ScoredExample],
    recipe: Recipe,
    replayed: Sequence[Example] = (),
    *,
    questions: Sequence[Question] = (),
    progress: Callable[[int], None] | None = None,
    done: int = 0,
    go_on: Callable[[], None] | None = None,
) -> Iterator[dict[str, float]]:
    """Do a run's updates, one an iteration; each gives its figures. `progress` is told how many samples are done. Where
    the first ones are `done` already, `go_on` puts what they came to in place of the starting weights, once all that
    these are asked for is known.

    Every update sees the whole batch, against the same frozen views: the policy's clip and the anchor are measured
    from where the run began, so that several updates cannot run away where one would not have. Where no gradient is
    left after the first (every token at the clip, and no anchor), the run has learned what there was, and stops.

    What people wrote instead is learned beside it: w_sft · (mean over the whole batch, rewritten or not, of the mean
    −log-prob of a rewrite's first `max_tokens` tokens), so that one rewrite weighs what one reply does. What is behind
    these comes on top, and weighs no more than they do. Those of `replayed` are learned with them, and all together
    weigh what those of the batch would, or what one would where no person wrote, so that less is lost of a lesson that
    people are content with. "supervised_loss" is the mean over all.

    The batch is as large as its replies' weights together: an agent's attempt weighs what one reply does, in however
    many rows it lies. Losses among the figures are means over the batch, others over its rows.

    What is rehearsed comes on top: each row weighs what a reply does, and takes nothing of the replies' weight. So do
    closed `questions`, some of them an update: w_closed · (mean over these of −log p(right);
    training/objective/closed_questions.py). They always leave a gradient, so where there are any no run stops for want
    of one."""
    turns = [view.example.weight for view in views if view.example.kind == "turn"] or [1.0] * len(views)
    size = sum(turns)
    whole = len(views) / size
    answers = _rewrites(views, replayed, recipe)
    once = partial(learner.forward_backward, views, objective(recipe), scale=whole, divergence=divergence(recipe))
    if go_on is not None:
        go_on()
    for update in range(done + 1, recipe.updates + 1):
        told = None if progress is None else partial(_onward, progress, (update - 1) * len(views))
        asked = closed.of_update(questions, update, recipe.w_closed / whole)
        figures = out_of_memory.fitting(learner, partial(_gathered, learner, once, answers, asked, told))
        figures |= {name: figures[name] * len(turns) / size for name in WEIGHED if name in figures}
        if update > 1 and not learner.has_gradient():
            return
        step = learner.optim_step(
            recipe.lr, weight_decay=WEIGHT_DECAY, max_grad_norm=config.MAX_GRAD_NORM, epsilon=recipe.epsilon
        )
        speed = figures["tokens"] / figures["seconds"] if figures["seconds"] else 0.0
        yield figures | step | {"update": update, "lr": recipe.lr, "tokens_per_s": speed}


def _gathered(
    learner: Learner,
    once: Callable[..., dict[str, float]],
    answers: Sequence[Answers],
    asked: Questions | None,
    progress: Callable[[int], None] | None,
) -> dict[str, float]:
    """An update's gradient, and its figures."""
    if asked is None:
        return once(answers=answers, progress=progress)
    pull, told = asked.pull(learner)
    if progress:
        progress(0)
    figures = once(answers=[*answers, pull], progress=progress)
    # The pull has its loss's slope and not its height: its own sum says nothing.
    name = f"{pull.name}_loss"
    figures["loss"] += asked.scale * told[name] - pull.scale * figures[name]
    return figures | told


def _rewrites(views: Sequence[ScoredExample], replayed: Sequence[Example], recipe: Recipe) -> list[Answers]:
    """What people wrote instead, as it is learned; nothing where no person did, or it is not learned."""
    examples = [*(view.example for view in views), *replayed]
    pairs = [example.rewrite for example in examples if example.rewrite is not None]
    if not pairs or not recipe.w_sft:
        return []
    fresh = sum(view.example.rewrite is not None for view in views)
    weights = [_scaled(one, recipe.max_tokens) for one in _weights(examples)]
    return [Answers(pairs, weights, recipe.w_sft * max(fresh, 1) / len(views))]


def _weights(examples: Sequence[Example]) -> list[list[float]]:
    """How much each token of each rewrite counts: 1 where the person decided, and what they let stand, which the policy
    says of itself, no more, and so much that over all rewrites it counts `W_KEPT` times what they decided does. Else a
    word changed in a long reply would be next to nothing of what is learned of it. A rewrite that changed nothing
    counts whole, and says nothing of the others."""
    marks = [example.decided or [True] * len(example.rewrite[1]) for example in examples if example.rewrite]
    edited = [row for row in marks if any(row)]
    decided = sum(map(sum, edited))
    kept = sum(map(len, edited)) - decided
    share = min(1.0, max(W_KEPT * decided / kept, min(W_KEPT, LEAST_KEPT))) if kept else 1.0
    return [[1.0 if one or not any(row) else share for one in row] for row in marks]


def _scaled(weights: Sequence[float], within: int | None) -> list[float]:
    """So that the first `within` add up to 1, and those behind them weigh as much a token, and 1 together at most: long
    rewrites are learned to their ends, and their beginnings, by which a reply is judged first, no less for it.

    >>> _scaled([1, 3, 2], 2), _scaled([1, 3], None)
    ([0.25, 0.75, 0.5], [0.25, 0.75])
    >>> _scaled([0, 1, 2, 2], 2), _scaled([0, 0, 1], 2)  # nothing may be learned of it before its end
    ([0.0, 1.0, 0.5, 0.5], [0.0, 0.0, 1.0])
    """
    first = weights[:within]
    behind = weights[len(first) :]
    whole, most = sum(first), max(sum(first), sum(behind))
    return [*(one / (whole or 1.0) for one in first), *(one / most for one in behind)]


def _onward(progress: Callable[[int], None], done: int, more: int) -> None:
    progress(done + more)


def _tails(advantage: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """The advantages' mean and both ends, over the tokens that learn."""
    heard = advantage[mask > 0].detach()  # (N,)
    found = {"advantage_mean": losses.sequence_mean(advantage, mask).detach()}
    return found | ({"advantage_max": heard.max(), "advantage_min": heard.min()} if len(heard) else {})
