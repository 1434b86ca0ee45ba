"""From what people say and votes find to the one hint that a turn may learn from, and what becomes of earlier ones.

A verdict proposes at most one hint: of the wordings that were offered the one that judge.hints.choice picks. A person's
own correction comes before all of them. What a reviewer decided stands, as long as the person does not say something
else in their own words; what was accepted by itself, or waits, goes when it was drawn from evidence that has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext_noop

from chat.models import Turn
from judge.hints import acceptance, back_references, decisions, hint_words, likeness, reviews
from judge.models import Hint, Ruling
from judge.samples.teacher import Unreadable
from judge.votes.evidence import Evidence
from judge.votes.opinions import Opinion

LOOKED_AT = 300
"""Among how many of a person's newest hints likeness and contradiction are looked for."""

MOST_CONFLICTS = 5

OWN_WORDS = (Hint.Source.PERSON, Hint.Source.SAID)
"""Whose words stand as a person wrote them: no judge made them up."""

TRUSTED = (Hint.Source.PERSON, Hint.Source.SAID, Hint.Source.USER)
"""Whose words are the person's own. Only hints of these are merged without a person."""

SAID = gettext_noop("The person said in their own words what they want.")
WITHDRAWN = gettext_noop("Its author took it back, or says something else now.")
CHANGED = gettext_noop("What it was drawn from has changed, and does not ask for it any more.")
SATISFIED = gettext_noop("The person has said since that the reply is good.")


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
    """Those that are put away, and why."""

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

    @property
    def waits(self) -> bool:
        """True when a person is waited for."""
        return self.keeps is not None and is_waiting(self.keeps)

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


def waits(plan: Plan, offer: Offer | None) -> bool:
    """True when a person is to decide on the turn's hint first."""
    return not offer.words if offer is not None else plan.waits


def hint_from(plan: Plan, offer: Offer | None, opinion: Opinion) -> str:
    """guidance | rewrite | said | votes | reviewer: whose words the turn learns with; empty where there are none."""
    if offer is not None:
        return opinion.hint_from if offer.source in OWN_WORDS else "votes"
    row = plan.keeps
    if row is None:
        return ""
    if row.status == Hint.Status.EDITED or (row.status == Hint.Status.MERGED and row.decided_by_id is not None):
        return "reviewer"
    if row.source == Hint.Source.SAID:
        return "said"
    return opinion.hint_from or "guidance" if row.source == Hint.Source.PERSON else "votes"


def is_a_persons(offer: Offer | None, keeps: Hint | None) -> bool:
    """Whether a person worded what is taught, or decided on it: the hint that stands, or what it was merged into."""
    rows = (offer.into,) if offer is not None else (keeps, keeps.merged_into if keeps is not None else None)
    said = offer is not None and offer.source == Hint.Source.SAID
    return said or any(row.source in OWN_WORDS or row.decided_by_id is not None for row in rows if row is not None)


def plan(turn: Turn, seen: Evidence, opinion: Opinion, *, trusted: bool) -> Plan:
    """What to do with the turn's hints, now that this is the evidence and these are the hints it offers."""
    rows = tuple(turn.hints.select_related("merged_into").order_by("pk"))
    said = next(iter(opinion.hints), "") if seen.correction else ""  # in the words that may be kept
    own = next((row for row in rows if said and row.source == Hint.Source.PERSON and row.proposed == said), None)
    drops = [(row, WITHDRAWN) for row in rows if row.source == Hint.Source.PERSON and row is not own and is_live(row)]
    others = [row for row in rows if row.source != Hint.Source.PERSON]
    if said:
        if own is not None and own.status == Hint.Status.REJECTED and own.decided_by_id is not None:
            # A reviewer has refused these very words, perhaps for others: those stand.
            return Plan(rows, keeps=_standing(others), drops=tuple(drops))
        drops += [(row, SAID) for row in others if is_live(row)]
        if own is not None and is_live(own):
            return Plan(rows, keeps=own, drops=tuple(drops))
        offer = _offer(turn, said, Hint.Source.PERSON, 1.0, trusted=True, known=_known_of(turn))
        return Plan(rows, offers=(replace(offer, row=own),), drops=tuple(drops))
    if (chosen := _standing([row for row in others if row.decided_by_id is not None])) is not None:
        return Plan(rows, keeps=chosen, drops=tuple(drops))
    decided = [row for row in others if row.decided_by_id is not None]
    if any(row.evidence == seen.digest for row in decided):
        return Plan(rows, drops=tuple(drops))  # a reviewer saw this evidence, and wanted nothing learned of it
    offered = [
        text
        for text in opinion.hints
        if not hint_words.leak(text, secret(seen)) and not any(likeness.alike(text, row.proposed) for row in decided)
    ]
    live = [row for row in others if is_live(row)]
    kept = next((row for row in live if row.evidence == seen.digest and row.proposed in offered), None)
    gone = SATISFIED if (opinion.reward or 0) > 0 and not opinion.hints else CHANGED
    drops += [(row, gone) for row in live if row is not kept and row.proposed not in offered]
    if kept is not None:
        drops += [(row, gone) for row in live if row is not kept and row.proposed in offered]
        return Plan(rows, keeps=kept, drops=tuple(drops))
    known = _known_of(turn) if offered else []
    by_words = {row.proposed: row for row in others}
    source, confidence = opinion.source or seen.source, opinion.hint_confidence
    offers = [
        replace(
            _offer(turn, text, source, confidence, trusted=trusted, known=known, may_accept=opinion.may_accept),
            row=by_words.get(text),
        )
        for text in offered
    ]
    return Plan(rows, offers=tuple(offers), drops=tuple(drops))


