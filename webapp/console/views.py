"""Show the board, checkpoints and turns to operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, Exists, OuterRef, Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from chat.models import Turn
from checkpoints import promotion
from checkpoints.models import SHARED, Checkpoint, Line, Taint
from core.errors import TalkbackError
from feedback.models import Feedback
from judge.models import Hint, Vote
from judge.samples import redaction
from training import batches, hours, learnable, line_recipes
from training.config import RecipeInvalid
from training.models import Run
from training.next_run import forecast, next_lessons
from training.provenance import retention
from webapp import learning_api
from webapp.charts import heat
from webapp.console import fragments
from webapp.console.board import batch as cells
from webapp.console.board import waiting
from webapp.console.checkpoints import exams, folds, panels, readiness, tried
from webapp.console.doors import needs, person, said_aloud
from webapp.journeys.known import journeys

PAGE = 50
"""Checkpoints of one page of the list."""

View = Callable[..., HttpResponse]
Result = TypeVar("Result")


@needs("console")
@require_GET
def board(request: HttpRequest) -> HttpResponse:
    if "status" in request.GET:  # the address that the list of turns had
        return redirect(f"{reverse('console:turns')}?{request.GET.urlencode()}")
    return render(request, "console/board.html", fragments.context(person(request)))


@needs("console")
@require_GET
def turns(request: HttpRequest) -> HttpResponse:
    """The newest turns on the record, and how far each has come."""
    return render(request, "console/turns.html", fragments.turns_context(request.GET.get("status", "")))


@needs("checkpoints")
@require_GET
def checkpoints(request: HttpRequest) -> HttpResponse:
    """Every set of weights there has been, as far as they are narrowed to a state or a line."""
    status, line = request.GET.get("status", ""), request.GET.get("line", "")
    status = status if status in Checkpoint.Status.values else ""
    counts = Counter(
        dict(Checkpoint.objects.order_by().values("status").annotate(n=Count("pk")).values_list("status", "n"))
    )
    rows = Checkpoint.objects.select_related("line", "parent", "run", "examination").defer(*LONG)
    rows = rows.annotate(is_tainted=Exists(Taint.objects.filter(checkpoint=OuterRef("pk"), cleaned_by=None)))
    if status:
        rows = rows.filter(status=status)
    if line:
        rows = rows.filter(line=line)
    page = Paginator(rows.order_by("-number"), PAGE).get_page(request.GET.get("page"))
    replies, lessons = replies_and_lessons([row.pk for row in page])
    for row in page:
        row.bytes = 0 if row.let_go_at else retention.taken(row)  # type: ignore[attr-defined]
        row.replies, row.lessons = replies.get(row.pk, 0), lessons.get(row.pk, 0)  # type: ignore[attr-defined]
    context = {
        "checkpoints": page,
        "status": status,
        "line": line,
        "lines": Line.objects.all(),
        "counts": [(name, counts[name]) for name in Checkpoint.Status.values if counts[name] or name == status],
        "total": counts.total(),
    }
    return render(request, "checkpoints/checkpoints.html", context)


LONG = ("probe", "made", "run__metrics", "run__usage", "examination__pairs", "examination__pack")
"""Of checkpoints, their runs and exams what the list does not show, and that may be long."""


def replies_and_lessons(checkpoints: list[int]) -> tuple[dict[int, int], dict[int, int]]:
    """By checkpoint how many replies it wrote, and from how many lessons it was made. Counted apart: joined, each reply
    would stand once for each lesson."""
    wrote = Turn.objects.filter(checkpoint__in=checkpoints).order_by().values("checkpoint").annotate(n=Count("pk"))
    made = Run.objects.filter(checkpoint__in=checkpoints).order_by().values("checkpoint").annotate(n=Count("samples"))
    return dict(wrote.values_list("checkpoint", "n")), dict(made.values_list("checkpoint", "n"))


OF_PAGE = ("line", "parent", "run", "examination__against")
TAINTS = Prefetch("taints", Taint.objects.select_related("cleaned_by__result"))
"""What comes with the checkpoint of a page, for its panels too."""


@needs("checkpoints")
@require_GET
def checkpoint(request: HttpRequest, number: int) -> HttpResponse:
    rows = panels.with_notes(Checkpoint.objects.with_taints()).select_related(*OF_PAGE).prefetch_related(TAINTS)
    shown = get_object_or_404(rows, number=number)
    examination = getattr(shown, "examination", None)
    standing = request.standing = promotion.Answering.read()  # type: ignore[attr-defined]  # as `way_back` leaves it
    is_shared, is_live = shown.line_id == SHARED, shown.status == Checkpoint.Status.LIVE
    previous = standing.previous if is_shared else promotion.previous(shown.line_id) if is_live else None
    again = exams.again(examination, person(request))
    response = render(
        request,
        "checkpoints/checkpoint.html",
        {
            "checkpoint": shown,
            "examination": examination,
            "verdict": exams.verdict(examination),
            "again": again,
            "again_marks": exams.has_marks(again),
            "is_own": all(one.is_own for one in again),
            "lessons": folds.lessons_of(shown).order_by().count() if Run.that_made(shown) else 0,
            "live": standing.live if is_shared else Checkpoint.live(shown.line_id),
            "previous": previous,
            "standing": readiness.standing(shown, examination, person(request)),
            "trial": tried.panel(shown, person(request)),
            "panels": panels.panels(shown, person(request)),
        },
    )
    return settled(request, response, shown.status not in (Checkpoint.Status.CANDIDATE, Checkpoint.Status.APPROVED))


@needs("console")
@require_GET
def turn(request: HttpRequest, pk: UUID) -> HttpResponse:
    about = ("session__user", "checkpoint", "judgement__sample__run__checkpoint", "overruling__by")
    shown = get_object_or_404(Turn.objects.select_related(*about), pk=pk)
    hints, votes = list(shown.hints.select_related("decided_by").defer("teacher")), list(shown.votes.order_by("pk"))
    standing = [hint for hint in hints if hint.status != Hint.Status.REJECTED]
    shown.journey = journeys([shown], standing, votes)[shown.pk]  # type: ignore[attr-defined]
    judgement = getattr(shown, "judgement", None)
    given = list(shown.feedback.select_related("by"))
    tokens = heat.tokens(judgement.teacher) if judgement else []
    return render(
        request,
        "judging/turn.html",
        {
            "turn": shown,
            "judgement": judgement,
            "sample": judgement.sample if judgement else None,
            "votes": sorted(votes, key=lambda vote: (vote.question != Vote.Question.SCORE, vote.index, vote.pk)),
            "feedback": given,
            "hints": hints,
            "overruling": getattr(shown, "overruling", None),
            "reached": learning_api.reached(judgement),
            "tokens": tokens,
            "heat_sentence": heat.sentence(tokens) if tokens else "",
            "removed": removed_from(shown, given),
        },
    )


def removed_from(turn: Turn, given: Iterable[Feedback]) -> list[redaction.Before]:
    """What of this turn's texts, and of those that say how it should have been, is removed before it is learned."""
    said = [one.text for one in given if one.withdrawn_at is None and one.text]
    return redaction.shown(turn, said) if turn.learns and turn.session.learns else []


