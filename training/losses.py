"""The objective's parts: tensors in, a loss and its figures out. B sequences, T tokens, K ids, V vocabulary."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Metrics = dict[str, Tensor]
Support = Literal["student", "teacher", "union"]


def sequence_mean(
    values: Tensor,  # (B, T)
    mask: Tensor,  # (B, T) 1 on response tokens, 0 on prompt and padding
    weights: Tensor | None = None,  # (B,) what each sequence counts; 1 when not given
) -> Tensor:
    """Token mean of each sequence, then their mean: long and short replies weigh the same.

    A sequence whose mask is all 0 has no signal and is left out of the second mean. With nothing at all to
    average, the result is 0 and carries a zero gradient. Values under mask 0 never matter, NaN included.
    """
    tokens = mask.sum(-1)  # (B,)
    kept = torch.where(mask > 0, values * mask, torch.zeros_like(values)).sum(-1)  # (B,)
    means = kept / tokens.clamp(min=1e-12)  # (B,)
    if weights is not None:
        means = means * weights
    return means.sum() / (tokens > 0).sum().clamp(min=1)


def policy_loss(
    logprobs: Tensor,  # (B, T) log π(a|s), under training
    start_logprobs: Tensor,  # (B, T) log π_s(a|s) of the policy the run starts from, by the learner
    advantages: Tensor,  # (B, T)
    mask: Tensor,  # (B, T) 1 on response tokens, 0 on prompt and padding
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    importance: Tensor | None = None,  # (B, T) advantages.truncated_importance; 1 when not given
    weights: Tensor | None = None,  # (B,) what each sequence counts
) -> tuple[Tensor, Metrics]:
    """PPO's clipped surrogate (arXiv:1707.06347, eq. 7) with an asymmetric clip (arXiv:2503.14476, section 3.1)."""
    ratio = (logprobs - start_logprobs).exp()  # (B, T)
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)  # (B, T)
    surrogate = torch.minimum(ratio * advantages, clipped * advantages)  # (B, T)
    if importance is not None:
        surrogate = surrogate * importance
    metrics = {
        "clip_fraction": sequence_mean((ratio != clipped).float(), mask).detach(),
        "ratio_mean": sequence_mean(ratio, mask).detach(),
        "ratio_max": torch.where(mask > 0, ratio, torch.zeros_like(ratio)).max().detach(),
    }
    return -sequence_mean(surrogate, mask, weights), metrics


def kl_loss(
    logprobs: Tensor,  # (B, T) log π(a|s), under training
    ref_logprobs: Tensor,  # (B, T) log π_ref(a|s), frozen
    mask: Tensor,  # (B, T)
    *,
    weights: Tensor | None = None,  # (B,)
) -> tuple[Tensor, Metrics]:
    """The k3 estimate of KL(π || π_ref): exp(d) − 1 − d with d = log π_ref − log π (Schulman, 2020).

    By expm1, since exp(d) − 1 loses every digit where the two policies agree, which is where a run begins.
    """
    d = torch.where(mask > 0, ref_logprobs - logprobs, torch.zeros_like(logprobs))  # (B, T)
    k3 = torch.expm1(d) - d  # (B, T), never negative
    return sequence_mean(k3, mask, weights), {"kl": sequence_mean(k3, mask).detach()}


def support_ids(
    logprobs: Tensor,  # (..., V) the student's
    teacher_logprobs: Tensor,  # (..., V)
    k: int,
    support: Support,
) -> tuple[Tensor, Tensor]:
    """The ids a distillation looks at, and which of them count: (..., K) int64 and (..., K) bool.

    K is `k` for one side's top k; the union holds 2k ids, and an id the student's side has already is not
    counted a second time.
    """
    k = min(k, logprobs.shape[-1])
    student = logprobs.topk(k).indices if support != "teacher" else None  # (..., k)
    teacher = teacher_logprobs.topk(k).indices if support != "student" else None  # (..., k)
    if student is None or teacher is None:
        ids = student if student is not None else teacher
        assert ids is not None
        return ids, torch.ones_like(ids, dtype=torch.bool)
    fresh = ~(teacher[..., :, None] == student[..., None, :]).any(-1)  # (..., k)
    return torch.cat([student, teacher], -1), torch.cat([torch.ones_like(fresh), fresh], -1)


def log_tail(
    logprobs: Tensor,  # (..., K)
    valid: Tensor | None = None,  # (..., K) bool
) -> Tensor:
    """log of the mass outside K ids, (...): log(1 − exp(min(lse, −1e-7))), finite even when K holds it all."""
    if valid is not None:
        logprobs = logprobs.masked_fill(~valid, -torch.inf)
    held = logprobs.logsumexp(-1).clamp(max=-1e-7)  # (...)
    return torch.log(-torch.expm1(held))


def reverse_kl(
    logprobs: Tensor,  # (..., K) log p of the student at K ids
    teacher_logprobs: Tensor,  # (..., K) log q of the teacher at the same ids
    valid: Tensor | None = None,  # (..., K) bool; all of them when not given
) -> Tensor:
    """KL(student || teacher) over K ids and one bin for the rest, (...): Σ_{k ≤ K+1} p_k (log p_k − log q_k).

    Merging ids into a bin can only lower a KL, so this is a lower bound of the whole vocabulary's, and 0 only
    where the bins agree.
    """
    gap = logprobs.exp() * (logprobs - teacher_logprobs)  # (..., K)
    if valid is not None:
        gap = torch.where(valid, gap, torch.zeros_like(gap))
    tail, teacher_tail = log_tail(logprobs, valid), log_tail(teacher_logprobs, valid)  # (...)
    return gap.sum(-1) + tail.exp() * (tail - teacher_tail)


def topk_distillation_loss(
    logprobs: Tensor,  # (B, T, V) log π of every id, under training; or (B, T, K) of ids already chosen
    teacher_logprobs: Tensor,  # the same ids' log π_T, given the hint
    mask: Tensor,  # (B, T)
    *,
    k: int = 50,
    support: Support = "student",
    weights: Tensor | None = None,  # (B,)
) -> tuple[Tensor, Metrics]:
    """Reverse KL to the teacher at every served position, over top-k ids and a tail bin (method.md, section 2).

    One sampled token says one bit of what the teacher would rather do; the distribution says it all, with no
    sampling noise (arXiv:2306.13649). `support` says whose top k: the student's, where a reverse KL has its mass;
    the teacher's; or the union.
    """
    per_token = divergence(logprobs, teacher_logprobs, k=k, support=support)  # (B, T)
    return sequence_mean(per_token, mask, weights), {"distance": sequence_mean(per_token, mask).detach()}


def divergence(
    logprobs: Tensor,  # (..., V) log π of every id, under training
    teacher_logprobs: Tensor,  # (..., V)
    *,
    k: int | None = 50,
    support: Support = "student",
) -> Tensor:
    """How far the student is from its teacher at each position, (...): reverse KL; `k=None` takes every id.

    Where there are no more than k ids to begin with, they are the support, and the tail is what they lack of 1.
    """
    if k is None:
        return (logprobs.exp() * (logprobs - teacher_logprobs)).sum(-1)
    if k >= logprobs.shape[-1]:
        return reverse_kl(logprobs, teacher_logprobs)
    ids, valid = support_ids(logprobs.detach(), teacher_logprobs, k, support)
    return reverse_kl(logprobs.gather(-1, ids), teacher_logprobs.gather(-1, ids), valid if support == "union" else None)
