"""SmolLM2-135M after its warm start in the world till."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lab.worlds.templates import compact
from lab.worlds.warm_start import Plan, warm_start

PLAN = Plan()


def small_model(model: Path, cache: Path, *, told: Callable[[str], None] = print) -> Path:
    """Return the folder of `model` after its warm start, made in `cache` where it is not there yet."""
    return warm_start(model, cache, PLAN, template=compact(describes=False), told=told)
