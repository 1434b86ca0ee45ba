"""Show the agents' part of an exam on the checkpoint's page: what is awaited, and both side by side with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.utils.translation import gettext as _

from checkpoints.models import Checkpoint
from core.statistics import Interval
from episodes.models import Exam
from gate import agent_pairs, agent_part
from gate.agent_pairs import Compared, Played
from gate.models import Examination

SHOWN = 12
"""Tasks that are listed: those that the candidate lost most on."""


@dataclass(frozen=True)
class Figure:
    """One row of the table, in words."""

    title: str
    live: str
    candidate: str
    change: str


@dataclass(frozen=True)
class Task:
    """One task, and where each of the two played it."""

    name: str
    pairs: int
    live: int
    candidate: int
    groups: tuple[int | None, int | None]
    """Numbers of live's group and the candidate's."""


@dataclass(frozen=True)
class World:
    """What was played in one world of one person."""

    played: Played
    who: str
    is_own: bool
    """Whether it is the looking person's own: only they may open the groups."""
    figures: Sequence[Figure]
    tasks: Sequence[Task]
    more: int
    """Tasks that are not listed."""


@dataclass(frozen=True)
class Awaited:
    """What is still to be played."""

    exam: Exam
    ended: int
    wanted: int
    command: str


def panel(checkpoint: Checkpoint, user: User) -> Mapping[str, Any] | None:
    """What was played; None where no agents were asked."""
    exam: Examination | None = getattr(checkpoint, "examination", None)
    if exam is None or not exam.agents:
        return None
    every = [Played.read(row) for row in exam.agents]
    names = dict(get_user_model().objects.filter(pk__in=[one.person for one in every]).values_list("pk", "username"))
    worlds = [
        _world(one, len(every), names.get(one.person, _("a person who left")), is_own=one.person == user.pk)
        for one in every
    ]
    return {"exam": exam, "checkpoint": checkpoint, "worlds": worlds}


def awaited(checkpoint: Checkpoint, user: User) -> Mapping[str, Any] | None:
    """What agents are asked to play with this candidate; None where nothing is."""
    if not getattr(checkpoint, "awaits_agents", True):
        return None
    asked = Exam.objects.filter(candidate=checkpoint, ended_at=None).select_related("candidate", "live", "user")
    found = [Awaited(one, *agent_part.count_played([one]), agent_part.command(one)) for one in asked.order_by("pk")]
    return {"awaited": found} if found else None


def _world(played: Played, worlds: int, who: str, *, is_own: bool) -> World:
    found = agent_pairs.outcome(played.pairs, worlds)
    if found is None:
        return World(played, who, is_own, (), (), 0)
    live, candidate = (f"{tokens:.0f}" if tokens is not None else _("none solved") for tokens in found.tokens)
    figures = [
        _figure(_("Attempts solved"), found.solved, ".0%"),
        _figure(_("Attempts cut off"), found.cut, ".0%"),
        _figure(_("Replies without a valid call"), found.invalid, ".0%"),
        _figure(_("Replies an attempt"), found.steps, ".1f"),
        Figure(_("Tokens for each solved attempt"), live, candidate, ""),
    ]
    tasks = [
        Task(task.name, task.pairs, task.live, task.candidate, played.groups.get(task.name, (None, None)))
        for task in found.tasks
    ]
    return World(played, who, is_own, figures, tasks[:SHOWN], len(tasks[SHOWN:]))


def _figure(title: str, compared: Compared, form: str) -> Figure:
    return Figure(title, _say(compared.live, form), _say(compared.candidate, form), _say(compared.change, f"+{form}"))


def _say(interval: Interval, form: str) -> str:
    """ "45% (38% to 52%)", with a minus sign as pages have it."""
    mean, low, high = (format(value, form) for value in (interval.mean, interval.low, interval.high))
    said = _("%(mean)s (%(low)s to %(high)s)") % {"mean": mean, "low": low, "high": high}
    return said.replace("-", "−")
