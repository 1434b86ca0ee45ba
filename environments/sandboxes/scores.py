"""Read a verifier's verdict: one finite number within its range, or none at all."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from environments.sandboxes.trees import Tree

MOST_BYTES = 64 * 1024
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class Unreadable(ValueError):
    """There is no verdict that counts; the sentence says why."""


def read_verdict(found: Tree, lowest: float, highest: float) -> float:
    """The number in reward.txt, or of "reward" in reward.json. Where both are there they must agree.

    >>> from environments.sandboxes.trees import File
    >>> read_verdict(Tree({"reward.txt": File(b"0.5")}), 0, 1)
    0.5
    """
    said = {
        read(found.files[name].content)
        for name, read in (("reward.txt", _text), ("reward.json", _json))
        if name in found.files
    }
    if not said:
        other = [name for name in found.left_out if name in ("reward.txt", "reward.json")]
        raise Unreadable(f"{other[0]} is no regular file." if other else "The verifier wrote no verdict.")
    if len(said) > 1:
        raise Unreadable("reward.txt and reward.json differ.")
    (verdict,) = said
    if not math.isfinite(verdict) or not lowest <= verdict <= highest:
        raise Unreadable(f"The verdict {verdict} is not between {lowest:g} and {highest:g}.")
    return verdict


def _text(content: bytes) -> float:
    try:
        text = content.decode("ascii").strip() if len(content) <= MOST_BYTES else ""
    except UnicodeDecodeError:
        text = ""
    if not NUMBER.fullmatch(text):
        raise Unreadable("reward.txt holds no number.")
    return float(text)


def _json(content: bytes) -> float:
    try:
        if len(content) > MOST_BYTES:
            raise ValueError
        said = json.loads(content, object_pairs_hook=_object, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise Unreadable("reward.json cannot be read.") from None
    verdict = said.get("reward") if isinstance(said, dict) else None
    if isinstance(verdict, bool) or not isinstance(verdict, int | float):
        raise Unreadable('reward.json has no number "reward".')
    try:
        return float(verdict)
    except OverflowError:
        raise Unreadable("The verdict is no finite number.") from None


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("one name twice")
    return made


def _refuse(constant: str) -> float:
    raise ValueError(constant)
