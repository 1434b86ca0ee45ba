"""Votes for a hint, and the hint that comes of them."""

from __future__ import annotations

from chat.models import Turn
from judge.models import Hint
from training.config import Recipe

OPD, BINARY = Recipe(w_rl=0), Recipe(w_opd=0)
TELL = "Does what came back say"


def yes(hint: str) -> str:
    return rf"They name a change. \boxed{{1}} [HINT_START]{hint}[HINT_END]"


NO = r"No change. \boxed{-1}"


def only(turn: Turn) -> Hint:
    return turn.hints.get()
