"""Whose word counts: who may say how good a reply was, and how it should have been, in the order they are heard in.

The one place where the rule is worded that what is said outranks what is inferred. It stands beside every label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from django.utils.translation import gettext_noop

RULE = gettext_noop(
    "What a person says outranks what is inferred. The first of these that spoke decides: a reviewer, a thumb, marked "
    "words, a test, the world that an agent plays in, a visible rule, votes."
)

BESIDE = {
    "said": gettext_noop("A person’s word: it outranks tests, rules and votes."),
    "checked": gettext_noop("Checked, not guessed: it outranks votes, and a person’s word outranks it."),
    "inferred": gettext_noop("Inferred by votes: a person’s thumb, marks or correction outranks it."),
}


@dataclass(frozen=True)
class Source:
    """A person, a test, a rule or the judges: each may decide. `name` is the row's word, `words` are for others,
    `yours` for the person who said it; in English, as all words here: pages translate them."""

    name: str
    words: str
    yours: str
    kind: Literal["said", "checked", "inferred"]

    @property
    def beside(self) -> str:
        """What stands beside a label that this source decided."""
        return BESIDE[self.kind]


REWARDS = (
    Source(gettext_noop("reviewer"), gettext_noop("a reviewer’s word"), gettext_noop("a reviewer"), "said"),
    Source(gettext_noop("thumb"), gettext_noop("a person’s thumb"), gettext_noop("your thumb"), "said"),
    Source(gettext_noop("marks"), gettext_noop("words that a person marked"), gettext_noop("your marks"), "said"),
    Source(gettext_noop("test"), gettext_noop("a test’s verdict"), gettext_noop("a test"), "checked"),
    Source(
        gettext_noop("world"), gettext_noop("the world’s own score of a step"), gettext_noop("the world"), "checked"
    ),
    Source(
        gettext_noop("rule"),
        gettext_noop("a visible rule: exit codes and the like"),
        gettext_noop("a visible rule"),
        "checked",
    ),
    Source(gettext_noop("votes"), gettext_noop("the judges’ majority"), gettext_noop("the judge"), "inferred"),
)
"""Who may decide a reward, first heard first: `Judgement.reward_from`."""

HINTS = (
    Source(gettext_noop("reviewer"), gettext_noop("a reviewer’s words"), gettext_noop("a reviewer’s words"), "said"),
    Source(gettext_noop("guidance"), gettext_noop("a person’s guidance"), gettext_noop("your guidance"), "said"),
    Source(gettext_noop("rewrite"), gettext_noop("a person’s rewrite"), gettext_noop("your rewrite"), "said"),
    Source(
        gettext_noop("said"), gettext_noop("the user’s own next message"), gettext_noop("your next message"), "inferred"
    ),
    Source(gettext_noop("votes"), gettext_noop("votes on a hint"), gettext_noop("a hint the judge found"), "inferred"),
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
