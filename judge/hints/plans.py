"""A plan: what a verdict does with a turn's hints, thought out before the teacher is asked and written after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from django.utils.translation import gettext_noop

from judge.hints import reviews
from judge.hints.sources import OWN_WORDS
from judge.models import Hint
from judge.samples.teacher import Unreadable
from judge.votes.opinions import Opinion

SAID = gettext_noop("The person said in their own words what they want.")
WITHDRAWN = gettext_noop("Its author took it back, or says something else now.")
CHANGED = gettext_noop("What it was drawn from has changed, and does not ask for it any more.")
SATISFIED = gettext_noop("The person has said since that the reply is good.")
"""Why a hint is put away: as rows keep it; pages translate it."""


@dataclass(frozen=True)
class Offer:
    """One wording, and what would become of it."""

    text: str
    source: str
    confidence: float | None
    waits_because: str = ""
    """Why it waits for a person; empty: it is accepted."""
    into: Hint | None = None
    """The hint of another turn that says the same: this turn learns with its words, or waits with it."""
    conflicts: tuple[dict[str, Any], ...] = ()
    row: Hint | None = None
    """It was proposed before, and put away by itself."""

    @property
    def status(self) -> Hint.Status:
        if self.into is not None:
            return Hint.Status.MERGED
        return Hint.Status.WAITING if self.waits_because else Hint.Status.ACCEPTED

    @property
    def shown(self) -> str:
        """What a reviewer sees the effect of."""
        return self.into.text if self.into is not None else self.text

    @property
    def words(self) -> str:
        """What the turn learns with; empty while a person is waited for."""
        if self.into is not None:
            return self.into.text if self.into.is_accepted else ""
        return "" if self.waits_because else self.text


@dataclass(frozen=True)
class Plan:
    """What a verdict does with a turn's hints. Thought out before the teacher is asked, written after it."""

    rows: tuple[Hint, ...] = ()
    """The turn's hints as they stood."""
    keeps: Hint | None = None
    """The one that stands, or waits, as it is."""
    offers: tuple[Offer, ...] = ()
    drops: tuple[tuple[Hint, str], ...] = ()
    """Those that are put away, and why: SAID, WITHDRAWN, CHANGED or SATISFIED."""

    @property
    def words(self) -> str:
        """What is taught whatever is chosen; empty where a choice is left, or nothing stands."""
        return reviews.taught(self.keeps) if self.keeps is not None else ""

    @property
    def wanted(self) -> tuple[str, ...]:
        """The wordings that the teacher is to be shown."""
        kept = [self.words or (self.keeps.text if not self.keeps.teacher else "")] if self.keeps is not None else []
        offered = [text for offer in self.offers for text in (offer.text, offer.into.text if offer.into else "")]
        return tuple(dict.fromkeys(text for text in (*kept, *offered) if text))

    def words_with(self, offer: Offer | None) -> str:
        """What is taught when this offer is chosen; empty while a person is waited for."""
        return offer.words if offer is not None else self.words

    @property
    def chosen_before(self) -> str:
        """Why the hint that stands was chosen, where it was one of several."""
        return self.keeps.teacher.get("choice", "") if self.keeps is not None else ""

    @property
    def shown(self) -> str:
        return self.words or (self.keeps.text if self.keeps is not None else "")

    @property
    def takes_own(self) -> bool:
        """True when what the person said themselves stands, word for word, and waits for no review."""
        if self.keeps is not None:
            return self.keeps.source == Hint.Source.PERSON and self.keeps.status == Hint.Status.ACCEPTED
        return any(offer.source == Hint.Source.PERSON and offer.words == offer.text for offer in self.offers)

    @property
    def is_refused(self) -> bool:
        """True when nothing stands because a reviewer said no, to it or to what it was merged into."""
        if self.keeps is not None:
            into = self.keeps.merged_into
            return into is not None and into.status == Hint.Status.REJECTED
        return any(row.status == Hint.Status.REJECTED and row.decided_by_id is not None for row in self.rows)

    def waits_with(self, offer: Offer | None) -> bool:
        """True when a person is to decide on the turn's hint first, where this offer is chosen."""
        if offer is not None:
            return not offer.words
        into = self.keeps.merged_into if self.keeps is not None and self.keeps.status == Hint.Status.MERGED else None
        return any(hint is not None and hint.status == Hint.Status.WAITING for hint in (self.keeps, into))

    def hint_from(self, offer: Offer | None, opinion: Opinion) -> str:
        """guidance | rewrite | said | votes | reviewer: whose words the turn learns with; empty: there are none."""
        if offer is not None:
            return opinion.hint_from if offer.source in OWN_WORDS else "votes"
        row = self.keeps
        if row is None:
            return ""
        if row.status == Hint.Status.EDITED or (row.status == Hint.Status.MERGED and row.decided_by_id is not None):
            return "reviewer"
        if row.source == Hint.Source.SAID:
            return "said"
        return opinion.hint_from or "guidance" if row.source == Hint.Source.PERSON else "votes"

    def is_a_persons(self, offer: Offer | None) -> bool:
        """True when a person worded what is taught, or decided on it: the standing hint, or what it was merged into."""
        kept = self.keeps
        rows = (offer.into,) if offer is not None else (kept, kept.merged_into if kept is not None else None)
        said = offer is not None and offer.source == Hint.Source.SAID
        return said or any(row.source in OWN_WORDS or row.decided_by_id is not None for row in rows if row is not None)

    def shown_of(self, unshown: Mapping[str, Unreadable]) -> list[Offer]:
        """The offers whose words the teacher can be shown."""
        return [offer for offer in self.offers if not unshown.keys() & {offer.text, offer.shown}]

    def best(
        self, pick: Callable[[Sequence[str]], str] | None, unshown: Mapping[str, Unreadable] = MappingProxyType({})
    ) -> Offer | None:
        """The offer whose wording is picked (judge.hints.choice); without a teacher only what a person said themselves.

        `unshown` says of words why the teacher cannot be shown them. Where that holds of all offers, a voted one waits
        for a person who finds better words.
        """
        if pick is None:
            return next((offer for offer in self.offers if offer.source == Hint.Source.PERSON), None)
        if not self.offers:
            return None
        if shown := self.shown_of(unshown):
            text = pick([offer.text for offer in shown])
            return next(offer for offer in shown if offer.text == text)
        first = self.offers[0]
        if first.source == Hint.Source.PERSON:
            return first
        because = unshown[first.text if first.text in unshown else first.shown]
        return replace(first, into=None, waits_because=first.waits_because or str(because)[:200])


def is_live(hint: Hint) -> bool:
    return hint.status != Hint.Status.REJECTED
