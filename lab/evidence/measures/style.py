"""Whether replies are as this person wants them, by detectors alone; and what they would have written. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from environments import personas
from environments.editing import edited
from environments.personas import Persona


@dataclass(frozen=True)
class Style:
    """One reply, held against one person's wishes."""

    score: float
    """The share of the wishes that it obeys."""
    parts: Mapping[str, bool]


def of(row: Mapping[str, Any]) -> Style:
    """Of a probe's row. A reply that was cut off obeys no wish that speaks of its end."""
    parts = personas.parts(person(row), row["reply"], finished=row["finish_reason"] == "stop")
    return Style(sum(parts.values()) / len(parts), parts)


def mended(row: Mapping[str, Any]) -> str:
    """The reply as this person would have it, in its own words; as it is, where no editor's pen can mend it."""
    asked, finished = row["task"]["prompt"], row["finish_reason"] == "stop"
    text = edited(person(row), row["reply"], asked=asked, finished=finished, rng=random.Random(asked))
    return text or row["reply"]


def person(row: Mapping[str, Any]) -> Persona:
    """Whose wishes a probe's row is held against."""
    return Persona(**{**row["persona"], "wishes": tuple(row["persona"]["wishes"])})
