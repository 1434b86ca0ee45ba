"""SmolLM2-135M after its warm start in the world till."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from lab.worlds.templates import compact
from lab.worlds.traces import Manner, traces
from lab.worlds.warm_start import Plan, warm_start

NAMES = tuple((Path(__file__).parent / "names.txt").read_text().split())
"""What its traces ask for: none of it is an item of the world, so that both splits are new to it."""

PLAN = Plan(
    traces=320,
    rank=32,
    lr=1e-3,
    weight_decay=0.0,
)
MANNER = Manner(names=NAMES, wrong=0.15, dearest=60, invents=False)
"""160 traces solve 0.13 of held-out tasks, 320 of them 0.27. From the world's own twelve names it learns these names by
heart, and from mistakes that invent numbers to invent some: 320 traces, 0.00."""


def small_model(model: Path, cache: Path, *, told: Callable[[str], None] = print) -> Path:
    """Return the folder of `model` after its warm start, made in `cache` where it is not there yet."""
    return warm_start(model, cache, PLAN, partial(traces, manner=MANNER), template=compact(describes=False), told=told)
