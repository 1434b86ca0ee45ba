"""Store what a person may do, invitations, the browsers that are signed in, and what people decided."""

from __future__ import annotations

from typing import Any, NoReturn

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext as _


class Role(models.TextChoices):
    """Each role may do what those before it may."""

    TALKER = "talker"  # talks, teaches, and sees what is their own
    REVIEWER = "reviewer"  # decides on hints and rewards
    OPERATOR = "operator"  # runs the learning: recipe, checkpoints, engines
    ADMINISTRATOR = "administrator"  # says who the others are, and reads everything


RANKS = {role: rank for rank, role in enumerate(Role)}


class Account(models.Model):
    """What a person may do here. `User.is_staff` says the same more roughly: whether they have a console."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="account")
    role = models.CharField(max_length=16, choices=Role, default=Role.TALKER)
    language = models.CharField(max_length=8, blank=True)
    """The code of the language that they chose for pages (settings.LANGUAGES). Empty: as their browser asks."""
    leaves_at = models.DateTimeField(null=True, blank=True)
    """When it was decided that this person is removed: the account goes once their conversations are gone."""

    def __str__(self) -> str:
        return f"{self.user_id}: {self.role}"


class Invitation(models.Model):
    """A link by which one person makes themselves an account, once and for a time. The secret is kept as a hash."""

    role = models.CharField(max_length=16, choices=Role, default=Role.TALKER)
    note = models.CharField(max_length=120, blank=True)
    """For whom it is, in the words of who made it."""
    prefix = models.CharField(max_length=8)
    """How the secret begins, so that a list can tell invitations apart."""
    digest = models.CharField(max_length=64, unique=True)
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    """Null: the command line, or an account that is gone."""
    made_at = models.DateTimeField(default=timezone.now)
    ends_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)
    used_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ("-pk",)

    def __str__(self) -> str:
        return f"invitation {self.prefix}…"


class Device(models.Model):
    """A browser in which a person is signed in. The row goes with its session."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="devices")
    session = models.OneToOneField(Session, models.CASCADE, related_name="device")
    signed_in_at = models.DateTimeField(default=timezone.now)
    browser = models.CharField(max_length=80)
    """In words: "Firefox on Linux"."""
    address = models.CharField(max_length=64)

    class Meta:
        ordering = ("-signed_in_at",)

    def __str__(self) -> str:
        return f"{self.browser}, {self.address}"

    @property
    def name(self) -> str:
        """The browser, in the reader's language."""
        browser, _on, system = self.browser.partition(" on ")
        return _("%(browser)s on %(system)s") % {"browser": browser, "system": system} if system else _(browser)


class DeedLocked(Exception):
    """The audit log is only added to."""


class DeedQuerySet(models.QuerySet["Deed"]):
    def update(self, **values: Any) -> NoReturn:
        raise DeedLocked("A row of the audit log is never changed.")

    def delete(self) -> NoReturn:
        raise DeedLocked("A row of the audit log is never deleted.")

    def forget(self, user_pk: int) -> None:
        """Take from the log from where a person came, whose account goes; their name goes with it."""
        self.filter(by=user_pk)._write(address="")

    def _write(self, **values: Any) -> None:
        super().update(**values)


class Deed(models.Model):
    """The audit log: who did what to whom or what, when, and from where. Rows are added, and never changed."""

    class Outcome(models.TextChoices):
        DONE = "done"
        REFUSED = "refused"

    at = models.DateTimeField(default=timezone.now)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    """Null: the command line, a stranger, or an account that is gone."""
    kind = models.CharField(max_length=16)
    """The sort of decision (accounts.deeds.KINDS)."""
    verb = models.CharField(max_length=60)
    """What was done: "role changed", "run cancelled"."""
    whom = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    """The person it was done to."""
    about = models.CharField(max_length=200, blank=True)
    """The thing it was done to, and how: "checkpoint 3", "talker to reviewer". No person's name."""
    address = models.CharField(max_length=64, blank=True)
    """Empty: the command line."""
    outcome = models.CharField(max_length=8, choices=Outcome, default=Outcome.DONE)

    objects = DeedQuerySet.as_manager()

    class Meta:
        ordering = ("-at", "-pk")
        indexes = (
            models.Index(fields=("-at",), name="deeds_by_time"),
            models.Index(fields=("kind", "-at"), name="deeds_by_kind"),
        )

    def __str__(self) -> str:
        return f"{self.verb} at {self.at:%Y-%m-%d %H:%M}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise DeedLocked("A row of the audit log is never changed.")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise DeedLocked("A row of the audit log is never deleted.")
