"""List the console's pages in three groups, and which of them is open."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import NoReverseMatch, reverse


@dataclass(frozen=True)
class Place:
    """A page that the navigation names."""

    title: str
    view: str
    within: tuple[str, ...] = ()
    """How the names of other views begin that show this place as open."""


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
            Place("Board", "console:board"),
            Place("Runs", "console:runs", ("console:run",)),
            Place("Worlds", "worlds:home", ("worlds:",)),
            Place("Checkpoints", "console:checkpoints", ("console:checkpoint",)),
            Place("Compare", "console:compare", ("console:compar",)),
            Place("Did it help?", "console:helped"),
            Place("Lines", "console:lines", ("console:line", "console:policy")),
            Place("Datasets", "console:datasets", ("console:dataset",)),
            Place("Recipe", "console:recipe", ("console:recipe", "console:forecast")),
        ),
    ),
    (
        "Review",
        (
            Place("Hints", "console:hints", ("console:hint",)),
            Place("Rewards", "console:rewards", ("console:reward", "console:overturn")),
            Place("Reviewers", "console:reviewers", ("console:reviewer", "console:second")),
            Place("Judges", "console:judges", ("console:judge",)),
            Place("Ledger", "console:ledger"),
            Place("Preferences", "preferences:people", ("preferences:",)),
        ),
    ),
    (
        "System",
        (
            Place("Engines", "console:engines", ("console:engine",)),
            Place("Storage", "console:storage", ("console:storage",)),
            Place("Cleanings", "console:cleanings", ("console:cleaning",)),
            Place("Notices", "console:notices", ("console:notice",)),
            Place("Audit", "console:audit"),
            Place("Database", "admin:index", ("admin:",)),
            Place("Clients", "console:clients", ("console:client",)),
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
"""What those see who do not run this Talkback."""


def groups(view: str, *, is_staff: bool) -> list[Group]:
    """The navigation of the page that `view` shows, by its name with its namespace. One group is open: the page's own,
    else the first."""
    chosen = GROUPS if is_staff else (("", OWN),)
    found = [(title, tuple(tabs(places, view))) for title, places in chosen]
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
