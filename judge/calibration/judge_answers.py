"""Answers that a judge may give to a question, how votes become their shares, and the reward that each means. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

SCORES = ("1", "0", "-1", "new")
"""Answers to how it went. A change of subject is an answer of its own, and rewards as 0 does."""
DECISIONS = ("1", "-1")
"""Answers to whether a change is asked for."""
REWARDS: Mapping[str, int] = {"1": 1, "0": 0, "-1": -1, "new": 0}
JEFFREYS = 0.5
"""Votes of each answer that are added to those that were cast. Three votes of three do not show that a fourth could not
differ: under Jeffreys' prior, which favours no answer, the expected shares of the votes not cast are (n + 1/2) / (m +
k/2) for k answers."""


def shares(votes: Iterable[str], answers: Sequence[str]) -> dict[str, float]:
    """The smoothed shares of votes that were cast.

    >>> shares(["1", "1", "0"], ("1", "0", "-1", "new"))
    {'1': 0.5, '0': 0.3, '-1': 0.1, 'new': 0.1}
    """
    cast = list(votes)
    total = len(cast) + JEFFREYS * len(answers)
    return {answer: (cast.count(answer) + JEFFREYS) / total for answer in answers}


def rewards(probabilities: Mapping[str, float]) -> dict[int, float]:
    """How likely each reward is.

    >>> {reward: round(p, 2) for reward, p in rewards({"1": 0.5, "0": 0.2, "-1": 0.1, "new": 0.2}).items()}
    {1: 0.5, 0: 0.4, -1: 0.1}
    """
    found = {1: 0.0, 0: 0.0, -1: 0.0}
    for answer, p in probabilities.items():
        found[REWARDS[answer]] += p
    return found


def likeliest(found: Mapping[int, float]) -> int:
    """The likeliest of rewards; of several alike the one that says least."""
    return max(found, key=lambda reward: (round(found[reward], 9), reward == 0, -reward))
