"""Show worlds, their tasks, their groups and their attempts: what was played, and what came of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from accounts.roles import may
from checkpoints.models import Line
from core.errors import TalkbackError
from episodes.models import Episode, Group
from judge import steps_worth
from training import batches, line_recipes
from training.batches import Filling
from training.config import RecipeInvalid
from training.models import Run
from webapp.console.doors import for_signed_in, person
from webapp.console.review.desk import is_fragment
from webapp.console.worlds import attempts, endings, sights, standings, success, task_names
from webapp.console.worlds.attempts import PAGE, Chosen

FAILURES = 8
"""How many of the latest attempts that were lost the first page shows."""

VOIDS, VOIDS_OF_WORLD = 24, 3
"""Of how many of the latest unscorable attempts the reasons are looked at, and how many of one world are shown."""

AFTER = ("after", "after_world", "after_split")
"""By what an address names the task that a page ended with."""

ALARMING = 5
"""Of how many of the newest runs with agents' groups alarms are shown."""


@for_signed_in
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """Every world: success by checkpoint, what does not count, and what failed lately."""
    user = person(request)
    groups = standings.told(sights.groups(user))
    found = success.worlds(groups)
    lost, failed_alike = _tell_more(found, user) if found else ([], [])
    shown = [*lost, *(row for row, _ in failed_alike), *(row for world in found for row in world.unscorable)]
    filling, fault = _next_training(Line.row_of(user))
    context = {
        "worlds": found,
        "lost": lost,
        "failed_alike": failed_alike,
        "names": task_names.names((row.episode.group.task for row in shown), user),
        "filling": filling,
        "fault": fault,
        "waiting": sum(group.waits for group in groups),
        "alarms": _alarms() if may(user, "worlds") else [],
        "url": request.build_absolute_uri("/").rstrip("/"),
    }
    return render(request, "worlds/worlds.html", context)


def _judging(world: str) -> str:
    """What judges' votes on steps count in this world, as a sentence."""
    try:
        return steps_worth.of(world).sentence
    except TalkbackError as failure:  # of judges that cannot be used
        return str(failure)


def _tell_more(
    worlds: Sequence[success.World], user: User
) -> tuple[list[attempts.Row], list[tuple[attempts.Row, list[str]]]]:
    """Have each world know why its latest unscorable attempts are, each reason once. The attempts that were lost last,
    and what no world says by itself: the newest attempt of each reason that several share, with their names."""
    episodes = sights.episodes(user)
    lost, void = attempts.latest(episodes, (endings.LOST, FAILURES), (Episode.UNSCORED, VOIDS))
    rows = attempts.rows_of([*lost, *void], user)
    unscorable = rows[len(lost) :]
    for world in worlds:
        world.judging = _judging(world.name)
        newest: dict[str, attempts.Row] = {}
        for row in unscorable:
            if row.episode.group.world == world.name:
                newest.setdefault(row.why, row)
        world.unscorable = list(newest.values())
    alike = _failed_alike(worlds)
    said = {row.why for row, _ in alike}
    for world in worlds:
        world.unscorable = [row for row in world.unscorable if row.why not in said][:VOIDS_OF_WORLD]
    return rows[: len(lost)], alike


def _failed_alike(worlds: Sequence[success.World]) -> list[tuple[attempts.Row, list[str]]]:
    """Each reason that attempts of several worlds were unscorable for: its newest attempt, and these worlds."""
    by_reason: dict[str, list[attempts.Row]] = defaultdict(list)
    for world in worlds:
        for row in world.unscorable:
            if row.episode.ending == Episode.Ending.INFRA_ERROR and row.episode.reason:
                by_reason[row.why].append(row)
    return [
        (max(rows, key=lambda row: row.episode.created_at), [row.episode.group.world for row in rows])
        for rows in by_reason.values()
        if len(rows) > 1
    ]


@for_signed_in
@require_GET
def listed(request: HttpRequest) -> HttpResponse:
    """Attempts, the newest first, a page at a time."""
    chosen, user = Chosen.of(request.GET), person(request)
    episodes = sights.episodes(user)
    rows, more = attempts.newest(chosen.narrowed(episodes), user, before=request.GET.get("before", ""))
    tasks_shown = {chosen.task, *(row.episode.group.task for row in rows)}
    context: dict[str, Any] = {
        "rows": rows,
        "names": task_names.names(tasks_shown, user),
        "more": more,
        "chosen": chosen,
        "narrow": _with_more(chosen.query),
    }
    if is_fragment(request) and request.GET.get("before"):
        return render(request, "worlds/_attempt_rows.html", context)
    of_task = chosen.narrowed(episodes) if chosen.task else None
    context |= {
        "worlds": sights.groups(user).order_by("world").values_list("world", flat=True).distinct(),
        "checkpoints": sights.groups(user)
        .order_by("-checkpoint__number")
        .values_list("checkpoint__number", flat=True)
        .distinct()[:200],
        "splits": success.SPLITS.items(),
        "endings": attempts.CHOICES.items(),
        "by_checkpoint": success.by_checkpoint(of_task) if of_task is not None else [],
    }
    return render(request, "worlds/attempts.html", context)


