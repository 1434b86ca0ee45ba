"""Lay runs over one another: the page whose address holds the choice, and its figures as JSON."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_GET

from training.models import Run
from webapp.charts import overlays
from webapp.charts.overlays import MOST_RUNS, By
from webapp.console.doors import needs
from webapp.console.training.run_pages import Row


def chosen(query: QueryDict) -> list[int]:
    """The numbers of the runs that an address names, each once, in its order, with no more than can be told apart."""
    said = [part for value in query.getlist("runs") for part in value.split(",")]
    numbers = [int(part) for part in said if part.isdecimal() and len(part) < 19]
    return list(dict.fromkeys(numbers))[:MOST_RUNS]


def axis(query: QueryDict) -> By:
    return "time" if query.get("x") == "time" else "step"


def found(numbers: list[int]) -> list[Run]:
    """These runs in this order, as far as there are any."""
    there = Run.objects.select_related("line", "parent", "checkpoint").in_bulk(numbers)
    return [there[number] for number in numbers if number in there]


@needs("training")
@require_GET
def overlay(request: HttpRequest) -> HttpResponse:
    """Runs over one another. `runs` names them, `x` is step or time, `scale` linear or log, `smooth` from 0 to 0.95."""
    numbers = chosen(request.GET)
    runs = found(numbers)
    by = axis(request.GET)
    drawn = overlays.overlays(runs, by)
    context: dict[str, Any] = {
        "rows": [Row.of(run, 0) for run in runs],
        "missing": [number for number in numbers if number not in {run.pk for run in runs}],
        "most": MOST_RUNS,
        "is_cut": len(set(request.GET.getlist("runs"))) > MOST_RUNS,
        "charts": [picture for chart in drawn if (picture := chart.picture) is not None],
        "by": by,
        "is_log": request.GET.get("scale") == "log",
        "smooth": smoothing(request.GET.get("smooth", "")),
        "figures": f"{reverse('console:overlay_figures')}?{urlencode({'runs': [run.pk for run in runs]}, doseq=True)}",
    }
    return render(request, "training/overlay.html", context)


def smoothing(said: str) -> float:
    """How much of the smoothed value before stays in the next one, 0 to 0.95.

    >>> smoothing("0.6"), smoothing("7"), smoothing("much")
    (0.6, 0.95, 0.0)
    """
    try:
        return min(0.95, max(0.0, float(said)))
    except ValueError:
        return 0.0


@needs("training")
@require_GET
def figures(request: HttpRequest) -> JsonResponse:
    """The figures of these runs: at most twelve runs, 400 points a line and 1,200 a chart, lowest and highest kept."""
    runs = found(chosen(request.GET))
    return JsonResponse({"charts": [chart.told for chart in overlays.overlays(runs, axis(request.GET))]})


urls = [
    path("runs/overlay/", overlay, name="overlay"),
    path("runs/overlay/figures.json", figures, name="overlay_figures"),
]
