"""What each reviewer said of an item: beside a decision, or as a second look that is told nothing of the first.

A share of the items that were decided waits for a second reviewer, drawn by the item's number. Two words that differ
are a disagreement until a person settles it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from chat.models import Turn
from core.errors import TalkbackError
from judge.annotators import agreement
from judge.annotators.agreement import Pair
from judge.hints import reviews
from judge.hints.decisions import NotPossible
from judge.models import Desk, DeskRules, Hint, Overruling, Reading, Ruling

LABELS = {Desk.HINT: ("accept", "reject", "never"), Desk.REWARD: ("1", "0", "-1", "none")}
"""What may be said of an item."""

OF_VERB = {
    Ruling.Verb.ACCEPT: "accept",
    Ruling.Verb.EDIT: "accept",
    Ruling.Verb.MERGE: "accept",
    Ruling.Verb.REJECT: "reject",
    Ruling.Verb.NEVER_LEARN: "never",
}

REWARDS = {"1": 1, "0": 0, "-1": -1, "none": None}

ON_RECORD = Q(turn__learns=True, turn__session__learns=True)
"""What a reviewer may read."""

LATEST = 500
"""Of the newest items so many are compared."""


class NoSuchLook(TalkbackError):
    """There is nothing of this kind to look at, or not any more."""

    code, status = "no_such_look", 404


def rules(desk: str) -> DeskRules:
    """How this desk is worked; not saved where nothing was set."""
    return DeskRules.objects.filter(desk=desk).select_related("changed_by").first() or DeskRules(desk=desk)


def all_rules() -> dict[Desk, DeskRules]:
    """How each desk is worked."""
    found = {row.desk: row for row in DeskRules.objects.select_related("changed_by")}
    return {desk: found.get(desk) or DeskRules(desk=desk) for desk in Desk}


def set_rules(desk: str, *, guidelines: str, share: int, by: User) -> DeskRules:
    """Say what reviewers of this desk go by, and of how many items of a hundred two read."""
    if not 0 <= share <= 100:
        raise NoSuchLook(_("Of a hundred items 0 to 100 are read twice."))
    said = {"guidelines": guidelines, "share": share, "changed_by": by, "changed_at": timezone.now()}
    return DeskRules.objects.update_or_create(desk=desk, defaults=said)[0]


def note(rulings: Iterable[Ruling], by: User) -> None:
    """Keep beside these decisions what their reviewer said, for comparing. Said anew, it replaces what they said."""
    for ruling in rulings:
        if ruling.turn_id is None:
            continue
        if ruling.verb == Ruling.Verb.OVERTURN:
            label = next(name for name, reward in REWARDS.items() if reward == ruling.after.get("reward"))
            keys: dict[str, Any] = {"desk": Desk.REWARD, "turn_id": ruling.turn_id, "hint": None}
        elif ruling.verb in OF_VERB and ruling.hint_id is not None:
            label = OF_VERB[Ruling.Verb(ruling.verb)]
            keys = {"desk": Desk.HINT, "turn_id": ruling.turn_id, "hint_id": ruling.hint_id}
        else:
            continue
        said = {"label": label, "ruling": ruling, "is_second": False, "at": timezone.now()}
        Reading.objects.update_or_create(**keys, by=by, defaults=said)


def forget(ruling: Ruling) -> None:
    """A decision was taken back, and with it what its reviewer said; of a bulk action each."""
    taken = Q(ruling=ruling)
    if ruling.bulk is not None:
        taken |= Q(ruling__bulk=ruling.bulk)
    Reading.objects.filter(taken).delete()


def is_drawn(item: Any, share: int) -> bool:
    """Whether this item is one of those that two read: settled by its number, before any person reads it.

    >>> sum(is_drawn(number, 20) for number in range(1000))
    211
    """
    digest = hashlib.sha256(f"second look {item}".encode()).digest()
    return int.from_bytes(digest[:8], "big") * 100 < share * 2**64


def waiting(desk: str, by: User, share: int) -> list[int]:
    """Numbers of first readings of others that wait for a second one, which may be this reviewer's; the oldest first.
    `share` of a hundred items are read twice."""
    if not share:
        return []
    mine = Reading.objects.filter(desk=desk, by=by).values("hint" if desk == Desk.HINT else "turn")
    rows = Reading.objects.filter(ON_RECORD, desk=desk, is_second=False, settled_at=None).exclude(by=by)
    about = "hint" if desk == Desk.HINT else "turn"
    rows = rows.exclude(**{f"{about}__in": mine})
    others = Reading.objects.filter(desk=desk).order_by().values(about).annotate(count=Count("pk"))
    rows = rows.exclude(**{f"{about}__in": others.filter(count__gt=1).values(about)})
    return [pk for pk, item in rows.order_by("pk").values_list("pk", about)[:LATEST] if is_drawn(item, share)]


@transaction.atomic
def second(desk: str, pk: int, label: str, *, by: User) -> Reading:
    """What a second reviewer says of the item of this first reading. It changes nothing. Raises NoSuchLook."""
    is_due = pk in waiting(desk, by, rules(desk).share)
    first = Reading.objects.filter(pk=pk).first() if is_due else None
    if first is None or label not in LABELS[Desk(desk)]:
        raise NoSuchLook(_("This one was looked at meanwhile. Here is the next."))
    return Reading.objects.create(
        desk=desk, turn_id=first.turn_id, hint_id=first.hint_id, by=by, label=label, is_second=True
    )


def take_back(desk: str, by: User) -> Reading | None:
    """Take back this reviewer's last second look; None where there is none."""
    last = Reading.objects.filter(desk=desk, by=by, is_second=True, settled_at=None).order_by("-pk").first()
    if last is not None:
        last.delete()
    return last


