"""Write the audit log: one row for each thing that a person decided, with where they were."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.db.models.signals import pre_delete
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from accounts.models import Deed, Invitation
from core.network.addresses import readable

KINDS = {
    "sign-in": _("Signing in and out"),
    "people": _("People and roles"),
    "key": _("API keys"),
    "review": _("Hints and rewards"),
    "approval": _("Checkpoints"),
    "training": _("Runs, lines and schedule"),
    "recipe": _("Recipe and policies"),
    "system": _("Engines, clients and storage"),
    "notice": _("Notices"),
    "export": _("Exports"),
    "erasure": _("Privacy and erasures"),
}
"""Sorts of decision, as the page's filter names them."""


def note(
    kind: str,
    verb: str,
    *,
    request: HttpRequest | None = None,
    by: User | AnonymousUser | None = None,
    whom: User | None = None,
    about: str = "",
    refused: bool = False,
) -> Deed:
    """Add a row. `request` says who and from where, unless `by` says who; with neither it was the command line."""
    assert kind in KINDS, kind
    who = by if by is not None else getattr(request, "user", None)
    return Deed.objects.create(
        kind=kind,
        verb=verb[:60],
        by=who if isinstance(who, User) and who.is_authenticated else None,
        whom=whom,
        about=about[:200],
        address=readable(request.META.get("REMOTE_ADDR", ""))[:64] if request is not None else "",
        outcome=Deed.Outcome.REFUSED if refused else Deed.Outcome.DONE,
    )


def forget(sender: type[User], instance: User, **kwargs: Any) -> None:
    """An account goes, by whatever door: what was decided stays, and says no more who it was or from where."""
    Deed.objects.forget(instance.pk)
    Invitation.objects.filter(used_by=instance).update(note="")


def connect() -> None:
    pre_delete.connect(forget, sender=User, dispatch_uid="accounts.deeds")
