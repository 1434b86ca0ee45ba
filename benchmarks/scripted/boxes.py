"""Turn what a scripted answer has in its box into log-probs of the tokens that could begin it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

SURE = 0.97
"""How likely a scripted engine makes the choice that its script names; the others share the rest."""

BOX = re.compile(r"\\?boxed\{\s*([^{}\s]*)")


def choice_logprobs(says: str, pieces: Sequence[str]) -> list[float]:
    """Compute the log-probs of choices that begin with these pieces of text, when the script answers `says`. Where its
    box begins with none of them all are alike.

    >>> [round(math.exp(one), 2) for one in choice_logprobs(r"They object. \\boxed{-1}", ["1", "0", "-"])]
    [0.01, 0.01, 0.97]
    """
    found = BOX.search(says)
    inside = found[1] if found else ""
    named = [bool(inside) and inside.startswith(piece.strip()) for piece in pieces]
    if sum(named) != 1 or len(pieces) == 1:
        return [-math.log(len(pieces))] * len(pieces)
    return [math.log(SURE if one else (1 - SURE) / (len(pieces) - 1)) for one in named]
