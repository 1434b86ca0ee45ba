"""From what people say and votes find to the one hint that a turn may learn from, and what becomes of earlier ones.

A verdict proposes at most one hint: of the wordings that were offered the one that judge.hints.choice picks. A person's
own correction comes before all of them. What a reviewer decided stands, as long as the person does not say something
else in their own words; what was accepted by itself, or waits, goes when it was drawn from evidence that has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from chat.models import Turn
from judge.hints import hint_words, likeness
from judge.hints.plans import CHANGED, SAID, SATISFIED, WITHDRAWN, Offer, Plan, is_live
from judge.hints.sources import TRUSTED, why_it_waits
from judge.models import Hint
from judge.votes.evidence import Evidence
from judge.votes.opinions import Opinion

LOOKED_AT = 300
"""Among how many of a person's newest hints likeness and contradiction are looked for."""

MOST_CONFLICTS = 5


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
    because = why_it_waits(text, source, confidence, trusted=trusted, may_accept=may_accept)
    into = None
    # A person's correction is the hint word for word, and only that person merges it.
    if source in (Hint.Source.USER, Hint.Source.SAID):
        wanted = (Hint.Status.WAITING,) if because else (Hint.Status.ACCEPTED, Hint.Status.EDITED)
        same = (hint for hint in known if hint.status in wanted and hint.source in TRUSTED)
        into = next((hint for hint in same if likeness.alike(text, hint.text)), None)
    standing: dict[str, int] = {}
    for hint in known:
        if hint.is_accepted:
            standing.setdefault(hint.text, hint.pk)
    found = likeness.conflicts(text, ((pk, words) for words, pk in standing.items()))
    return Offer(text, source, confidence, because, into, tuple(found[:MOST_CONFLICTS]))