@dataclass(frozen=True)
class Item:
    """One item that two or more reviewers read."""

    turn: Turn
    hint: Hint | None
    readings: Sequence[Reading]

    @property
    def is_disagreement(self) -> bool:
        return len({one.label for one in self.readings}) > 1

    @property
    def is_settled(self) -> bool:
        return any(one.settled_at for one in self.readings)


@dataclass(frozen=True)
class Compared:
    """How far the reviewers of one desk agree."""

    items: Sequence[Item]
    pairs: Sequence[Pair]
    alpha: float | None

    @property
    def share(self) -> float | None:
        """Of the items the share on which all said the same."""
        return sum(not one.is_disagreement for one in self.items) / len(self.items) if self.items else None

    @property
    def open(self) -> list[Item]:
        """Disagreements that no person settled."""
        return [one for one in self.items if one.is_disagreement and not one.is_settled]


def compared(desk: str) -> Compared:
    """The newest items that two or more read, and how far they agree."""
    about = "hint" if desk == Desk.HINT else "turn"
    rows = Reading.objects.filter(ON_RECORD, desk=desk)
    several = rows.order_by().values(about).annotate(count=Count("pk")).filter(count__gt=1).order_by(f"-{about}")
    read = rows.filter(**{f"{about}__in": several.values(about)[:LATEST]}).select_related(
        "by", "settled_by", "turn__session__user", "hint"
    )
    items: dict[Any, list[Reading]] = {}
    for one in read.defer(*HEAVY).order_by("pk"):
        items.setdefault(getattr(one, f"{about}_id"), []).append(one)
    found = [Item(said[0].turn, said[0].hint, said) for said in items.values()]
    labels = [[(one.by_id, one.label) for one in item.readings] for item in found]
    alpha = agreement.krippendorff([[label for _, label in one] for one in labels])
    return Compared(found, agreement.pairs(labels), alpha)


HEAVY = (
    *("turn__prompt_ids", "turn__response_ids", "turn__logprobs", "turn__tools", "turn__messages"),
    "hint__teacher",
)
"""Columns as long as a conversation, which no comparison reads."""


@transaction.atomic
def settle(desk: str, pk: int, label: str, *, by: User) -> None:
    """Let `label` stand for the item of this reading, and carry it out where it is not what stands. Raises NoSuchLook,
    and what the decision itself raises."""
    reading = Reading.objects.filter(ON_RECORD, desk=desk, pk=pk).select_related("turn__session", "hint").first()
    if reading is None or label not in LABELS[Desk(desk)]:
        raise NoSuchLook(_("This disagreement is gone: its conversation was deleted, or it was settled."))
    if reading.hint is not None:
        with suppress(NotPossible):  # it stands already
            if label == "accept":
                reviews.accept(reading.hint, by=by, reason=SETTLED)
            elif label == "reject":
                reviews.reject(reading.hint, by=by, reason=SETTLED)
            else:
                reviews.never_learn(reading.turn, by=by, reason=SETTLED, hint=reading.hint)
    else:
        standing = Overruling.objects.filter(turn=reading.turn).first()
        if standing is None or standing.reward != REWARDS[label]:
            reviews.overturn(reading.turn, REWARDS[label], by=by, reason=SETTLED)
    of_item = readings_of(reading)
    of_item.update(settled_at=timezone.now(), settled_by=by)


SETTLED = gettext_noop("two reviewers disagreed, and this settles it")


def readings_of(reading: Reading) -> QuerySet[Reading]:
    """All readings of the same item."""
    rows = Reading.objects.filter(desk=reading.desk, turn=reading.turn_id)
    return rows.filter(hint=reading.hint_id) if reading.desk == Desk.HINT else rows
