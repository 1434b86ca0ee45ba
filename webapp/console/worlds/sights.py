"""Decide what of agents' attempts a person may see: the only door of these pages."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db.models import QuerySet

from accounts.roles import may
from chat.models import Turn
from episodes.models import Episode, Group


def episodes(user: User) -> QuerySet[Episode]:
    """Attempts that this person may see: their own, or all for those who run this Talkback."""
    return Episode.objects.all() if may(user, "worlds") else Episode.objects.visible_to(user)


def groups(user: User) -> QuerySet[Group]:
    return Group.objects.all() if may(user, "worlds") else Group.objects.visible_to(user)


def is_hidden(turn: Turn, user: User) -> bool:
    """Whether its words are another person's alone to read: off the record, and not this reader's."""
    return turn.session.user_id != user.pk and not (turn.learns and turn.session.learns)
