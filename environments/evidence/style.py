"""Whether replies are as this person wants them: the detectors' word alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from environments import personas
from environments.personas import Persona


@dataclass(frozen=True)
class Style:
    """One reply, held against one person's wishes."""

    score: float
    """The share of the wishes that it obeys."""
    parts: Mapping[str, bool]


def of(row: Mapping[str, Any]) -> Style:
    """Of a probe's row. A reply that was cut off obeys no wish that speaks of its end."""
    persona = Persona(**{**row["persona"], "wishes": tuple(row["persona"]["wishes"])})
    parts = personas.parts(persona, row["reply"], finished=row["finish_reason"] == "stop")
    return Style(sum(parts.values()) / len(parts), parts)
