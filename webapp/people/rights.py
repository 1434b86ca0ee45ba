"""Have open sockets check their rights again when a person signs out, or an account or its role changes."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models.signals import post_delete, post_save

from accounts.models import Account
from chat.sockets import sockets_of

log = logging.getLogger(__name__)


def account_changed(sender: type[User], instance: User, **kwargs: object) -> None:
    announce(instance.pk)


def role_changed(sender: type[Account], instance: Account, **kwargs: object) -> None:
    announce(instance.user_id)


def session_ended(sender: type[Session], instance: Session, **kwargs: object) -> None:
    if (user := instance.get_decoded().get(SESSION_KEY)) is not None:
        announce(user)


def announce(user_pk: Any) -> None:
    """Have every socket of this person look its rights up, once what was done is committed."""
    transaction.on_commit(partial(tell, user_pk), robust=True)


def tell(user_pk: Any) -> None:
    try:
        async_to_sync(get_channel_layer().group_send)(sockets_of(user_pk), {"type": "rights.changed"})
    except Exception as error:  # however Redis is away: each socket looks before it shows anything
        log.warning("no socket hears that the rights of user %s changed: %s", user_pk, error)


def connect() -> None:
    """Listen to Django's accounts and sessions."""
    for signal in (post_save, post_delete):
        signal.connect(account_changed, sender=User, dispatch_uid="rights")
    post_save.connect(role_changed, sender=Account, dispatch_uid="rights")
    post_delete.connect(session_ended, sender=Session, dispatch_uid="rights")
