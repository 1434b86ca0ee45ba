"""Render the board in parts: the page holds them all, the socket sends those that changed."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.template.loader import render_to_string

from accounts.roles import may
from chat.models import Turn
from webapp.console import board, notice_pages
from webapp.console.review import hint_queue

NEEDS = {"notices": "notices", "batch": "training", "learning": "training", "pause": "training", "live": "checkpoints"}
"""Parts that not every reader of the board sees, and the right that each needs."""

NAMES = ("notices", "headline", "stations", "review", "batch", "learning", "pause", "live", "turns", "decisions")


def context(status: str = "") -> dict[str, Any]:
    """What every part of the board draws from; `status` narrows the list of turns."""
    whole = board.read()
    return {
        "board": whole,
        "facts": whole.facts,
        "cells": board.batch(),
        "turns": board.turns(status),
        "off_record": board.off_record(status),
        "status": status if status in Turn.Status.values else "",
        "decisions": board.decisions(),
        "hints_waiting": hint_queue.count_waiting(),
        "noticed": notice_pages.banner(names_waiting=False),
    }


def render(user: User, status: str = "") -> dict[str, str]:
    """Each part's HTML by its name, as far as this person sees it, ready to replace the one on the page."""
    shared = context(status) | {"pushed": True, "user": user}
    seen = [name for name in NAMES if may(user, NEEDS.get(name, "console"))]
    return {name: render_to_string(f"console/_{name}.html", shared) for name in seen}
