"""Claims share the desk out: what one reviewer looks at, no other decides on, for a while."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from core.errors import TalkbackError
from judge.models import Claim

HOLD = timedelta(minutes=5)
"""How long an item is one reviewer's; looking at it again begins anew."""


RENEW = timedelta(seconds=30)
"""What was taken so lately is not taken anew: a page that is drawn twice writes once."""


class Claimed(TalkbackError):
    """Another reviewer looks at this item."""

    code, status = "claimed", 409


def take(desk: str, item: Any, by: User, found: Iterable[Claim] | None = None) -> Claim | None:
    """Let this reviewer have this item for a while, and give back what they had. Returns the other's claim where
    another has it; None where it is theirs now. With `found`, what `of_desk` gave a moment ago, what stands already is
    not written again."""
    now = timezone.now()
    mine = {"by": by, "until": now + HOLD}
    own = [row for row in found if row.by_id == by.pk] if found is not None else None
    if own is not None and [row.item for row in own] == [str(item)] and own[0].until > now + HOLD - RENEW:
        return None
    free = Claim.objects.filter(desk=desk, item=str(item))
    if not (free.filter(by=by).update(**mine) or free.filter(until__lte=now).update(**mine)):
        try:
            with transaction.atomic():
                is_new = Claim.objects.get_or_create(desk=desk, item=str(item), defaults=mine)[1]
        except IntegrityError:  # another came first, this instant
            is_new = False
        if not is_new and (other := free.select_related("by").exclude(by=by).first()) is not None:
            return other
    if own is None or any(row.item != str(item) for row in own):
        Claim.objects.filter(desk=desk, by=by).exclude(item=str(item)).delete()
    return None


def of_desk(desk: str) -> list[Claim]:
    """What reviewers have at this desk, what they had longest ago and did not give back included."""
    return list(Claim.objects.filter(desk=desk).select_related("by"))


def of_others(desk: str, by: User, found: Iterable[Claim] | None = None) -> dict[str, Claim]:
    """What other reviewers look at now, by item; of what `of_desk` found, where it was asked already."""
    now = timezone.now()
    rows = of_desk(desk) if found is None else found
    return {row.item: row for row in rows if row.until > now and row.by_id != by.pk}


def check(desk: str, items: Collection[Any], by: User) -> None:
    """Raises Claimed, with who it is and until when, where another reviewer looks at one of these."""
    others = of_others(desk, by)
    for item in items:
        if (claim := others.get(str(item))) is not None:
            raise Claimed(sentence(claim))


def sentence(claim: Claim) -> str:
    """Who has it, and what to do now."""
    until = timezone.localtime(claim.until)
    return _("%(who)s is looking at this until %(time)s. Take another one, or come back then.") % {
        "who": claim.by,
        "time": f"{until:%H:%M}",
    }


def release(desk: str, items: Iterable[Any]) -> None:
    """These are decided: they are no reviewer's any more."""
    Claim.objects.filter(desk=desk, item__in=[str(item) for item in items]).delete()
