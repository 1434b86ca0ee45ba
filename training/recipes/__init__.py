"""Agents' recipes as they were published, a file each, and what they need. Each is a preset by its file's name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
OF_A_WEIGHT = {"full": 16, "lora": 2}
"""Bytes that a learner holds for each weight of the model: in bfloat16, and where it trains with a gradient, a float32
copy and both of Adam's moments."""
OF_A_FROZEN_WEIGHT = 2
GB = 1e9


@dataclass(frozen=True)
class Published:
    name: str
    title: str
    model: str
    parameters: float
    """Of the model."""
    recipe: Mapping[str, Any]
    """Knobs, and the preset they start from."""
    play: str
    """The arguments of `python3 -m environments worlds play` for one batch."""
    context: int
    """Tokens of the engine's window."""
    published_on: str
    """The GPUs it was published with, and how many of them one copy of the engine took (TP)."""
    not_here: tuple[str, ...]
    """Published settings for which there is no knob here."""
    was_run: str
    """What of it was run here."""

    def needs(self, weights: str) -> str:
        """What training these weights takes, in words: calculated from the model's size."""
        learner = self.parameters * OF_A_WEIGHT[weights] / GB
        engine = self.parameters * OF_A_FROZEN_WEIGHT / GB
        base = f" and {engine:.0f} GB for its frozen base" if weights == "full" and self.recipe.get("beta") else ""
        engines = f"{engine:.0f} GB in the engine"
        engines += " and as much in the second one (SPARE_ENGINE_URL)" if weights == "full" else ""
        return (
            f"{self.model}, {weights}: {learner:.0f} GB in the learner{base}, {engines}; activations and the cache of "
            f"{self.context} tokens come on top. Calculated, not measured. Published on {self.published_on}."
        )

    @property
    def told(self) -> str:
        """How a batch is played, what differs here, and what was run."""
        lines = [
            f"Play: python3 -m environments worlds play {self.play}",
            *(f"Not here: {one}" for one in self.not_here),
        ]
        return "\n".join([*lines, f"Run here: {self.was_run}"])


@cache
def published() -> Mapping[str, Published]:
    """Every recipe by its name."""
    found = {}
    for file in sorted(FOLDER.glob("*.json")):
        said = json.loads(file.read_text())
        found[file.stem] = Published(name=file.stem, **said | {"not_here": tuple(said["not_here"])})
    return found
