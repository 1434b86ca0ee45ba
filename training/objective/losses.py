"""The objective's parts: tensors in, a loss and its figures out. B sequences, T tokens, K ids, V vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor

Metrics = dict[str, Tensor]


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


def log_tail(
    logprobs: Tensor,  # (..., K)
) -> Tensor:
    """log of the mass outside K ids, (...): log(1 − exp(min(lse, −1e-7))), finite even when K holds it all."""
    held = logprobs.logsumexp(-1).clamp(max=-1e-7)  # (...)
    return torch.log(-torch.expm1(held))


def reverse_kl(
    logprobs: Tensor,  # (..., K) log p of the student at K ids
    teacher_logprobs: Tensor,  # (..., K) log q of the teacher at the same ids
) -> Tensor:
    """KL(student || teacher) over K ids and one bin for the rest, (...): Σ_{k ≤ K+1} p_k (log p_k − log q_k).

    Merging ids into a bin can only lower a KL, so this is a lower bound of the whole vocabulary's, and 0 only
    where the bins agree.
    """
    gap = logprobs.exp() * (logprobs - teacher_logprobs)  # (..., K)
    tail, teacher_tail = log_tail(logprobs), log_tail(teacher_logprobs)  # (...)
    return gap.sum(-1) + tail.exp() * (tail - teacher_tail)


def divergence(
    logprobs: Tensor,  # (..., V) log π of every id, under training
    teacher_logprobs: Tensor,  # (..., V)
    *,
    k: int | None,
) -> Tensor:
    """Reverse KL of the student to its teacher at each position, (...), over the student's top k ids and a tail bin.

    One sampled token says one bit of what the teacher would rather do; the distribution says it all, with no sampling
    noise (arXiv:2306.13649). The ids are the student's, since a reverse KL has its mass where the student has its own.
    `k=None` takes every id. Where there are no more than k ids, they are all taken, and the tail is what they lack of
    1.
    """
    if k is None:
        return (logprobs.exp() * (logprobs - teacher_logprobs)).sum(-1)
    if k >= logprobs.shape[-1]:
        return reverse_kl(logprobs, teacher_logprobs)
    ids = logprobs.detach().topk(k).indices  # (..., k)
    return reverse_kl(logprobs.gather(-1, ids), teacher_logprobs.gather(-1, ids))
