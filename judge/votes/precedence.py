"""Whose word counts: who may say how good a reply was, and how it should have been, in the order they are heard in.

The one place where the rule is worded that what is said outranks what is inferred. It stands beside every label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RULE = (
    "What a person says outranks what is inferred. The first of these that spoke decides: a reviewer, a thumb, marked "
    "words, a test, the world that an agent plays in, a visible rule, votes."
)

BESIDE = {
    "said": "A person’s word: it outranks tests, rules and votes.",
    "checked": "Checked, not guessed: it outranks votes, and a person’s word outranks it.",
    "inferred": "Inferred by votes: a person’s thumb, marks or correction outranks it.",
}


@dataclass(frozen=True)
class Source:
    """A person, a test, a rule or the judges: each may decide. `name` is the row's word, `words` are for others,
    `yours` for the person who said it."""

    name: str
    words: str
    yours: str
    kind: Literal["said", "checked", "inferred"]

    @property
    def beside(self) -> str:
        """What stands beside a label that this source decided."""
        return BESIDE[self.kind]


REWARDS = (
    Source("reviewer", "a reviewer’s word", "a reviewer", "said"),
    Source("thumb", "a person’s thumb", "your thumb", "said"),
    Source("marks", "words that a person marked", "your marks", "said"),
    Source("test", "a test’s verdict", "a test", "checked"),
    Source("world", "the world’s own score of a step", "the world", "checked"),
    Source("rule", "a visible rule: exit codes and the like", "a visible rule", "checked"),
    Source("votes", "the judges’ majority", "the judge", "inferred"),
)
"""Who may decide a reward, first heard first: `Judgement.reward_from`."""

HINTS = (
    Source("reviewer", "a reviewer’s words", "a reviewer’s words", "said"),
    Source("guidance", "a person’s guidance", "your guidance", "said"),
    Source("rewrite", "a person’s rewrite", "your rewrite", "said"),
    Source("said", "the user’s own next message", "your next message", "inferred"),
    Source("votes", "votes on a hint", "a hint the judge found", "inferred"),
)
"""Who may word a hint: `Judgement.hint_from`."""


def of_reward(name: str) -> Source | None:
    """Who decided a reward; None while it is undecided.

    >>> of_reward("marks").beside
    'A person’s word: it outranks tests, rules and votes.'
    """
    return next((source for source in REWARDS if source.name == name), None)


def of_hint(name: str) -> Source | None:
    """Who worded a hint; None where there is none."""
    return next((source for source in HINTS if source.name == name), None)
