"""Find the address of each page, with the rows at which it has the most to do. Import it once Django is set up.

Every route of the urlconf has one, but those that start with `LEFT_OUT` and those of the API; views that more than one
kind of row calls for have several.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Count
from django.urls import get_resolver

from chat.api_keys import ApiKey
from chat.composing.prompts import SavedPrompt
from chat.imports.import_rows import Import as ChatImport
from chat.listing.folders import Folder
from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from episodes.models import Episode, Group
from evaluation.models import Comparison, Export, Import
from judge.models import Hint, Judgement, Reading
from training.models import Run

LEFT_OUT = ("v1/", "console/raw/", "logout/", "sign-up/", "account/two-factor/passkeys/", "healthz", "readyz")
"""Programs' own; the database's own pages, which are Django's; what signs out; what is off unless a setting says
otherwise; what a browser's security key must answer; what says how the processes are."""

NO_ROW = (
    "enter/", "join/", "reset/", "oidc/", "words/", "turns/<uuid:pk>/files/", "turns/<uuid:pk>/pictures/",
    "chats/<uuid:pk>/export.",
    "console/exports/<row:pk>/<str:name>", "console/runs/<row:pk>/tensorboard",
    "console/checkpoints/<row:number>/adapter.zip",
)  # fmt: skip
"""Links with secrets of their own, and files."""

DEEDS = ("undo/", "settle/")
"""What is only posted to, of rows that are not there before something was done."""

CALLED_FOR = {
    "chat:search": ("?q=the", "?q=the+wa", "?q=zzzz"),
    "chat:more-own": ("?after=", ""),
    "console:turns": ("?status=judged",),
    "console:overlay": ("?{runs}",),
    "console:overlay_figures": ("?{runs}",),
    "console:datasets": ("?preview=1&kind=sft&shape=prompt&format=jsonl&state=any",),
    "console:checkpoint_lineage": ("?of=all",),
    "console:audit": ("?kind=people",),
    "people:list": ("?q=person",),
    "worlds:attempts": ("?world=till&ending=failed",),
    "worlds:groups": ("?state=short",),
    "worlds:tasks": ("?world=till",),
    "console:judge": ("?name=adapter&version=trained-1",),
}
"""Other forms of a page, by its route: what follows the path."""


WITH_QUERY = ("console:judge",)
"""There is no page of these without what follows the path."""


class Rows:
    """The rows that pages of this person are about: each the one of its kind that has the most to it."""

    def __init__(self, user: User) -> None:
        self.user = user
        own = Session.objects.visible_to(user).filter(episode=None)
        self.chat = own.annotate(n=Count("turns")).order_by("-n").first()
        turns = Turn.objects.filter(session=self.chat, line="main", finish_reason="stop").order_by("position")
        self.turn = turns[turns.count() // 2]
        self.runs = Run.objects.filter(status="finished").annotate(n=Count("samples")).order_by("-n", "-pk")
        self.ways: dict[str, Callable[[], Any]] = {
            "chats/import/": lambda: ChatImport.objects.values_list("pk", flat=True).first(),
            "chats/folders/": lambda: _most(Folder.objects.filter(user=user), "sessions"),
            "chats/": lambda: self.chat.pk,
            "turns/": lambda: self.turn.pk,
            "prompts/": lambda: SavedPrompt.objects.filter(user=user).values_list("pk", flat=True).first(),
            "privacy/keys/": lambda: _first(ApiKey.objects.filter(user=user)),
            "connect/": lambda: _first(ApiKey.objects.filter(user=user, revoked_at=None)),
            "console/people/": lambda: self.user.pk,
            "console/preferences/": lambda: self.user.pk,
            "console/turns/": lambda: _first(
                Judgement.objects.filter(sample__status="trained").exclude(hint=""), "turn"
            ),
            "console/rewards/": lambda: _first(Judgement.objects.filter(reason_code="unclear"), "turn"),
            "console/hints/": lambda: _first(Hint.objects.filter(status="waiting")),
            "console/runs/": lambda: _first(self.runs),
            "console/checkpoints/": lambda: _first(Checkpoint.objects.filter(status="passed"), "number"),
            "console/compare/": lambda: _first(Comparison.objects.all()),
            "console/clients/": lambda: "openclaw",
            "console/recipe/": lambda: "embedded",
            "console/policy/": lambda: "shared",
            "console/reviewers/": lambda: "hint",
            "console/second-looks/<str:desk>/<row:pk>/": lambda: _first(
                Reading.objects.filter(is_second=False, desk="hint"), "hint"
            ),
            "console/second-looks/": lambda: "hint",
            "console/datasets/imports/": lambda: _first(Import.objects.all()),
            "console/exports/": lambda: _first(Export.objects.all()),
            "worlds/groups/": lambda: _most(Group.objects.filter(user=user), "episodes"),
            "worlds/episodes/": lambda: _first(Episode.objects.filter(group__user=user, ending="failed")),
        }

    def fill(self, path: str) -> str | None:
        """The address of this route; None where no row of this person's fills it."""
        for beginning in sorted(self.ways, key=len, reverse=True):
            if path.startswith(beginning):
                found = self.ways[beginning]()
                filled = re.sub(r"<str:desk>", "hint", path)
                return None if found is None else "/" + re.sub(r"<(?:\w+:)?\w+>", str(found), filled)
        return None


def _first(rows: Any, column: str = "pk") -> Any:
    return rows.values_list(column, flat=True).first()


def _most(rows: Any, what: str) -> Any:
    return rows.annotate(n=Count(what)).order_by("-n").values_list("pk", flat=True).first()


def routes(resolver: Any = None, space: tuple[str, ...] = (), before: str = "") -> Iterator[tuple[str, str]]:
    """Each route's name with its namespace, and its path."""
    for one in (resolver or get_resolver()).url_patterns:
        path = before + str(one.pattern)
        if hasattr(one, "url_patterns"):
            yield from routes(one, (*space, one.namespace) if one.namespace else space, path)
        else:
            yield ":".join((*space, one.name or "")), path


def addresses(user: User) -> dict[str, str]:
    """What to ask for as this person, by the name of the route, with what else it was asked for."""
    rows, found = Rows(user), {}
    runs = "&".join(f"runs={pk}" for pk in rows.runs.values_list("pk", flat=True)[:3])
    for name, path in routes():
        if path.startswith((*LEFT_OUT, *NO_ROW)) or any(f"/{deed}<" in path for deed in DEEDS):
            continue
        filled = f"/{path}" if "<" not in path else rows.fill(path)
        if filled is None:
            continue
        if name not in WITH_QUERY:
            found[name] = filled
        for more in CALLED_FOR.get(name, ()):
            query = more.replace("{runs}", runs)
            found[f"{name} {more}"] = filled + query
    found["chat:session, an earlier turn"] = f"/chats/{rows.chat.pk}/?at={rows.turn.pk}"
    live = Checkpoint.objects.filter(status="retired").order_by("-number").values_list("number", flat=True).first()
    found["console:checkpoint, one that answered"] = f"/console/checkpoints/{live}/"
    return found
