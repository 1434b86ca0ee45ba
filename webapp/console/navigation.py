"""List the console's pages in six entries, each person's own pages, and which of them is open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.contrib.auth.models import AnonymousUser, User
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext_lazy as _

from accounts.roles import may

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


@dataclass(frozen=True)
class Place:
    """A page that the navigation names."""

    title: StrOrPromise
    view: str
    within: tuple[str, ...] = ()
    """How the names of other views begin that show this place as open."""
    needs: str = "talk"
    """The right without which a person does not see it (accounts/roles.py)."""
    term: str = ""
    """The word of the glossary that the page is about."""


@dataclass(frozen=True)
class Tab:
    title: StrOrPromise
    url: str
    is_open: bool


@dataclass(frozen=True)
class Entry:
    """One entry of the rail, with the pages that it opens."""

    title: StrOrPromise
    icon: str
    """The name of a drawing in templates/console/_rail_icons.html."""
    tabs: tuple[Tab, ...]

    @property
    def is_open(self) -> bool:
        return any(tab.is_open for tab in self.tabs)


ENTRIES: tuple[tuple[StrOrPromise, str, tuple[Place, ...]], ...] = (
    (_("Overview"), "overview", (Place(_("Overview"), "console:board", needs="console"),)),
    (
        _("Review"),
        "review",
        (
            Place(_("Hints"), "console:hints", ("console:hint",), term="hint", needs="review"),
            Place(
                _("Unclear replies"),
                "console:rewards",
                ("console:reward", "console:overturn"),
                term="reward",
                needs="review",
            ),
            Place(_("Latest replies"), "console:turns", ("console:turn",), term="turn", needs="console"),
            Place(_("Why replies taught, or not"), "console:ledger", term="ledger", needs="review"),
            Place(_("Reviewers"), "console:reviewers", ("console:reviewer", "console:second"), needs="review"),
            Place(_("What people ask for"), "preferences:people", ("preferences:of",), term="wish", needs="review"),
        ),
    ),
    (
        _("Training"),
        "training",
        (
            Place(_("Runs"), "console:runs", ("console:run", "console:overlay"), term="run", needs="training"),
            Place(_("Recipe"), "console:recipe", ("console:recipe",), term="recipe", needs="training"),
            Place(_("Schedule"), "console:schedule", needs="training"),
            Place(_("Next training"), "console:forecast", term="lesson", needs="training"),
            Place(_("Datasets"), "console:datasets", ("console:dataset", "console:export"), needs="training"),
            Place(_("Worlds"), "worlds:home", ("worlds:",), needs="worlds"),
        ),
    ),
    (
        _("Checkpoints"),
        "checkpoints",
        (
            Place(
                _("All checkpoints"),
                "console:checkpoints",
                ("console:checkpoint",),
                term="checkpoint",
                needs="checkpoints",
            ),
            Place(_("Family tree"), "console:checkpoint_tree", needs="checkpoints"),
            Place(_("Compare"), "console:compare", ("console:compar",), term="blind comparison", needs="review"),
            Place(_("Did it help?"), "console:helped", term="shadow", needs="review"),
            Place(_("Storage"), "console:storage", ("console:storage",), term="pin", needs="checkpoints"),
            Place(_("Unlearning"), "console:cleanings", ("console:cleaning",), term="clean line", needs="checkpoints"),
        ),
    ),
    (
        _("People"),
        "people",
        (
            Place(_("Accounts"), "people:list", ("people:",), needs="people"),
            Place(_("Consent"), "consent:home", needs="consent"),
            Place(_("Teams"), "console:lines", ("console:line", "console:policy"), term="line", needs="training"),
            Place(_("Keys"), "connect:keys"),
        ),
    ),
    (
        _("System"),
        "system",
        (
            Place(_("Health"), "console:health", needs="engines"),
            Place(_("Engines"), "console:engines", ("console:engine",), term="engine", needs="engines"),
            Place(_("Judges"), "console:judges", ("console:judge",), term="judge", needs="review"),
            Place(_("Clients"), "console:clients", ("console:client",), term="client", needs="clients"),
            Place(_("Tools"), "console:tools", needs="engines"),
            Place(_("Connect"), "connect:home", ("connect:key", "connect:new")),
            Place(_("Notices"), "console:notices", ("console:notice",), term="notice", needs="notices"),
            Place(_("Webhooks"), "console:webhooks", needs="notices"),
            Place(_("Settings"), "console:settings", needs="engines"),
            Place(_("Audit"), "console:audit", needs="audit"),
            Place(_("Database"), "admin:index", ("admin:",), needs="database"),
        ),
    ),
)
"""A page that this installation does not have is left out."""

OWN = (
    Place(_("Settings"), "settings:home", ("settings:",)),
    Place(_("Account"), "account:home", ("account:", "mfa_")),
    Place(_("What I’ve taught"), "preferences:own"),
    Place(_("Did it help?"), "helped:home", ("helped:",)),
    Place(_("Privacy"), "privacy:home", ("privacy:",)),
    Place(_("Keys"), "connect:keys"),
    Place(_("Connect"), "connect:home", ("connect:key", "connect:new")),
    Place(_("Worlds"), "worlds:home", ("worlds:",)),
    Place(_("Glossary"), "help:glossary"),
)
"""Each person's own pages, in the menu of every page."""


def rail(view: str, user: User | AnonymousUser) -> list[Entry]:
    """The console's entries for this person on the page that `view` shows, by its name with its namespace."""
    names = {place.view for _title, _icon, places in ENTRIES for place in places}
    seen = [
        (title, icon, tuple(place for place in places if may(user, place.needs))) for title, icon, places in ENTRIES
    ]
    entries = [Entry(title, icon, tuple(tabs(places, view, names))) for title, icon, places in seen]
    return [entry for entry in entries if entry.tabs]


def own(view: str) -> list[Tab]:
    """A person's own pages on the page that `view` shows."""
    return tabs(OWN, view, {place.view for place in OWN})


def term_of(view: str) -> str:
    """The word of the glossary that the page of this view is about; empty where there is none."""
    return next((place.term for _title, _icon, places in ENTRIES for place in places if place.view == view), "")


def tabs(places: tuple[Place, ...], view: str, names: set[str]) -> list[Tab]:
    """At most one is open: the one whose view this is, else, where none of `names` is it, the one whose views begin
    like it."""
    found = []
    for place in places:
        is_open = view == place.view or (view not in names and view.startswith(place.within or ("\0",)))
        try:
            found.append(Tab(place.title, reverse(place.view), is_open))
        except NoReverseMatch:
            continue
    return found
