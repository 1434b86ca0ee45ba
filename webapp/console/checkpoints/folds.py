"""Show what is folded away on a checkpoint's page: its exam's figures, what taught it, how it was made.

Each is a part that the page fetches once its fold is opened, and a page of its own where no script does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import path
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET

from checkpoints.models import Checkpoint
from gate import wording
from judge.models import Judgement
from judge.samples import pooling
from training.models import Run
from training.provenance import lineage
from webapp.charts import small_curves
from webapp.console.checkpoints import agents_played, descent, exams, tried
from webapp.console.doors import needs, person
from webapp.console.review import desk
from webapp.console.training import recipe_pages

ANCESTORS, DRAWN = 40, 20
"""Ancestors that a checkpoint's page names, and of how many the figures are drawn: the tree has all of them."""

Look = Callable[[Checkpoint, User], Mapping[str, Any]]


def figures(checkpoint: Checkpoint, user: User) -> Mapping[str, Any]:
    """The gate's checks, replies side by side, what else the exam was made of, and how the learning went."""
    examination = getattr(checkpoint, "examination", None)
    if examination is None:
        raise Http404("it was not examined")
    pairs = exams.pairs(examination)
    line = [checkpoint, *lineage.ancestors(checkpoint)[1:]] if Run.that_made(checkpoint) else []
    return {
        "examination": examination,
        "nats": wording.NATS,
        "checks": exams.checks(examination),
        "pairs": pairs,
        "pair_marks": exams.has_marks(pairs),
        "exam_parts": exams.panel(checkpoint, user),
        "played": agents_played.panel(checkpoint, user),
        "curves": small_curves.curves(measured(line[:DRAWN])) if line else [],
    }


def lessons(checkpoint: Checkpoint, user: User) -> Mapping[str, Any]:
    """The turns that taught it, each with what it was told."""
    about = ("turn__session", "turn__checkpoint", "sample")
    return {"lessons": lessons_of(checkpoint).select_related(*about).order_by("turn__created_at")}


def made(checkpoint: Checkpoint, user: User) -> Mapping[str, Any]:
    """Its line, who decided what, earlier trials, its recipe."""
    line = [checkpoint, *lineage.ancestors(checkpoint)[1:]]
    run = Run.that_made(checkpoint)
    return {
        "line": line[:ANCESTORS][::-1],
        "lineage": descent.panel(line),
        "decisions": checkpoint.decisions.select_related("by"),
        "trial": tried.earlier(checkpoint),
        "reading": recipe_pages.read(run.recipe) if run else None,
    }


def lessons_of(checkpoint: Checkpoint) -> QuerySet[Judgement]:
    """The verdicts that its run learned from."""
    run = Run.that_made(checkpoint)
    return pooling.judged(run) if run else Judgement.objects.none()


def measured(line: Iterable[Checkpoint]) -> list[list[Any]]:
    """What was measured in the runs that made these, oldest first."""
    runs = Run.objects.filter(checkpoint__in=[one.pk for one in line]).order_by("checkpoint__number")
    return list(runs.values_list("metrics", flat=True))


def fold(look: Look, template: str, title: str | Promise, *beside: str) -> Callable[..., HttpResponse]:
    """A view of one part; `beside` is what it shows of other rows."""

    @needs("checkpoints")
    @require_GET
    def view(request: HttpRequest, number: int) -> HttpResponse:
        shown = get_object_or_404(Checkpoint.objects.select_related("line", "run", *beside), number=number)
        context = {"checkpoint": shown, "title": title, "part": template, **look(shown, person(request))}
        return render(request, template if desk.is_fragment(request) else "checkpoints/folds/fold.html", context)

    return view


FIGURES = fold(figures, "checkpoints/folds/_figures.html", _("All figures"), "examination__against")
LESSONS = fold(lessons, "checkpoints/folds/_taught.html", _("What taught it"))
MADE = fold(made, "checkpoints/folds/_made.html", _("How it was made"))

urls = [
    path("checkpoints/<row:number>/figures/", FIGURES, name="checkpoint_figures"),
    path("checkpoints/<row:number>/lessons/", LESSONS, name="checkpoint_lessons"),
    path("checkpoints/<row:number>/made/", MADE, name="checkpoint_made"),
]
