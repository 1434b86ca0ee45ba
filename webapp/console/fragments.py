"""Render the overview and the list of turns in parts: the page holds them all, the socket sends those that changed."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.template.loader import render_to_string

from accounts.roles import may
from chat.models import Turn
from webapp.console import board, notice_pages, overview, welcome
from webapp.console.loop import newest_turns
from webapp.console.review import waiting

NEEDS = {"notices": "notices", "welcome": "training", "live": "checkpoints"}
"""Parts that not every reader of the overview sees, and the right that each needs."""

NAMES = ("notices", "welcome", "headline", "stations", "waits", "live", "decisions")


def context(user: User) -> dict[str, Any]:
    """What every part of the overview draws from, for this person."""
    whole = board.read(**waiting.rows())
    waits = waiting.ForReview(**whole.facts.also)
    return {
        "board": whole,
        "facts": whole.facts,
        "now": overview.now(whole),
        "welcome": welcome.welcome(user, whole),
        "is_news": overview.is_news(whole.facts),
        "waits": overview.waiting(whole, hints=waits.hints, unclear=waits.unclear),
        "decisions": board.decisions(),
        "noticed": notice_pages.banner(names_waiting=False),
    }


def render(user: User) -> dict[str, str]:
    """Each part's HTML by its name, as far as this person sees it, ready to replace the one on the page."""
    shared = context(user) | {"pushed": True, "user": user}
    seen = [name for name in NAMES if may(user, NEEDS.get(name, "console"))]
    return {name: render_to_string(f"console/_{name}.html", shared) for name in seen}


def turns_context(status: str = "") -> dict[str, Any]:
    """What the list of turns draws from; `status` narrows it."""
    return {
        "counts": board.count_states()[0]["turns"],
        "turns": newest_turns.turns(status),
        "off_record": newest_turns.off_record(status),
        "status": status if status in Turn.Status.values else "",
    }


def render_turns(status: str = "") -> dict[str, str]:
    """The list of turns, ready to replace the one on the page."""
    shared = turns_context(status) | {"pushed": True}
    return {"turns": render_to_string("console/_turns.html", shared)}
