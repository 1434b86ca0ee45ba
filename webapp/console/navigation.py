"""List the console's pages in three groups, and which of them is open."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import AnonymousUser, User
from django.urls import NoReverseMatch, reverse

from accounts.roles import may


@dataclass(frozen=True)
class Place:
    """A page that the navigation names."""

    title: str
    view: str
    within: tuple[str, ...] = ()
    """How the names of other views begin that show this place as open."""
    needs: str = "talk"
    """The right without which a person does not see it (accounts/roles.py)."""


@dataclass(frozen=True)
class Tab:
    title: str
    url: str
    is_open: bool


@dataclass(frozen=True)
class Group:
    title: str
    tabs: tuple[Tab, ...]
    is_open: bool


GROUPS: tuple[tuple[str, tuple[Place, ...]], ...] = (
    (
        "Training",
        (
            Place("Board", "console:board", needs="console"),
            Place("Runs", "console:runs", ("console:run",), needs="training"),
            Place("Worlds", "worlds:home", ("worlds:",), needs="worlds"),
            Place("Checkpoints", "console:checkpoints", ("console:checkpoint",), needs="checkpoints"),
            Place("Compare", "console:compare", ("console:compar",), needs="review"),
            Place("Did it help?", "console:helped", needs="review"),
            Place("Lines", "console:lines", ("console:line", "console:policy"), needs="training"),
            Place("Recipe", "console:recipe", ("console:recipe", "console:forecast"), needs="training"),
        ),
    ),
    (
        "Review",
        (
            Place("Hints", "console:hints", ("console:hint",), needs="review"),
            Place("Rewards", "console:rewards", ("console:reward", "console:overturn"), needs="review"),
            Place("Judges", "console:judges", ("console:judge",), needs="review"),
            Place("Ledger", "console:ledger", needs="review"),
            Place("Preferences", "preferences:people", ("preferences:",), needs="review"),
        ),
    ),
    (
        "System",
        (
            Place("Engines", "console:engines", ("console:engine",), needs="engines"),
            Place("Storage", "console:storage", ("console:storage",), needs="checkpoints"),
            Place("Cleanings", "console:cleanings", ("console:cleaning",), needs="checkpoints"),
            Place("Notices", "console:notices", ("console:notice",), needs="notices"),
            Place("People", "people:list", ("people:",), needs="people"),
            Place("Audit", "console:audit", needs="audit"),
            Place("Database", "admin:index", ("admin:",), needs="database"),
            Place("Clients", "console:clients", ("console:client",), needs="clients"),
            Place("Connect", "connect:home", ("connect:key", "connect:new")),
            Place("Keys", "connect:keys"),
        ),
    ),
)
"""A page that this installation does not have is left out."""

OWN = (
    Place("Preferences", "preferences:own", ("preferences:",)),
    Place("Worlds", "worlds:home", ("worlds:",)),
    Place("Connect", "connect:home", ("connect:key", "connect:new")),
    Place("Keys", "connect:keys"),
)
"""What talkers see."""


def groups(view: str, user: User | AnonymousUser) -> list[Group]:
    """The navigation of the page that `view` shows, by its name with its namespace. One group is open: the page's own,
    else the first."""
    chosen = GROUPS if may(user, "console") else (("", OWN),)
    allowed = [(title, tuple(place for place in places if may(user, place.needs))) for title, places in chosen]
    found = [(title, tuple(tabs(places, view))) for title, places in allowed if places]
    at = next((n for n, (_, shown) in enumerate(found) if any(tab.is_open for tab in shown)), 0)
    return [Group(title, shown, n == at) for n, (title, shown) in enumerate(found)]


def tabs(places: tuple[Place, ...], view: str) -> list[Tab]:
    """At most one is open: the one whose view this is, else the one whose views begin like it."""
    names = [place.view for place in places]
    found = []
    for place in places:
        is_open = view == place.view or (view not in names and view.startswith(place.within or ("\0",)))
        try:
            found.append(Tab(place.title, reverse(place.view), is_open))
        except NoReverseMatch:
            continue
    return found
