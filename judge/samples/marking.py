"""From words that people marked to a reward for each token that wrote one of them."""

from __future__ import annotations

from collections.abc import Sequence

from chat.models import Turn
from chat.rendering import offsets
from chat.rendering.renderer import Renderer
from feedback.spans import Span


def token_rewards(turn: Turn, marks: Sequence[Span], renderer: Renderer, thumb: int = 0) -> list[int]:
    """-1, 0 or 1 a response id. A token that is marked in part is marked; one that is marked both ways goes by where
    more of its characters are, and is neutral where they balance.

    Where a `thumb` stands beside them and none of the marks has its sign, the tokens that are not marked have it: who
    says "bad, but this was good" means both. Where one has it, the marks show what the thumb means.

    Raises OffsetsLost where it cannot be told which token wrote which word.
    """
    signs = [0] * len(turn.text)
    for start, end, sign in marks:
        signs[start:end] = [sign] * (min(end, len(signs)) - start)
    sums = (sum(signs[start:end]) for start, end in offsets.token_ranges(turn, renderer))
    rest = 0 if any(sign == thumb for _, _, sign in marks) else thumb
    return [(total > 0) - (total < 0) or rest for total in sums]
