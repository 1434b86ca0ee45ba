"""Texts of our own that rightly say things again, in `refrains.jsonl`: code, tables, markup, copies, songs.

A recipe with `w_again` has runs keep them (`training/refrains.py`) while they unlearn what replies say again. Nothing
of any person's conversations is in them.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from django.conf import settings

from chat import calling
from chat.rendering import Renderer
from core.textfiles import read_lines
from training.refrains import Refrain

FILE = Path(__file__).with_name("refrains.jsonl")


def known() -> tuple[Refrain, ...]:
    """All of them, as the model that is served here reads them."""
    return read(Renderer.for_model(settings.MODEL))


@cache
def read(renderer: Renderer) -> tuple[Refrain, ...]:
    """The same in a model's tokens. Where its template opens a reply with thinking, that has ended before the text."""
    opened = calling.unthought(renderer.opening)
    rows = [json.loads(line) for line in read_lines(FILE) if line]
    return tuple(
        Refrain(
            renderer.prompt_ids([{"role": "user", "content": row["prompt"]}], opened=opened),
            renderer.encode(row["reply"]),
        )
        for row in rows
    )
