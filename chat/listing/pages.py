"""Find a person's chats, a page at a time, in dated groups."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Count, Q, QuerySet
from django.http import Http404
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from chat.listing.folders import Folder
from chat.models import Session

LISTED = 50
"""How many chats a list shows at once; the others are asked for."""

PINNED = 50
"""How many pinned chats stand above the others: what was pinned before them stands in its dated group."""


@dataclass(frozen=True)
class Group:
    """Chats of one stretch of time."""

    kind: str
    """pinned | today | yesterday | week | month"""
    month: date | None = None
    """Of kind month: its first day."""
    rows: Sequence[Session] = ()
    is_continued: bool = False
    """Its heading stands on the page before."""


@dataclass(frozen=True)
class Listed:
    """One page of a list of chats."""

    groups: list[Group] = field(default_factory=list)
    more: str = ""
    """Where the rest of it is; empty at its end."""

    @property
    def rows(self) -> list[Session]:
        return [row for group in self.groups for row in group.rows]


def group_by_date(rows: Iterable[Session], today: date, after: datetime | None = None) -> list[Group]:
    """These chats, the newest first, by the day on which they were last active. `after`: when the last chat of the page
    before was."""
    groups: list[tuple[tuple[str, date | None], list[Session]]] = []
    for row in rows:
        place = _place(row.active_at, today)
        if not groups or groups[-1][0] != place:
            groups.append((place, []))
        groups[-1][1].append(row)
    before = _place(after, today) if after is not None else None
    return [Group(*place, members, is_continued=place == before) for place, members in groups]


def _place(at: datetime, today: date) -> tuple[str, date | None]:
    day = timezone.localdate(at)
    if day >= today:
        return "today", None
    if day == today - timedelta(days=1):
        return "yesterday", None
    if day >= today - timedelta(days=7):
        return "week", None
    return "month", day.replace(day=1)


@dataclass(frozen=True)
class Scope:
    """Which chats a list shows."""

    kind: str
    """own | api | folder | archive"""
    folder: Folder | None = None

    def rows(self, user: User | AnonymousUser) -> QuerySet[Session]:
        """Without an agent's attempts, of which there may be thousands: those are read by their address alone."""
        rows = Session.objects.visible_to(user).order_by("-active_at", "-pk")
        if self.kind == "archive":
            return rows.exclude(archived_at=None).filter(episode=None)
        rows = rows.filter(archived_at=None)
        if self.kind == "folder":
            return rows.filter(folder=self.folder)
        if self.kind == "api":
            return rows.filter(episode=None, folder=None).exclude(key=None).select_related("key")
        return rows.filter(key=None, folder=None)

    def more(self, after: str) -> str:
        """Where the chats after this place are."""
        query = urlencode({"after": after})
        if self.folder is not None:
            return f"{reverse('chat:folder', args=[self.folder.pk])}?{query}"
        name = {"own": "chat:more-own", "api": "chat:more-api", "archive": "chat:archive"}[self.kind]
        return f"{reverse(name)}?{query}"


OWN, API, ARCHIVE = Scope("own"), Scope("api"), Scope("archive")


def list_chats(user: User | AnonymousUser, scope: Scope, after: str = "") -> Listed:
    """A person's chats of this scope, the newest first, after a place in that order. On the first page of their own
    the pinned ones stand above. Raises Http404 for what is no place."""
    rows, at = scope.rows(user), None
    if scope.kind == "own":
        rows = rows.exclude(pk__in=pinned_first(rows).values("pk"))
    if after:
        at, pk = read_place(after)
        rows = rows.filter(Q(active_at__lt=at) | Q(active_at=at, pk__lt=pk))
        return group(scope, list(rows[: LISTED + 1]), at)
    if scope.kind == "own":
        return own_and_api(user)[0]
    return group(scope, list(rows[: LISTED + 1]))


def own_and_api(user: User | AnonymousUser) -> tuple[Listed, Listed]:
    """The first page of a person's own chats, the pinned ones above, and of those that came through keys. One query."""
    own, api = OWN.rows(user), API.rows(user)
    pinned = pinned_first(own).values("pk")
    first = own.exclude(pk__in=pinned).values("pk")[: LISTED + 1]
    found = Session.objects.filter(
        Q(pk__in=pinned) | Q(pk__in=first) | Q(pk__in=api.values("pk")[: LISTED + 1])
    ).select_related("key")
    of_keys: list[Session] = []
    rows: list[Session] = []
    for one in found.order_by("-active_at", "-pk"):
        (of_keys if one.key_id else rows).append(one)
    pinned_rows = [one for one in rows if one.pinned_at]
    above = sorted(pinned_rows, key=lambda one: (one.pinned_at, one.pk), reverse=True)[:PINNED]
    taken = {one.pk for one in above}
    return (
        group(OWN, [one for one in rows if one.pk not in taken], pinned=above),
        group(API, of_keys),
    )


def pinned_first(rows: QuerySet[Session]) -> QuerySet[Session]:
    """Of these chats those that stand above the others."""
    return rows.exclude(pinned_at=None).order_by("-pinned_at", "-pk")[:PINNED]


def group(scope: Scope, found: list[Session], at: datetime | None = None, pinned: Sequence[Session] = ()) -> Listed:
    """A page of these chats of a scope, of which there may be one more than a page shows."""
    groups = group_by_date(found[:LISTED], timezone.localdate(), at)
    if pinned:
        groups.insert(0, Group("pinned", rows=pinned))
    last = found[LISTED - 1] if len(found) > LISTED else None
    return Listed(groups, scope.more(f"{last.active_at.isoformat()}~{last.pk}") if last is not None else "")


def read_place(after: str) -> tuple[datetime, uuid.UUID]:
    """A place in a list, as `Scope.more` writes it. Raises Http404."""
    moment, _, pk = after.rpartition("~")
    try:
        at, number = parse_datetime(moment), uuid.UUID(pk)
    except ValueError as error:
        raise Http404 from error
    if at is None or timezone.is_naive(at):
        raise Http404
    return at, number


def list_folders(user: User | AnonymousUser) -> QuerySet[Folder]:
    """A person's folders, each with how many chats it holds: `chats`."""
    counted = Count("sessions", filter=Q(sessions__deleted_at=None, sessions__archived_at=None))
    return Folder.objects.visible_to(user).annotate(chats=counted)


def side_list(user: User | AnonymousUser) -> dict[str, Any]:
    """What the list beside a chat shows."""
    own, api = own_and_api(user)
    return {"own": own, "api": api, "folders": list_folders(user)}
