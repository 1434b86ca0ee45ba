"""Render the board in parts: the page holds them all, the socket sends those that changed."""

from __future__ import annotations

from typing import Any

from django.template.loader import render_to_string

from chat.models import Turn
from webapp.console import board, notice_pages
from webapp.console.review import hint_queue

NAMES = ("notices", "headline", "stations", "review", "batch", "learning", "live", "turns", "decisions")


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


def render(status: str = "") -> dict[str, str]:
    """Each part's HTML by its name, ready to replace the one on the page."""
    shared = context(status) | {"pushed": True}
    return {name: render_to_string(f"console/_{name}.html", shared) for name in NAMES}
