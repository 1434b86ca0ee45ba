"""Rows of a plan: write what was planned for a turn's hints, where they are still as they were."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from chat.models import Turn
from judge.hints import acceptance, decisions
from judge.hints.plans import CHANGED, Offer, Plan, is_live
from judge.models import Hint, Ruling
from judge.votes.evidence import Evidence


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