def is_current(plan: Plan, turn: Turn) -> bool:
    """Lock the hints that the plan speaks of, for the transaction of the caller, who has locked the turn. False: they
    are no longer as they were when it was made."""
    into = {offer.into.pk: offer.into for offer in plan.offers if offer.into is not None}
    if plan.keeps is not None and plan.keeps.merged_into is not None:
        into[plan.keeps.merged_into.pk] = plan.keeps.merged_into
    own = set(turn.hints.order_by().values_list("pk", flat=True))
    rows = Hint.objects.filter(pk__in=own | set(into)).order_by("pk").select_for_update(of=("self",))
    now = {row.pk: decisions.state(row) for row in rows}
    then = {row.pk: decisions.state(row) for row in (*plan.rows, *into.values())}
    return now == then


def write(
    plan: Plan,
    chosen: Offer | None,
    turn: Turn,
    seen: Evidence,
    *,
    gain: float | None = None,
    teacher: dict[str, Any] | None = None,
) -> Hint | None:
    """Write the plan with the offer that was chosen; each thing that happens by itself leaves a ruling without a
    person.

    Returns the hint that stands or waits, if any. `gain` and `teacher` are what was measured for it. Call it when
    `is_current` has just said yes.
    """
    now = timezone.now()
    for row, why in plan.drops:
        if chosen is None or chosen.row is None or chosen.row.pk != row.pk:
            _set_aside(row, why, now)
    measured = {"gain": gain, "teacher": teacher} if teacher else {}
    if chosen is None:
        kept = plan.keeps
        if kept is not None and measured:
            Hint.objects.filter(pk=kept.pk).update(**measured)
        return kept
    for offer in plan.offers:
        if offer is not chosen and offer.row is not None and is_live(offer.row):
            _set_aside(offer.row, CHANGED, now)
    fields: dict[str, Any] = {
        "source": chosen.source,
        "text": chosen.text,
        "evidence": seen.digest,
        "confidence": chosen.confidence,
        "merged_into": chosen.into,
        "conflicts": list(chosen.conflicts),
        "waits_because": chosen.waits_because,
        "decided_by": None,
        "decided_at": now if chosen.status != Hint.Status.WAITING else None,
        **measured,
    }
    if chosen.row is None:
        hint = Hint(turn=turn, proposed=chosen.text, status=chosen.status, **fields)
        hint.save()
    else:
        hint = chosen.row
        if hint.status != chosen.status:
            hint.move(chosen.status, **fields)
        else:
            Hint.objects.filter(pk=hint.pk).update(**fields)
            for name, value in fields.items():
                setattr(hint, name, value)
    if chosen.source != Hint.Source.PERSON and chosen.status != Hint.Status.WAITING:
        _note(hint, chosen)
    return hint


def is_live(hint: Hint) -> bool:
    return hint.status != Hint.Status.REJECTED


def is_waiting(hint: Hint) -> bool:
    """True for one that waits for a person, or was merged into one that does."""
    into = hint.merged_into
    merged = hint.status == Hint.Status.MERGED and into is not None and into.status == Hint.Status.WAITING
    return merged or hint.status == Hint.Status.WAITING


def secret(seen: Evidence) -> str:
    """What the judge read and the policy had not: texts of tools, tests and the world, which no hint may repeat."""
    return "\n".join([text for role, text in seen.next_state if role != "user"] + [seen.output])


def known(user_id: int, apart_from: Turn | None = None) -> list[Hint]:
    """The newest hints of this person that stand in their own words, or wait; rewrites say nothing of other replies."""
    mine = Hint.objects.filter(
        turn__session__user_id=user_id,
        turn__learns=True,
        turn__session__learns=True,
        status__in=(Hint.Status.ACCEPTED, Hint.Status.EDITED, Hint.Status.WAITING),
    )
    if apart_from is not None:
        mine = mine.exclude(turn=apart_from)
    return [hint for hint in mine.order_by("-pk").defer("teacher")[:LOOKED_AT] if not hint_words.is_rewrite(hint.text)]


def _known_of(turn: Turn) -> list[Hint]:
    return known(turn.session.user_id, apart_from=turn)


