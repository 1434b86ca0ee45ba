"""Invite a person by a link: a secret that opens once, for a time, and is kept as a hash."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts import roles
from accounts.models import Invitation, Role
from core.errors import TalkbackError

DAYS = 7
"""How long an invitation is good for, unless its maker says otherwise."""
MOST_DAYS = 90


class InvitationInvalid(TalkbackError):
    """What was asked for is no invitation."""

    code, status = "invalid_invitation", 422


class InvitationClosed(TalkbackError):
    """The link was used, withdrawn, is too old, or never was one."""

    code, status = "invitation_closed", 410

    def __init__(self) -> None:
        super().__init__(_("This invitation was used or withdrawn, or is too old. Ask an administrator for another."))


def invite(role: str, *, by: User | None, note: str = "", days: int = DAYS) -> tuple[Invitation, str]:
    """A new invitation and its secret, which is known now and never again. Raises InvitationInvalid."""
    if role not in Role.values:
        known = {"role": repr(role), "roles": ", ".join(Role.values)}
        raise InvitationInvalid(_("There is no role %(role)s: it is one of %(roles)s.") % known)
    if not 1 <= days <= MOST_DAYS:
        raise InvitationInvalid(_("An invitation is good for 1 to %(days)s days.") % {"days": MOST_DAYS})
    secret = secrets.token_urlsafe(24)
    ends_at = timezone.now() + timedelta(days=days)
    row = Invitation.objects.create(
        role=role, note=note.strip()[:120], prefix=secret[:6], digest=digest(secret), made_by=by, ends_at=ends_at
    )
    return row, secret


def digest(secret: str) -> str:
    """SHA-256: enough for 192 random bits."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def open_ones() -> QuerySet[Invitation]:
    """Those that a person may still use."""
    return Invitation.objects.filter(used_at=None, ends_at__gt=timezone.now())


def find(secret: str, *, lock: bool = False) -> Invitation:
    """The invitation that this secret opens. Raises InvitationClosed."""
    rows = open_ones().select_for_update() if lock else open_ones()
    found = rows.filter(digest=digest(secret)).first()
    if found is None:
        raise InvitationClosed
    return found


@transaction.atomic
def accept(secret: str, name: str, password: str) -> User:
    """Make the account that the invitation promises, and spend it: of two that do so at once one gets it. The name and
    the password must have been checked. Raises InvitationClosed."""
    row = find(secret, lock=True)
    user = User.objects.create_user(name, password=password)
    roles.give(user, Role(row.role))
    row.used_at, row.used_by = timezone.now(), user
    row.save(update_fields=["used_at", "used_by"])
    return user


def withdraw(row: Invitation) -> None:
    """Have the link open nothing from now on."""
    Invitation.objects.filter(pk=row.pk, used_at=None).update(ends_at=timezone.now())
