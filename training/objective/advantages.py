"""How much better than expected, per token: the judged reward and the teacher's gap, in one number."""

from __future__ import annotations

import torch
from torch import Tensor

EDGES = tuple(-2.125 + 0.25 * bin for bin in range(18))
"""17 bins of a quarter each, the middle one around 0, so that a reward of -1, 0 or 1 falls in the middle of its own and
a clipped teacher's gap beside a reward still lies within. The outermost hold whatever lies further out."""


def combined(
    reward: Tensor,  # (B,) judged reward, -1, 0 or 1; or (B, T) where a person marked words: 0 where none is
    has_teacher: Tensor,  # (B,) 1 where an accepted hint gave this sample a teacher
    teacher_logprobs: Tensor,  # (B, T) log π_T(y_t | s + hint); anything at all where there is no teacher
    start_logprobs: Tensor,  # (B, T) log π_s(y_t | s) of the policy that the run starts from
    *,
    w_rl: float,
    w_opd: float,
    clip: float,
) -> Tensor:
    """A_t = w_rl · r_t + w_opd · has_teacher · clip(log π_T − log π_s, ±clip), (B, T); method.md, section 2.

    r_t is the reply's one reward at every token, or each token's own: marks reward words of it, and leave the
    teacher's term as it is.
    Without a teacher the second term is exactly 0, whatever stands in `teacher_logprobs`, NaN included: no noise
    takes the teacher's place. Shapes that disagree raise ValueError.
    """
    if teacher_logprobs.shape != start_logprobs.shape:
        raise ValueError(f"teacher {tuple(teacher_logprobs.shape)} and start {tuple(start_logprobs.shape)} disagree")
    if reward.shape not in (start_logprobs.shape, start_logprobs.shape[:1]):
        raise ValueError(f"reward {tuple(reward.shape)} is neither one a reply nor one a token")
    if has_teacher.shape != start_logprobs.shape[:1]:
        raise ValueError(f"has_teacher must be ({start_logprobs.shape[0]},)")
    gap = (teacher_logprobs - start_logprobs).clamp(-clip, clip)  # (B, T)
    taught = torch.where(has_teacher.bool()[:, None], gap, torch.zeros_like(gap))  # (B, T)
    rewards = reward if reward.dim() == 2 else reward[:, None]
    return w_rl * rewards.to(gap.dtype) + w_opd * taught


def truncated_importance(
    logprobs: Tensor,  # (B, T) of the policy a run starts from, by the learner
    start_logprobs: Tensor,  # (B, T) of the policy that served the tokens, scored by the engine at temperature 1
    *,
    cap: float,
) -> Tensor:
    """min(π / π_behaviour, cap), (B, T), without gradient: what drift between server and learner is worth.

    Both are at temperature 1, and neither is the distribution that sampled: against log-probs at the sampling
    temperature, 0.7 say, the weight would mostly measure the temperature.
    Truncation bounds the variance that a plain importance weight would have (arXiv:1312.4314; TIS with cap 2).
    """
    return (logprobs - start_logprobs).exp().clamp(max=cap).detach()


def histogram(
    advantages: Tensor,  # (N,) of the tokens that learn
) -> list[int]:
    """How many lie in each bin of EDGES, the lower edge belonging to it: what a batch says, and how loudly."""
    bounds = torch.tensor(EDGES[1:-1], dtype=torch.float64, device=advantages.device)
    counts: list[int] = torch.bucketize(advantages.double(), bounds, right=True).bincount(minlength=17).tolist()
    return counts
