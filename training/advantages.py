"""How much better than expected, per token: the judged reward and the teacher's gap, in one number."""

from __future__ import annotations

import torch
from torch import Tensor


def combined(
    reward: Tensor,  # (B,) judged reward, -1, 0 or 1
    has_teacher: Tensor,  # (B,) 1 where an accepted hint gave this sample a teacher
    teacher_logprobs: Tensor,  # (B, T) log π_T(y_t | s + hint); anything at all where there is no teacher
    old_logprobs: Tensor,  # (B, T) log π_old(y_t | s), at temperature 1
    *,
    w_rl: float,
    w_opd: float,
    clip: float | None = 1.0,
) -> Tensor:
    """A_t = w_rl · r + w_opd · has_teacher · clip(log π_T − log π_old, ±clip), (B, T); method.md, section 2.

    Without a teacher the second term is exactly 0, whatever stands in `teacher_logprobs`, NaN included: no noise
    takes the teacher's place. `clip=None` leaves the gap as it is. Shapes that disagree raise ValueError.
    """
    if teacher_logprobs.shape != old_logprobs.shape:
        raise ValueError(f"teacher {tuple(teacher_logprobs.shape)} and old {tuple(old_logprobs.shape)} disagree")
    if reward.shape != old_logprobs.shape[:1] or has_teacher.shape != old_logprobs.shape[:1]:
        raise ValueError(f"reward and has_teacher must be ({old_logprobs.shape[0]},)")
    gap = teacher_logprobs - old_logprobs  # (B, T)
    if clip is not None:
        gap = gap.clamp(-clip, clip)
    taught = torch.where(has_teacher.bool()[:, None], gap, torch.zeros_like(gap))  # (B, T)
    return w_rl * reward[:, None].to(gap.dtype) + w_opd * taught


def truncated_importance(
    logprobs: Tensor,  # (B, T) of the policy a run starts from, by the learner
    behaviour_logprobs: Tensor,  # (B, T) of the policy that served the tokens, scored by the engine at temperature 1
    *,
    cap: float,
) -> Tensor:
    """min(π / π_behaviour, cap), (B, T), without gradient: what drift between server and learner is worth.

    Both are at temperature 1, and neither is the distribution that sampled: against log-probs at the sampling
    temperature, 0.7 say, the weight would mostly measure the temperature.
    Truncation bounds the variance that a plain importance weight would have (arXiv:1312.4314; TIS with cap 2).
    """
    return (logprobs - behaviour_logprobs).exp().clamp(max=cap).detach()
