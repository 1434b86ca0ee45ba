"""The language-model head runs in pieces and on response positions only.

Full logits, (tokens, vocabulary), are the largest thing in a step of a small model and are never kept. The head's own
gradient is taken in the same sweep, so that its logits are computed once; and what is done to each number of them is
done to a few rows at a time, which a core's own cache holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gpu_workers.learner import products

Divergence = Callable[[Tensor, Tensor], Tensor]
"""(N, V) log-probs of the policy and of its teacher to (N,): how far apart they are at each position."""

PIECE = 256
"""How many positions the head takes at once: enough for a matrix product to be quick, few enough to be small."""

CACHED = 1 << 19
"""How many logits are gone over at once on a CPU, 2 MB of float32."""


class ReverseKL:
    """Σ_v p_v (log p_v − log q_v), a Divergence over the whole vocabulary that knows its own gradient."""

    def __call__(self, logprobs: Tensor, teacher_logprobs: Tensor) -> Tensor:
        return (logprobs.exp() * (logprobs - teacher_logprobs)).sum(-1)

    def swept(self, logprobs: Tensor, probs: Tensor, teacher_logprobs: Tensor) -> tuple[Tensor, Tensor]:
        """The divergence KL, (N,), and its gradient in the policy's logits, (N, V): p (log p − log q − KL).

        `teacher_logprobs` is overwritten.
        """
        gap = torch.sub(logprobs, teacher_logprobs, out=teacher_logprobs).mul_(probs)
        apart = gap.sum(-1)
        return apart, gap.addcmul_(probs, apart[:, None], value=-1.0)


reverse_kl = ReverseKL()


def weight_of(causal: Any) -> Tensor:
    """Return the head's weight, (V, D). Raises ValueError for a head that does more than multiply."""
    head = causal.get_output_embeddings()
    if getattr(head, "bias", None) is not None:
        raise ValueError("this model's head has a bias, which the piecewise head does not add")
    weight: Tensor = head.weight
    return weight


@torch.no_grad()
def logprobs_of(hidden: Tensor, weight: Tensor, ids: Tensor, piece: int = PIECE) -> Tensor:
    """Score ids (N,) from states (N, D): log-probs (N,) float32."""
    found = hidden.new_zeros(len(ids), dtype=torch.float32)
    for first in range(0, len(ids), piece):
        rows = slice(first, min(first + piece, len(ids)))
        logits, chosen, into = products.linear(hidden[rows], weight), ids[rows, None], found[rows]
        for few in _few(logits):
            into[few] = logits[few].log_softmax(-1, dtype=torch.float32).gather(-1, chosen[few]).squeeze(-1)
    return found


class Head(torch.autograd.Function):
    """Turn hidden states into per-position scalars, with the gradient of each taken while its logits are at hand."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,  # (N, D)
        weight: Tensor,  # (V, D)
        ids: Tensor,  # (N,)
        target_hidden: Tensor,  # (N, D)
        divergence: Divergence | None,
        piece: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        count = hidden.shape[0]
        logprobs = hidden.new_zeros(count, dtype=torch.float32)
        distance, entropy = torch.zeros_like(logprobs), torch.zeros_like(logprobs)
        grad_logprobs = torch.empty_like(hidden)  # (N, D) ∂ log-prob / ∂ hidden
        grad_distance = torch.empty_like(hidden) if divergence else hidden.new_zeros(0)
        for first in range(0, count, piece):
            rows = slice(first, min(first + piece, count))
            logits = products.linear(hidden[rows], weight)  # (P, V), and later their gradients in the same place
            targets = products.linear(target_hidden[rows], weight) if divergence is not None else None
            chosen = ids[rows, None]  # (P, 1)
            for few in _few(logits):
                into = slice(first + few.start, first + few.stop)
                logs = logits[few].log_softmax(-1, dtype=torch.float32)  # (Q, V)
                logprobs[into] = logs.gather(-1, chosen[few]).squeeze(-1)
                probs = logs.exp()
                entropy[into] = -(probs * logs).sum(-1)
                if targets is not None and divergence is not None:
                    target = targets[few].log_softmax(-1, dtype=torch.float32)
                    distance[into], d_logits = _apart(divergence, logs, probs, target)
                    targets[few] = d_logits
                # ∂ log-prob / ∂ logits is the one chosen less the probabilities; here, its negative
                logits[few] = probs.scatter_add_(-1, chosen[few], probs.new_full((len(probs), 1), -1.0))
            torch.neg(products.product(logits, weight), out=grad_logprobs[rows])
            if targets is not None:
                grad_distance[rows] = products.product(targets, weight)
        ctx.save_for_backward(grad_logprobs, grad_distance)
        ctx.mark_non_differentiable(entropy)
        return logprobs, distance, entropy

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        d_logprobs, d_distance, _ = grads
        grad_logprobs, grad_distance = ctx.saved_tensors
        total = grad_logprobs * d_logprobs[:, None].to(grad_logprobs.dtype)
        if grad_distance.numel():
            total = total + grad_distance * d_distance[:, None].to(grad_distance.dtype)
        return total, None, None, None, None, None


def trained(
    hidden: Tensor,  # (N, D)
    weight: Tensor,  # (V, D), which trains
    ids: Tensor,  # (N,)
    target_hidden: Tensor,  # (N, D)
    target_weight: Tensor,  # (V, D)
    divergence: Divergence | None,
    piece: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Score as Head does when the head's own weights train: a piece's logits are computed again on the way back."""

    def one(states: Tensor, rows: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logs = F.linear(states, weight).float().log_softmax(-1)  # (P, V)
        entropy = -(logs.exp() * logs).sum(-1).detach()
        apart = logs.new_zeros(len(rows))
        if divergence is not None:
            with torch.no_grad():
                target = F.linear(target_hidden[rows], target_weight).float().log_softmax(-1)
            apart = divergence(logs, target)
        return logs.gather(-1, ids[rows, None]).squeeze(-1), apart, entropy

    parts = [
        checkpoint(one, hidden[rows], rows, weight, use_reentrant=False)
        for rows in torch.arange(len(ids), device=hidden.device).split(piece)
    ]
    logprobs, distance, entropy = (torch.cat(list(column)) for column in zip(*parts, strict=True))
    return logprobs, distance, entropy


def _apart(divergence: Divergence, logs: Tensor, probs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The divergence of a few rows, and its gradient in their logits."""
    if isinstance(divergence, ReverseKL):
        return divergence.swept(logs, probs, target)
    with torch.enable_grad():
        leaf = logs.detach().requires_grad_()
        apart = divergence(leaf, target)  # (Q,)
        (d_logs,) = torch.autograd.grad(apart.sum(), leaf)
    return apart.detach(), d_logs.addcmul_(probs, d_logs.sum(-1, keepdim=True), value=-1.0)  # through log_softmax


def _few(logits: Tensor) -> Iterator[slice]:
    """The rows of a piece, as many at a time as are best gone over together."""
    count = len(logits) if logits.is_cuda else max(CACHED // logits.shape[-1], 1)
    for first in range(0, len(logits), count):
        yield slice(first, min(first + count, len(logits)))
