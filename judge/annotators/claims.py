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


class Claimed(TalkbackError):
    """Another reviewer looks at this item."""

    code, status = "claimed", 409


def take(desk: str, item: Any, by: User) -> Claim | None:
    """Let this reviewer have this item for a while, and give back what they had. Returns the other's claim where
    another has it; None where it is theirs now."""
    now = timezone.now()
    mine = {"by": by, "until": now + HOLD}
    free = Claim.objects.filter(desk=desk, item=str(item))
    if not (free.filter(by=by).update(**mine) or free.filter(until__lte=now).update(**mine)):
        try:
            with transaction.atomic():
                is_new = Claim.objects.get_or_create(desk=desk, item=str(item), defaults=mine)[1]
        except IntegrityError:  # another came first, this instant
            is_new = False
        if not is_new and (other := free.select_related("by").exclude(by=by).first()) is not None:
            return other
    Claim.objects.filter(desk=desk, by=by).exclude(item=str(item)).delete()
    return None


def of_others(desk: str, by: User) -> dict[str, Claim]:
    """What other reviewers look at now, by item."""
    rows = Claim.objects.filter(desk=desk, until__gt=timezone.now()).exclude(by=by).select_related("by")
    return {row.item: row for row in rows}


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
