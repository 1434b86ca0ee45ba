"""Chart what a hint would change in a reply, token by token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

STEPS = (0.1, 0.5, 1.0, 2.0)
"""Nats of change at which a token's colour deepens; less than the first is no change to speak of."""


@dataclass(frozen=True)
class Token:
    text: str
    change: float
    """log-prob under the hint − log-prob as served, at T = 1: what the lesson would raise (> 0) or lower."""

    @property
    def shade(self) -> str:
        """A class for its colour: up-1 … up-4, down-1 … down-4, or none."""
        depth = sum(abs(self.change) >= step for step in STEPS)
        return f"{'up' if self.change > 0 else 'down'}-{depth}" if depth else ""

    @property
    def signed(self) -> str:
        return f"{self.change:+.2f}".replace("-", "−")


def tokens(teacher: Mapping[str, Sequence[Any]]) -> list[Token]:
    """The served tokens with their change. Lengths that disagree raise ValueError; no teacher, no tokens."""
    if not teacher:
        return []
    columns = zip(teacher["tokens"], teacher["logprobs"], teacher["old_logprobs"], strict=True)
    return [Token(str(text), hinted - served) for text, hinted, served in columns]


def sentence(tokens: Sequence[Token]) -> str:
    """The map for those who cannot see it, and a caption for those who can."""
    up = [t for t in tokens if t.change >= STEPS[0]]
    down = [t for t in tokens if t.change <= -STEPS[0]]
    if not up and not down:
        return _("The hint would change no token to speak of.")
    told = _("Of %(tokens)s tokens the hint would raise %(up)s and lower %(down)s.")
    said = [told % {"tokens": len(tokens), "up": len(up), "down": len(down)}]
    if down:
        most = min(down, key=lambda t: t.change)
        words = {"token": most.text.strip() or "␣", "change": most.signed}
        said.append(_("Lowered most: “%(token)s” (%(change)s).") % words)
    if up:
        most = max(up, key=lambda t: t.change)
        words = {"token": most.text.strip() or "␣", "change": most.signed}
        said.append(_("Raised most: “%(token)s” (%(change)s).") % words)
    return " ".join(said)
