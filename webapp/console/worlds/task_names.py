"""Name tasks for people. A task whose id is a hash of its question goes by the question's first words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Max
from django.utils.text import Truncator

from chat.models import Turn
from webapp.console.worlds import sights

HASHED = re.compile(r"q-[0-9a-f]{16}")
"""As the world `interpreter` calls the questions of a file (environments.worlds.problems)."""

LONGEST = 60
"""Characters of a name."""


def names(tasks: Iterable[str], reader: User) -> Mapping[str, str]:
    """The names of those tasks whose ids say nothing, as far as this reader may see what was asked. Two queries; none
    where each id is a name."""
    hashed = {task for task in tasks if HASHED.fullmatch(task)}
    if not hashed:
        return {}
    groups = sights.groups(reader).filter(task__in=hashed, episodes__session__isnull=False).order_by()
    newest = [row["newest"] for row in groups.values("task").annotate(newest=Max("pk"))]
    asked = Turn.objects.filter(session__episode__group__in=newest, line=Turn.Line.MAIN, position=0)
    found: dict[str, str] = {}
    for turn in asked.select_related("session__episode__group").only(
        "messages", "learns", "session__user", "session__learns", "session__episode__group__task"
    ):
        name = question(turn.messages)
        if name and not sights.is_hidden(turn, reader):
            found[turn.session.episode.group.task] = name
    return found


def question(messages: Iterable[Mapping[str, Any]]) -> str:
    """The first words of what a person, or a world in their place, asks first; empty where nothing is asked in words.

    >>> question([{"role": "system", "content": "Solve it."}, {"role": "user", "content": "What is\\n 2 + 3?"}])
    'What is 2 + 3?'
    """
    said = next((one.get("content") for one in messages if one.get("role") == "user"), None)
    return Truncator(" ".join(said.split())).chars(LONGEST) if isinstance(said, str) else ""
