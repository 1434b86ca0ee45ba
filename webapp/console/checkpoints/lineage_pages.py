"""Where weights come from, both ways: what a checkpoint learned, to the last turn and vote; the tree of them all; its
receipt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import path
from django.views.decorators.http import require_GET

from checkpoints.models import Checkpoint
from training.models import Sample
from training.provenance import lineage, receipts
from webapp.console.checkpoints import descent
from webapp.console.doors import needs

PAGE = 25
"""Samples of a page."""

ROWS = 150
"""Checkpoints of a page of the tree."""

PITCH, HIGH = 18, 44
"""Of the drawing: between two lanes, and of a row, in pixels."""

COLOURS = 6
"""How many lines are told apart by colour."""


@needs("checkpoints")
@require_GET
def learned(request: HttpRequest, number: int) -> HttpResponse:
    """All that a checkpoint learned, a page at a time: of its own run, or with `all` of its whole ancestry."""
    shown = get_object_or_404(Checkpoint.objects.select_related("line", "run", "parent"), number=number)
    is_whole = request.GET.get("of") == "all"
    steps = lineage.ancestry(shown)
    rows = [step.checkpoint for step in steps] if is_whole else [shown]
    found = Sample.objects.filter(lineage.samples(rows)).order_by("-pk").values("pk")
    totals, pages = descent.totals(rows)[0], Paginator(found, PAGE)
    pages.count = totals.samples
    page = pages.get_page(request.GET.get("page"))
    # All keys are put in order, and the rows of one page are read.
    keys = cast("QuerySet[Any]", page.object_list)
    shown_samples = Sample.objects.filter(pk__in=keys).select_related("run__checkpoint", "line")
    shown_samples = shown_samples.defer(*descent.HEAVY).order_by("-pk")
    context = {
        "checkpoint": shown,
        "steps": steps,
        "is_whole": is_whole,
        "totals": totals,
        "page": page,
        "lessons": descent.lessons(list(shown_samples)),
        "origin": descent.origin(shown),
    }
    return render(request, "checkpoints/lineage.html", context)


@dataclass(frozen=True)
class Drawn:
    """One row of the tree, with its drawing in pixels."""

    checkpoint: Checkpoint
    colour: int
    x: int
    threads: list[tuple[str, int]]
    """Paths, each with its line's colour."""
    is_tainted: bool


@needs("checkpoints")
@require_GET
def tree(request: HttpRequest) -> HttpResponse:
    """Every checkpoint and what it came from, ROWS at a time, the newest first or those around `at`; `line` narrows it
    to one line."""
    all_of_them = Checkpoint.objects.select_related("line", "parent").prefetch_related("taints")
    rows = list(all_of_them.defer("probe", "made", "parent__probe", "parent__made").order_by("-number"))
    lines = sorted({row.line for row in rows}, key=lambda line: (not line.is_shared, line.created_at))
    wanted = request.GET.get("line", "")
    if wanted:
        rows = [row for row in rows if row.line_id == wanted]
    count = len(rows)
    end, at = number_in(request, "before"), number_in(request, "at")
    end = at + ROWS // 3 if end is None and at is not None else end
    rows = [row for row in rows if end is None or row.number < end]
    older, rows = rows[ROWS:], rows[:ROWS]
    nodes = lineage.tree(rows)
    colours = lineage.colours(rows, COLOURS)
    context = {
        "rows": [drawn(node, colours) for node in nodes],
        "width": PITCH * (1 + max((lane for node in nodes for lane in node.lanes), default=0)),
        "high": HIGH,
        "middle": HIGH // 2,
        "lines": [(line, colours.get(line.pk)) for line in lines],
        "wanted": wanted,
        "count": count,
        "before": rows[-1].number if older else None,
    }
    return render(request, "checkpoints/tree.html", context)


def number_in(request: HttpRequest, name: str) -> int | None:
    """A checkpoint's number in the address; None where there is none."""
    said = request.GET.get(name, "")
    return int(said) if said.isdecimal() and len(said) < 19 else None


def drawn(node: lineage.Node, colours: Mapping[str | None, int]) -> Drawn:
    x, middle = place(node.lane), HIGH // 2
    colour = colours[node.checkpoint.line_id]
    threads = [(f"M{place(one.lane)} 0 V{HIGH}", colours[one.child.line_id]) for one in node.through]
    for one in node.above:
        at = place(one.lane)
        path = f"M{x} 0 V{middle}" if at == x else f"M{at} 0 C{at} {middle} {x} 0 {x} {middle}"
        threads.append((path, colours[one.child.line_id]))
    if node.goes_on:
        threads.append((f"M{x} {middle} V{HIGH}", colour))
    return Drawn(node.checkpoint, colour, x, threads, bool(node.checkpoint.taints.all()))


def place(lane: int) -> int:
    return PITCH // 2 + PITCH * lane


@needs("checkpoints")
@require_GET
def receipt(request: HttpRequest, number: int) -> HttpResponse:
    """A checkpoint's learning receipt as it is now, signed."""
    shown = get_object_or_404(Checkpoint.objects.select_related("run", "parent"), number=number)
    response = HttpResponse(receipts.written(receipts.receipt(shown)), content_type="application/json")
    response.headers["Content-Disposition"] = f'attachment; filename="receipt-{number}.json"'
    return response


urls = [
    path("checkpoints/tree/", tree, name="checkpoint_tree"),
    path("checkpoints/<row:number>/lineage/", learned, name="checkpoint_lineage"),
    path("checkpoints/<row:number>/receipt.json", receipt, name="checkpoint_receipt"),
]