@for_signed_in
@require_GET
def tasks(request: HttpRequest) -> HttpResponse:
    """The tasks of a world by name, a page at a time, each with how many of its attempts solved it."""
    chosen, after = Chosen.of(request.GET), [_short(request.GET.get(name, "")) for name in AFTER]
    rows = success.tasks(chosen.narrowed(sights.episodes(person(request))), after if after[0] else None)
    page = list(rows[: PAGE + 1])
    context = {
        "rows": page[:PAGE],
        "names": task_names.names((task for _, _, task, _, _ in page[:PAGE]), person(request)),
        "more": urlencode(dict(zip(AFTER, _key(page[PAGE - 1]), strict=True))) if len(page) > PAGE else "",
        "chosen": chosen,
        "narrow": _with_more(chosen.query),
        "splits": success.SPLITS.items(),
    }
    if is_fragment(request) and after[0]:
        return render(request, "worlds/_task_rows.html", context)
    return render(request, "worlds/tasks.html", context)


@for_signed_in
@require_GET
def groups(request: HttpRequest) -> HttpResponse:
    """Groups, the newest first, a page at a time: of a world, of how far they are, of the run that learned them."""
    chosen, before = Chosen.of(request.GET), request.GET.get("before", "")
    state, run = request.GET.get("state", ""), request.GET.get("run", "")
    state = state if state in standings.NAMES else ""
    run = run if _is_number(run) else ""
    rows = _groups_of(sights.groups(person(request)), chosen, run)
    if _is_number(before):
        rows = rows.filter(pk__lt=int(before))
    rows = standings.annotated(rows).select_related("checkpoint", "user").order_by("-pk")
    if state:
        rows = rows.filter(state=state)  # type: ignore[misc]  # it is annotated
    page = list(rows[: PAGE + 1])
    for group in page:
        group.reason = standings.reason(group)  # type: ignore[attr-defined]  # it is annotated
        group.state_in_words = standings.NAMES[group.state]  # type: ignore[attr-defined]  # it is annotated
        group.tone = standings.TONES.get(group.state, "")  # type: ignore[attr-defined]  # it is annotated
    said = {"state": state, "run": run}
    narrow = "&".join(filter(None, (chosen.query, *(f"{name}={value}" for name, value in said.items() if value))))
    context = {
        "rows": page[:PAGE],
        "names": task_names.names((group.task for group in page[:PAGE]), person(request)),
        "more": page[PAGE - 1].pk if len(page) > PAGE else "",
        "chosen": chosen,
        "state": state,
        "run": run,
        "states": standings.NAMES.items(),
        "narrow": _with_more(narrow),
        "but_state": _with_more("&".join(filter(None, (chosen.query, f"run={run}" if run else "")))),
    }
    if is_fragment(request) and before:
        return render(request, "worlds/_group_rows.html", context)
    return render(request, "worlds/groups.html", context)


def _key(row: tuple[str, str, str, int, int]) -> tuple[str, str, str]:
    """What orders tasks, in that order."""
    world, split, task, _, _ = row
    return task, world, split


def _short(said: str) -> str:
    return said[:200].replace("\0", "")


def _groups_of(rows: QuerySet[Group], chosen: Chosen, run: str) -> QuerySet[Group]:
    about = {
        "world": chosen.world,
        "task": chosen.task,
        "split": chosen.split,
        "checkpoint__number": chosen.checkpoint,
    }
    rows = rows.filter(**{name: value for name, value in about.items() if value})
    if run:  # in a query of its own: joined, each of a group's samples would count its attempts once more
        learned = Episode.objects.filter(samples__run=int(run))
        rows = rows.filter(pk__in=learned.order_by().values("group"))
    return rows


def _next_training(line: Line) -> tuple[Filling | None, str]:
    """How far this line's next batch is filled, or why that is not known."""
    try:
        return batches.filling(line_recipes.recipe_of_row(line), line.name), ""
    except RecipeInvalid as failure:
        return None, str(failure)


def _alarms() -> list[tuple[Run, list[str]]]:
    """What the newest runs with agents' groups warn of, those without an alarm left out."""
    runs = Run.objects.exclude(agents={}).order_by("-pk").only("pk", "agents", "finished_at")[:ALARMING]
    return [(run, run.agents["alarms"]) for run in runs if run.agents.get("alarms")]


def _with_more(query: str) -> str:
    """The beginning of an address to which one more value is added."""
    return f"?{query}&" if query else "?"


def _is_number(said: str) -> bool:
    return said.isdecimal() and said.isascii() and len(said) < 19
