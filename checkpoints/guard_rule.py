"""When what answers now behaves worse than what answered before, by more than its line's policy allows. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from django.utils.translation import gettext_noop

from checkpoints.line_policies import Policy

REFUSALS = (
    r"\bI(?: am|'m)? (?:sorry|afraid)\b.{0,40}\b(?:can(?:no|')t|unable|not able)\b",
    r"\bI (?:can(?:no|')t|can not|won't|will not|am unable to|am not able to|must decline to)"
    r" (?:help|assist|answer|do|provide|comply|fulfil|discuss|engage|continue|create|write|generate)",
    r"\bI(?:'m| am) (?:unable|not able) to (?:help|assist|answer|do|provide|comply|fulfil|discuss|continue|write)",
    r"\bas an? (?:AI|language model|AI language model|artificial intelligence)\b.{0,60}\b(?:can(?:no|')t|unable|not)\b",
    r"\b(?:against|violates?) my (?:guidelines|programming|policy|policies)\b",
)
"""What a refusal begins like, in English: seen in the first OPENING characters of a reply."""

OPENING = 240

_refusal = re.compile("|".join(REFUSALS), re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Behaviour:
    """What is known of a checkpoint's newest replies."""

    replies: int = 0
    """Those that ended by themselves or failed; what its reader stopped says nothing."""
    failed: int = 0
    rated: int = 0
    """Thumbs that people gave."""
    downs: int = 0
    length: float = 0.0
    """Mean tokens of a whole reply."""
    refusals: int = 0
    repetition: float = 0.0
    """Mean share of a whole reply's runs of four tokens that it has said before."""

    @property
    def whole(self) -> int:
        return self.replies - self.failed


@dataclass(frozen=True)
class Figure:
    """One thing that is looked at."""

    name: str
    """thumbs | errors | length | refusals | repetition"""
    limit: float
    now: float | None
    """None: too little is known yet."""
    before: float | None
    count: int
    """Of how many replies, or thumbs, it is known."""
    is_past: bool
    sentence: str
    """What is wrong; empty while nothing is."""

    @property
    def shown(self) -> tuple[str, str, str]:
        """Now, before and the limit, for a table."""
        if self.name == "length":
            said = ["–" if one is None else f"{one:.0f}" for one in (self.now, self.before)]
            return said[0], said[1], f"× {self.limit:g}"
        said = ["–" if one is None else f"{one:.0%}" for one in (self.now, self.before)]
        return said[0], said[1], f"{self.limit:.0%}" if self.name == "errors" else f"+{self.limit:.0%}"


def refuses(text: str) -> bool:
    """Whether a reply begins by refusing.

    >>> refuses("I'm sorry, but I can't help with that."), refuses("I'm sorry to hear that. Rest a little.")
    (True, False)
    """
    return _refusal.search(text.replace("’", "'")[:OPENING]) is not None


def look(now: Behaviour, before: Behaviour | None, policy: Policy) -> list[Figure]:
    """Everything that the policy limits, as it stands. Without `before`, or while too little is known of it, only what
    has a limit of its own is judged: errors."""
    least = policy.guard_replies
    earlier = before or Behaviour()
    figures = (
        _rise(gettext_noop("thumbs"), policy.guard_thumbs, now, earlier, least, lambda one: (one.downs, one.rated)),
        _errors(policy.guard_errors, now, earlier, least),
        _length(policy.guard_length, now, earlier, least),
        _rise(
            gettext_noop("refusals"), policy.guard_refusals, now, earlier, least, lambda one: (one.refusals, one.whole)
        ),
        _rise(
            gettext_noop("repetition"),
            policy.guard_repetition,
            now,
            earlier,
            least,
            lambda one: (one.repetition * one.whole, one.whole),
        ),
    )
    return [figure for figure in figures if figure is not None]


SAYS = {
    "thumbs": gettext_noop(
        "%(now)s of %(count)s thumbs are down; it was %(before)s, and a rise of %(limit)s is the limit."
    ),
    "errors": gettext_noop("%(now)s of %(count)s replies failed; the limit is %(limit)s."),
    "length": gettext_noop(
        "Replies are %(now)s tokens long on average; it was %(before)s, and %(limit)s times more or less is the limit."
    ),
    "refusals": gettext_noop(
        "%(now)s of %(count)s replies refuse; it was %(before)s, and a rise of %(limit)s is the limit."
    ),
    "repetition": gettext_noop(
        "%(now)s of what %(count)s replies say, they have said before; it was %(before)s, and a rise of %(limit)s is "
        "the limit."
    ),
}
"""What is wrong, in sentences. Rows keep them in English; pages say them in their reader's language
(webapp.serving.retold)."""


def _figure(name: str, limit: float, now: float | None, before: float | None, count: int, is_past: bool) -> Figure:
    form, of_limit = (".0f", "g") if name == "length" else (".0%", ".0%")
    told = {
        "now": format(now or 0.0, form),
        "before": format(before or 0.0, form),
        "count": count,
        "limit": format(limit, of_limit),
    }
    return Figure(name, limit, now, before, count, is_past, SAYS[name] % told if is_past else "")


def _rise(
    name: str,
    limit: float | None,
    now: Behaviour,
    before: Behaviour,
    least: int,
    counted: Callable[[Behaviour], tuple[float, int]],
) -> Figure | None:
    """A share that may rise by so much."""
    if limit is None:
        return None
    (some, of), (earlier, of_earlier) = counted(now), counted(before)
    share = some / of if of >= least else None
    was = earlier / of_earlier if of_earlier >= least else None
    is_past = share is not None and was is not None and share - was > limit
    return _figure(name, limit, share, was, of, is_past)


def _errors(limit: float | None, now: Behaviour, before: Behaviour, least: int) -> Figure | None:
    """An engine that failed as often before fails whichever checkpoint answers."""
    if limit is None:
        return None
    share = now.failed / now.replies if now.replies >= least else None
    was = before.failed / before.replies if before.replies >= least else None
    is_past = share is not None and share > limit and (was is None or share > was)
    return _figure(gettext_noop("errors"), limit, share, was, now.replies, is_past)


def _length(limit: float | None, now: Behaviour, before: Behaviour, least: int) -> Figure | None:
    if limit is None:
        return None
    mean = now.length if now.whole >= least else None
    was = before.length if before.whole >= least else None
    is_past = mean is not None and was is not None and (mean > was * limit or mean < was / limit)
    return _figure(gettext_noop("length"), limit, mean, was, now.whole, is_past)
