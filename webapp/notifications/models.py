"""What people and programs are told of, how each wants to hear of it, and what became of each message."""

from __future__ import annotations

import secrets
import uuid

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class Event(models.TextChoices):
    """What an operator may want to hear of without looking."""

    CANDIDATE = "candidate", _("A candidate waits for a yes")
    ROLLED_BACK = "rolled_back", _("An earlier checkpoint answers again")
    STUCK = "stuck", _("Learning is stuck")
    DISK = "disk", _("The disk is filling up")


class Choice(models.Model):
    """How one person wants to hear of one event. Without a row: on pages and in the browser, and by no e-mail."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    event = models.CharField(max_length=20, choices=Event)
    browser = models.BooleanField(default=True)
    """In the browsers in which the person allowed notifications."""
    email = models.BooleanField(default=False)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("person", "event"), name="one_choice_an_event"),)

    def __str__(self) -> str:
        return f"{self.person} and {self.event}"


class PutAway(models.Model):
    """A part of a page that one person does not want to see any more, by its name."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    name = models.CharField(max_length=40)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("person", "name"), name="put_away_once"),)

    def __str__(self) -> str:
        return f"{self.name} of {self.person}"


def make_secret() -> str:
    return secrets.token_urlsafe(32)


class Webhook(models.Model):
    """An address to which events are posted, signed with its secret."""

    url = models.CharField(max_length=500)
    secret = models.CharField(max_length=64, default=make_secret)
    events = models.JSONField(default=list)
    """The names of the events that it wants."""
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    made_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return self.url


class Announcement(models.Model):
    """Something that happened, once."""

    event = models.CharField(max_length=20)
    """One of Event, or "test"."""
    key = models.CharField(max_length=120, unique=True)
    """By what it is known to have been announced."""
    text = models.TextField()
    path = models.CharField(max_length=200)
    """The page of the console that shows it."""
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-at", "-pk")

    def __str__(self) -> str:
        return self.text


class Delivery(models.Model):
    """One announcement on its way to one person by e-mail, or to one webhook. Its id goes with each try, so a receiver
    that has it already can leave it."""

    class Status(models.TextChoices):
        WAITING = "waiting"  # for its first or next try
        SENDING = "sending"
        SENT = "sent"
        FAILED = "failed"  # as often as is tried

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    announcement = models.ForeignKey(Announcement, models.CASCADE, related_name="deliveries")
    webhook = models.ForeignKey(Webhook, models.CASCADE, null=True, related_name="deliveries")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+")
    status = models.CharField(max_length=8, choices=Status, default=Status.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    answer = models.CharField(max_length=300, blank=True)
    """What came of the last try, as a sentence."""
    due_at = models.DateTimeField(default=timezone.now)
    """When the next try is due; of one that is being sent, when it counts as lost."""

    class Meta:
        ordering = ("-due_at",)
        constraints = (
            models.CheckConstraint(
                condition=Q(webhook=None, person__isnull=False) | Q(webhook__isnull=False, person=None),
                name="to_a_person_or_a_webhook",
            ),
            models.UniqueConstraint(fields=("announcement", "webhook"), name="told_a_webhook_once"),
            models.UniqueConstraint(fields=("announcement", "person"), name="told_a_person_once"),
        )
        indexes = (models.Index(fields=("status", "due_at"), name="delivery_due"),)

    def __str__(self) -> str:
        return f"{self.announcement.event} to {self.webhook or self.person}"


def wanted_by(user: User, way: str) -> set[str]:
    """The events that this person wants to hear of by `way`: "browser" or "email"."""
    default = getattr(Choice(), way)
    chosen = dict(Choice.objects.filter(person=user).values_list("event", way))
    return {event for event in Event.values if chosen.get(event, default)}
