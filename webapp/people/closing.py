"""Close an account, open it again, or remove it with everything of its person's."""

from __future__ import annotations

import logging
from typing import Any

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Model
from django.utils import timezone

from accounts import roles
from accounts.models import Account, Device
from core.states import moved
from privacy import erasures
from privacy.models import Erasure

log = logging.getLogger(__name__)


@transaction.atomic
def deactivate(user: User) -> None:
    """From now on this person signs in nowhere: browsers are signed out, open pages close, and their keys open nothing
    while it lasts. Raises roles.LastAdministrator."""
    roles.lock(user)
    roles.check_another(user)
    user.is_active = False
    user.save(update_fields=["is_active"])  # each open page hears of it (rights.py)
    sign_out(user)


@transaction.atomic
def activate(user: User) -> None:
    """Let this person sign in again, in the role that they had; their keys open again what they did."""
    user.is_active = True
    user.save(update_fields=["is_active"])


def sign_out(user: User, *, but: str = "") -> int:
    """End this person's sessions in all browsers, or in all but the one with this session key; how many."""
    sessions = Session.objects.filter(device__in=Device.objects.filter(user=user)).exclude(session_key=but)
    number = 0
    for session in sessions:
        session.delete()  # each by itself, so that open pages hear of it
        number += 1
    return number


def remove_factors(user: User) -> int:
    """Take away the second factors of a person who lost theirs, and end all their sessions; how many there were."""
    number: int = Authenticator.objects.filter(user=user).delete()[0]
    sign_out(user)
    return number


def remove(user: User) -> bool:
    """Remove the account with all that its person said, gave and made, and what was made of it to learn from. True: it
    is gone; False: there is much of it, and a worker goes on. Raises roles.LastAdministrator."""
    with transaction.atomic():
        deactivate(user)
        Account.objects.filter(user=user).update(leaves_at=timezone.now())
        erasure = erasures.ask(user, revokes_keys=True)
    erasures.go_on(erasure, slices=erasures.AT_ONCE)
    remove_due(user.pk)
    return not User.objects.filter(pk=user.pk).exists()  # `follow` may have been first


def remove_due(user: int | None = None) -> int:
    """Remove the accounts that are to go and have no conversation left; `user`: this one alone. How many went."""
    due = Account.objects.exclude(leaves_at=None).exclude(user__erasures__status=Erasure.Status.ASKED)
    number = 0
    for account in (due if user is None else due.filter(user=user)).select_related("user"):
        account.user.delete()
        number += 1
    return number


def follow(sender: type[Model], pk: object, status: str, **kwargs: Any) -> None:
    """The last conversation of a person who is to go went: their account follows."""
    if sender is Erasure and status == Erasure.Status.DONE:
        row = Erasure.objects.filter(pk=str(pk)).first()
        if row is not None:
            remove_due(row.user_id)


def connect() -> None:
    moved.connect(follow, dispatch_uid="closing")