def _standing(rows: Iterable[Hint]) -> Hint | None:
    """Of these the one the turn learns from: in its own words rather than in another's."""
    order = (Hint.Status.EDITED, Hint.Status.ACCEPTED, Hint.Status.MERGED)
    standing = [row for row in rows if row.status in order]
    return min(standing, key=lambda row: (order.index(Hint.Status(row.status)), -row.pk), default=None)


def _offer(
    turn: Turn,
    text: str,
    source: str,
    confidence: float | None,
    *,
    trusted: bool,
    known: Sequence[Hint],
    may_accept: bool = False,
) -> Offer:
    waits = why_it_waits(text, source, confidence, trusted=trusted, may_accept=may_accept)
    because = waits or refers_back(text)
    into = None
    if source in (
        Hint.Source.USER,
        Hint.Source.SAID,
    ):  # a person's own words are the hint word for word, and only that person merges them
        wanted = (Hint.Status.WAITING,) if because else (Hint.Status.ACCEPTED, Hint.Status.EDITED)
        same = (hint for hint in known if hint.status in wanted and hint.source in TRUSTED)
        into = next((hint for hint in same if likeness.alike(text, hint.text)), None)
    standing: dict[str, int] = {}
    for hint in known:
        if hint.is_accepted:
            standing.setdefault(hint.text, hint.pk)
    found = likeness.conflicts(text, ((pk, words) for words, pk in standing.items()))
    return Offer(text, source, confidence, because, into, tuple(found[:MOST_CONFLICTS]))


def why_it_waits(text: str, source: str, confidence: float | None, *, trusted: bool, may_accept: bool = False) -> str:
    """Why a person is asked, in a sentence; empty when the policy accepts it. `may_accept`: the hints of its judges
    were measured, and are good enough to be accepted without a person."""
    if source != Hint.Source.PERSON and not trusted:
        return gettext_noop("The votes of this judge teach nothing by themselves.")
    if not acceptance.passes(source, confidence):
        least = acceptance.threshold(source)
        if least is None:
            return WAITS[source]
        return f"It is sure by {confidence or 0:.2f}; it takes {least:.2f} to be accepted without a person."
    if source not in OWN_WORDS and not may_accept:
        return gettext_noop(
            "A judge worded it, whose hints were not measured to be good enough to go without a person."
        )
    if source not in TRUSTED and (lure := hint_words.lure(text)):
        return f"It holds {lure}, and comes from {FROM.get(source, source)}."
    return ""


def refers_back(text: str) -> str:
    """Why a hint that speaks of an earlier reply waits for a person's wording; empty where it speaks of none."""
    back = back_references.find_references(hint_words.guidance_in(text))
    return back_references.refusal(back)[:200] if back else ""


FROM: dict[str, str] = {
    Hint.Source.PERSON: "a person's own words",
    Hint.Source.SAID: "the user's own next message",
    Hint.Source.USER: "what the user said",
    Hint.Source.ENVIRONMENT: "an environment",
    Hint.Source.TEST: "a test's output",
    Hint.Source.TOOL: "a tool's text",
    Hint.Source.FILE: "a file's text",
    Hint.Source.WEB: "the web",
}


WAITS: dict[str, str] = {
    Hint.Source.PERSON: gettext_noop("What comes from a person's own words waits for a person."),
    Hint.Source.SAID: gettext_noop("What comes from the user's own next message waits for a person."),
    Hint.Source.USER: gettext_noop("What comes from what the user said waits for a person."),
    Hint.Source.ENVIRONMENT: gettext_noop("What comes from an environment waits for a person."),
    Hint.Source.TEST: gettext_noop("What comes from a test's output waits for a person."),
    Hint.Source.TOOL: gettext_noop("What comes from a tool's text waits for a person."),
    Hint.Source.FILE: gettext_noop("What comes from a file's text waits for a person."),
    Hint.Source.WEB: gettext_noop("What comes from the web waits for a person."),
}
"""As rows keep it; pages translate it."""


def _set_aside(row: Hint, why: str, now: Any) -> None:
    before = decisions.state(row)
    fields = {"merged_into": None, "waits_because": why, "decided_by": None, "decided_at": now}
    row.move(Hint.Status.REJECTED, **fields)
    Ruling.objects.create(
        verb=Ruling.Verb.REJECT, turn_id=row.turn_id, hint=row, before=before, after=decisions.state(row), reason=why
    )


def _note(hint: Hint, offer: Offer) -> None:
    """Say in the log that a policy decided."""
    after = decisions.state(hint)
    before = after | {"status": str(Hint.Status.WAITING), "merged_into": None, "decided_at": None}
    least = acceptance.threshold(offer.source)
    sure = f"confidence {offer.confidence or 0:.2f}" + (f", accepted from {least:.2f} on" if least is not None else "")
    verb, why = Ruling.Verb.ACCEPT, f"{sure[:1].upper()}{sure[1:]}."
    if offer.into is not None:
        verb, why = Ruling.Verb.MERGE, f"It says what hint {offer.into.pk} of the same person says. {why}"
    Ruling.objects.create(verb=verb, turn_id=hint.turn_id, hint=hint, before=before, after=after, reason=why)
