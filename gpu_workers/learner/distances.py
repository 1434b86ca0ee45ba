"""Distances measure how far apart the weights of two checkpoints are, layer by layer, from their files.

Both are taken as changes of the base: an adapter's is (alpha / r) · B A, which is never multiplied out, since
⟨B₁A₁, B₂A₂⟩ = tr((B₁ᵀB₂)(A₂A₁ᵀ)); a whole model's is its weight less the base's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from gpu_workers.errors import AdapterInvalid

ADAPTER_CONFIG, ADAPTER = "adapter_config.json", "adapter_model.safetensors"
OF_PEFT = "base_model.model."
LAYER = re.compile(r"\.layers\.(\d+)\.")
BESIDES = "besides"
"""What is in no layer: embeddings, the last norm, the head."""


@dataclass(frozen=True)
class Distance:
    """The distance in one layer. Lengths are Frobenius norms over all its weights."""

    layer: str
    """Its number, or BESIDES."""
    first: float
    """Length of the first one's change of the base."""
    second: float
    apart: float
    """Length of the difference of the two."""
    alike: float | None
    """Cosine of the two changes: 1 the same direction, 0 nothing in common; None where one of them changes nothing."""


@dataclass(frozen=True)
class LowRank:
    """B A, scaled: (rows, rank) times (rank, columns)."""

    b: torch.Tensor
    a: torch.Tensor

    def dot(self, other: Change) -> float:
        if isinstance(other, LowRank):
            return float(((self.b.T @ other.b) * (self.a @ other.a.T)).sum())
        return float(((self.b.T @ other.whole) * self.a).sum())


@dataclass(frozen=True)
class Dense:
    whole: torch.Tensor

    def dot(self, other: Change) -> float:
        return float((self.whole * other.whole).sum()) if isinstance(other, Dense) else other.dot(self)


Change = LowRank | Dense


def by_layer(first: Path | None, second: Path | None, base: Path) -> list[Distance]:
    """Measure each layer in which one of the two changes anything, in order. None stands for the base itself.

    One weight of each is in memory at a time. Raises AdapterInvalid for a folder that holds no weights of this base.
    """
    ours, theirs = _changes(first, base), _changes(second, base)
    sums: dict[str, list[float]] = {}
    for name in sorted(ours.keys() | theirs.keys()):
        one, other = (side[name]() if name in side else None for side in (ours, theirs))
        both = one.dot(other) if one and other else 0.0
        squares = (one.dot(one) if one else 0.0, other.dot(other) if other else 0.0, both)
        found = LAYER.search(name)
        own = sums.setdefault(found[1] if found else BESIDES, [0.0, 0.0, 0.0])
        for at, square in enumerate(squares):
            own[at] += square
    changed = [layer for layer, own in sums.items() if own[0] or own[1]]
    changed.sort(key=lambda layer: int(layer) if layer != BESIDES else 1 << 30)
    return [_distance(layer, *sums[layer]) for layer in changed]


def _distance(layer: str, first: float, second: float, both: float) -> Distance:
    lengths = (max(first, 0.0) ** 0.5, max(second, 0.0) ** 0.5)
    alike = both / (lengths[0] * lengths[1]) if all(lengths) else None
    return Distance(layer, *lengths, max(first + second - 2 * both, 0.0) ** 0.5, alike)


def _changes(folder: Path | None, base: Path) -> Mapping[str, Callable[[], Change]]:
    """Of each weight that these files change: how to read its change."""
    if folder is None:
        return {}
    try:
        return _of_adapter(folder) if (folder / ADAPTER_CONFIG).exists() else _of_model(folder, base)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise AdapterInvalid(f"The weights in {folder.name} cannot be read: {error}") from error


def _of_adapter(folder: Path) -> Mapping[str, Callable[[], Change]]:
    config = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    scale = float(config["lora_alpha"]) / float(config["r"])
    found = _tensors(folder / ADAPTER)

    def read(name: str) -> Callable[[], Change]:
        a, b = found[f"{name}.lora_A.weight"], found[f"{name}.lora_B.weight"]
        return lambda: LowRank(b() * scale, a())

    names = [name.removesuffix(".lora_A.weight") for name in found if name.endswith(".lora_A.weight")]
    return {f"{name.removeprefix(OF_PEFT)}.weight": read(name) for name in names}


def _of_model(folder: Path, base: Path) -> Mapping[str, Callable[[], Change]]:
    ours, theirs = _all_tensors(folder), _all_tensors(base)
    if not ours or not ours.keys() <= theirs.keys():
        raise ValueError("its weights are not those of this base")

    def read(name: str) -> Callable[[], Change]:
        return lambda: Dense(ours[name]() - theirs[name]())

    return {name: read(name) for name in ours}


def _all_tensors(folder: Path) -> dict[str, Callable[[], torch.Tensor]]:
    found: dict[str, Callable[[], torch.Tensor]] = {}
    for file in sorted(folder.glob("*.safetensors")):
        found |= _tensors(file)
    return found


def _tensors(file: Path) -> dict[str, Callable[[], torch.Tensor]]:
    """How to read each tensor of a file, in double precision: sums of many small squares."""

    def read(name: str) -> Callable[[], torch.Tensor]:
        def tensor() -> torch.Tensor:
            with safe_open(file, "pt") as tensors:
                found: torch.Tensor = tensors.get_tensor(name)
            return found.double()

        return tensor

    with safe_open(file, "pt") as tensors:
        return {name: read(name) for name in tensors.keys()}  # noqa: SIM118  it is no mapping
