"""How far reviewers agree: the share, Cohen's kappa of two, Krippendorff's alpha of any number. Pure.

All labels are names: none is nearer to another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

FEW = 20
"""With fewer items that both read, kappa says little."""


@dataclass(frozen=True)
class Pair:
    """Two reviewers beside each other, on the items that both read."""

    one: int
    other: int
    labels: Sequence[tuple[str, str]]
    """One an item: what the one and the other said."""

    @property
    def items(self) -> int:
        return len(self.labels)

    @property
    def share(self) -> float:
        """Of these items the share on which both said the same."""
        return sum(a == b for a, b in self.labels) / len(self.labels)

    @property
    def kappa(self) -> float | None:
        return cohen(self.labels)

    @property
    def is_few(self) -> bool:
        return self.items < FEW


def cohen(labels: Sequence[tuple[str, str]]) -> float | None:
    """Cohen's kappa (1960): 1 always agrees, 0 as often as chance would. None where nothing was read, or both know one
    label only: chance then explains everything.

    >>> cohen([("a", "a"), ("a", "b"), ("b", "b"), ("b", "b")])  # 3 of 4; by chance 2/4·1/4 + 2/4·3/4 = 1/2
    0.5
    >>> cohen([("a", "a")]) is None
    True
    """
    if not labels:
        return None
    count = len(labels)
    ones, others = Counter(a for a, _ in labels), Counter(b for _, b in labels)
    chance = sum(ones[label] * others[label] for label in ones) / count**2
    if chance == 1:
        return None
    return (sum(a == b for a, b in labels) / count - chance) / (1 - chance)


def krippendorff(items: Iterable[Sequence[str]]) -> float | None:
    """Krippendorff's alpha for names (2011), over items that two or more read: 1 − observed over expected disagreement.
    None where no item was, or one label only was given.

    >>> krippendorff([["a", "a"], ["a", "b"], ["b", "b"], ["a"]])  # Do = 2, De = 2·3·3 / 5 = 3.6
    0.4444444444444444
    """
    read = [Counter(labels) for labels in items if len(labels) > 1]
    total = sum(read, Counter[str]())
    values = total.total()
    if not read or len(total) < 2:
        return None
    seen = sum(_differing(one) / (one.total() - 1) for one in read)
    expected = _differing(total) / (values - 1)
    return 1 - seen / expected


def _differing(labels: Counter[str]) -> int:
    """Ordered pairs of different labels among these."""
    return labels.total() ** 2 - sum(count**2 for count in labels.values())


def pairs(items: Iterable[Sequence[tuple[int, str]]]) -> list[Pair]:
    """Every two reviewers who read the same item, those with the most items first. An item is (reviewer, label) of each
    who read it."""
    both: dict[tuple[int, int], list[tuple[str, str]]] = {}
    for read in items:
        for (one, a), (other, b) in combinations(sorted(read), 2):
            both.setdefault((one, other), []).append((a, b))
    found = [Pair(one, other, labels) for (one, other), labels in both.items()]
    return sorted(found, key=lambda pair: (-pair.items, pair.one, pair.other))
