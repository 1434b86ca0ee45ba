"""Sampling draws the next token. Each row draws the same, whatever else is in the batch."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

NEARLY_GREEDY = 1e-6  # SGLang takes temperatures below this as greedy


@dataclass(frozen=True)
class Params:
    """sampling_params under SGLang's names and defaults; values are checked in requests.py."""

    max_new_tokens: int = 128
    min_new_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    no_stop_trim: bool = False
    sampling_seed: int | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    json_schema: str = ""
    regex: str = ""

    @property
    def is_constrained(self) -> bool:
        """True when a grammar decides what may come."""
        return bool(self.json_schema or self.regex)

    @property
    def is_greedy(self) -> bool:
        return self.temperature < NEARLY_GREEDY or self.top_k == 1

    @property
    def is_plain(self) -> bool:
        """True when the logits are used as they are."""
        return (
            not self.logit_bias
            and self.frequency_penalty == self.presence_penalty == 0
            and self.repetition_penalty == 1
        )


HUGE = 1e30
"""Beyond any logit, and finite in float32 also when a temperature divides it."""


class Sampler:
    """One request's stream of random numbers: a seed gives the same draws alone and in any batch."""

    def __init__(self, seed: int | None) -> None:
        self._random = random.Random(seed)

    def uniform(self) -> float:
        return self._random.random()


@dataclass(frozen=True)
class Row:
    """One request's inputs to `draw`; `counts` are its output tokens so far, `barred` may not come now, and
    `outside` (V,) is true for what its grammar does not allow."""

    params: Params
    sampler: Sampler
    counts: Counter[int]
    barred: frozenset[int] = frozenset()
    outside: Tensor | None = None


@torch.inference_mode()
def draw(logits: Tensor, rows: Sequence[Row], *, original: bool = False) -> tuple[list[int], Tensor]:
    """Draw one token for each row of float32 logits (B, V), which may be changed.

    Returns the tokens and log-probs (B, V) of log softmax(logits / temperature) with penalties and within the
    grammar, as SGLang reports them; with `original`, of the logits as the model gave them.
    """
    raw = logits.log_softmax(-1) if original else None
    for n, row in enumerate(rows):
        if not row.params.is_plain:
            _penalise(logits[n], row)
        if row.barred:
            logits[n, list(row.barred)] = -math.inf
        if row.outside is not None:
            logits[n].masked_fill_(row.outside, -math.inf)
    temperatures = [1.0 if row.params.is_greedy else row.params.temperature for row in rows]
    if any(t != 1.0 for t in temperatures):
        logits = logits / torch.tensor(temperatures)[:, None]
    logprobs = logits.log_softmax(-1)  # (B, V)
    ids = []
    for n, row in enumerate(rows):
        if row.params.is_greedy:
            ids.append(int(logits[n].argmax()))
        else:
            ids.append(_pick(_truncate(logprobs[n].exp(), row.params), row.sampler.uniform()))
    return ids, logprobs if raw is None else raw


def _pick(probs: Tensor, roll: float) -> int:
    """The token in whose share of the total `roll` in [0, 1) falls; sums in float64, so neighbours never swap."""
    sums = probs.double().cumsum(0)
    place = torch.searchsorted(sums, sums[-1] * roll, right=True)
    return min(int(place), len(probs) - 1)


def _truncate(probs: Tensor, params: Params) -> Tensor:
    """Zero what top_k, top_p and min_p leave out, all three read off the same distribution (V,)."""
    if params.top_p >= 1 and params.top_k <= 0 and params.min_p <= 0:
        return probs
    if params.min_p > 0:
        probs = probs.where(probs >= probs.max() * params.min_p, 0.0)
    if params.top_p >= 1 and params.top_k <= 0:
        return probs
    size = len(probs)
    widths = [params.top_k] if params.top_k > 0 else [64, 1024, size]  # a nucleus is narrow as a rule
    for width in widths:
        top, order = probs.topk(min(width, size))
        before = top.double().cumsum(0) - top
        if before[-1] > params.top_p:
            break
    top = top.where(before <= params.top_p, 0.0)
    return torch.zeros_like(probs).index_copy_(0, order, top)


def _penalise(logits: Tensor, row: Row) -> None:
    params = row.params
    if row.counts:
        seen = torch.tensor(list(row.counts))
        times = torch.tensor(list(row.counts.values()), dtype=logits.dtype)
        found = logits[seen]
        found = torch.where(found < 0, found * params.repetition_penalty, found / params.repetition_penalty)
        found = found.clamp(-HUGE, HUGE)  # a penalty near 0 must not make them infinite: two would have no share at all
        logits[seen] = found - params.frequency_penalty * times - params.presence_penalty
    for token, bias in params.logit_bias.items():
        logits[token] += bias