@needs("training")
@require_POST
def learn_now(request: HttpRequest) -> HttpResponse:
    started = said_aloud(request, lambda: batches.learn_now(line_recipes.recipe_of(SHARED)))
    if started:
        n = started.samples.count()
        learns = ngettext("Run %(run)s learns from %(n)s lesson.", "Run %(run)s learns from %(n)s lessons.", n) % {
            "run": started.pk,
            "n": n,
        }
        messages.success(request, learns, extra_tags="good")
        if wait := hours.waiting(started):
            messages.warning(request, wait.sentence(n), extra_tags="warn")
    return redirect("console:board")


@needs("training")
@require_GET
def dry_run(request: HttpRequest) -> HttpResponse:
    """What "learn now" would take: nothing is started."""
    is_part, expected = "HX-Request" in request.headers, None
    standing = request.standing = promotion.Answering.read()  # type: ignore[attr-defined]  # as `way_back` leaves it
    try:
        recipe = line_recipes.recipe_of_row(standing.live.line)
    except RecipeInvalid as failure:
        if not is_part:
            raise
        return render(request, "training/_forecast.html", {"sentence": str(failure)})
    batch, played = batches.filled_with({SHARED: recipe})[SHARED]
    now, by_itself = next_lessons.claimed(recipe, batch, played)
    try:
        learnable.require()
        expected = forecast.of_samples(recipe, now, live=standing.live)
        said = expected.sentence
    except TalkbackError as failure:
        said = str(failure)
    if is_part:
        return render(request, "training/_forecast.html", {"sentence": said})
    active = Run.objects.filter(status__in=(Run.Status.QUEUED, Run.Status.RUNNING)).first()
    context = {
        "forecast": expected,
        "sentence": said,
        "busy": active,
        "held": waiting(active),
        "ready": expected.samples if expected else 0,
        "cells": cells(recipe, by_itself),
        "batch": batch,
    }
    return render(request, "training/forecast.html", context)


def settled(request: HttpRequest, response: HttpResponse, is_over: bool) -> HttpResponse:
    """A page that was looking again by itself is loaded whole once there is nothing more to wait for."""
    polled = request.headers.get("HX-Request") and not request.headers.get("HX-Boosted")
    if is_over and polled:
        response["HX-Refresh"] = "true"
    return response
