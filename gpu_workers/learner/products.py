"""Products multiply 16-bit matrices in the width that this machine multiplies faster.

A core without quick bfloat16 multiplies float32 at twice the rate, and to widen a weight for one product of many rows
costs less than that saves. The wide product adds up in float32, as the narrow one does, and is rounded once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

T = TypeVar("T")

FEWEST = 64
"""Rows from which on a weight is worth widening."""

AT_ONCE = 1 << 22
"""Numbers of a weight that are widened at once, 16 MB: a head's are far more than a core's cache or memory likes."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute x W^T + bias: (N, D), (O, D), (O,) to (N, O), in x's dtype."""
    if not _is_widened(x):
        return F.linear(x, weight, bias)
    wide, parts = x.float(), weight.split(_rows(weight))
    if len(parts) == 1:
        return F.linear(wide, weight.float(), None if bias is None else bias.float()).to(x.dtype)
    found = x.new_empty(len(x), len(weight))
    for into, part in zip(found.split(_rows(weight), 1), parts, strict=True):
        into.copy_(F.linear(wide, part.float()))
    return found if bias is None else found.add_(bias)


def product(x: Tensor, weight: Tensor, into: Tensor | None = None) -> Tensor:
    """Compute x W, (N, O) and (O, D) to (N, D); added to `into`, in place, where that is begun."""
    if not _is_widened(x):
        return x @ weight if into is None else into.addmm_(x, weight)
    parts = zip(x.split(_rows(weight), 1), weight.split(_rows(weight)), strict=True)
    total = torch.zeros(len(x), weight.shape[1]) if into is None else into.float()
    for left, right in parts:
        total.addmm_(left.float(), right.float())
    return total.to(x.dtype) if into is None else into.copy_(total)


def _rows(weight: Tensor) -> int:
    return max(AT_ONCE // weight.shape[1], 1)


def _is_widened(x: Tensor) -> bool:
    return x.dtype is torch.bfloat16 and x.device.type == "cpu" and len(x) >= FEWEST and is_wide_faster()


@cache
def is_wide_faster() -> bool:
    """Tell whether this machine multiplies float32 so much faster than bfloat16 that widening pays."""
    taken = seconds()
    return taken[torch.float32] < 0.75 * taken[torch.bfloat16]


def seconds() -> dict[torch.dtype, float]:
    """Measure how long this machine takes for a product of a common shape in float32 and in bfloat16, at best."""

    def work(dtype: torch.dtype) -> Callable[[], object]:
        return partial(torch.mm, torch.ones(128, 768, dtype=dtype), torch.ones(768, 2048, dtype=dtype))

    return bests({dtype: work(dtype) for dtype in (torch.float32, torch.bfloat16)}, 5)


def bests(works: Mapping[T, Callable[[], object]], times: int) -> dict[T, float]:
    """Measure the seconds that each takes at best. They take turns: what else a machine does slows all of them alike,
    and is not to decide what it computes in."""
    found = dict.fromkeys(works, math.inf)
    for _ in range(times):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            found[name] = min(found[name], time.perf_counter() - began)
    return found
