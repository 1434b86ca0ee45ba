"""Datasets: choose what leaves, look at the first rows, have the files written, download them."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import FileResponse, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import pgettext_lazy
from django.views.decorators.http import require_GET, require_POST

from checkpoints.models import Line
from core.errors import TalkbackError
from evaluation import exports
from evaluation.datasets import columns, exporting, files
from evaluation.datasets.filters import STATES, Filters
from evaluation.models import Export
from webapp.console.datasets import import_pages
from webapp.console.doors import needs, person, said_aloud

LISTED = 20
"""Datasets that the page lists, the newest."""

CHIPS = (
    pgettext_lazy("an export", "queued"), pgettext_lazy("an export", "writing"), pgettext_lazy("an export", "ready"),
    pgettext_lazy("an export", "failed"), pgettext_lazy("an export", "cancelled"), pgettext_lazy("an export", "gone"),
)  # fmt: skip
"""How an export may stand, as its chip says it."""


@needs("training")
@require_GET
def datasets(request: HttpRequest) -> HttpResponse:
    """The form, with `preview` the first rows, and what was made."""
    context: dict[str, Any] = {"sent": request.GET, "filters": Filters()}
    status = 200
    try:
        context["filters"] = filters = Filters.read(request.GET)
        if "preview" in request.GET:
            context |= {"preview": exporting.preview(filters), "asked": filters.asked()}
    except TalkbackError as failure:
        context["fault"], status = str(failure), failure.status
    context |= {
        "kinds": [*columns.KINDS.items()],
        "states": [(value, _(words)) for value, words in STATES.items()],
        "lines": Line.objects.filter(retired_at=None),
        "has_parquet": files.has_parquet(),
        "kept_days": exports.KEPT.days,
    }
    if "preview" not in context:
        context |= made() | import_pages.brought()
    return render(request, "datasets/datasets.html", context, status=status)


def made() -> dict[str, Any]:
    """The newest datasets, and whether one of them is being written."""
    rows = list(Export.objects.filter(what=Export.What.DATASET).select_related("by")[:LISTED])
    is_moving = any(row.status in (Export.Status.QUEUED, Export.Status.WRITING) for row in rows)
    return {"made": rows, "is_moving": is_moving, "manifest": exporting.MANIFEST}


@needs("training")
@require_POST
def export(request: HttpRequest) -> HttpResponse:
    """Have a worker write what the preview showed."""
    by = person(request)
    asked = said_aloud(request, lambda: exporting.ask(Filters.read(request.POST), by=by))
    if asked is not None:
        messages.success(request, _("The dataset is being written. Its files appear below."), extra_tags="good")
    return redirect("console:datasets")


@needs("training")
@require_POST
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    """Stop an export that waits or is being written."""
    found = get_object_or_404(Export.objects.select_related("checkpoint"), pk=pk)
    exports.cancel(found)
    return redirect(page_of(found))


@needs("training")
@require_POST
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete the files of an export before their time."""
    found = get_object_or_404(Export.objects.select_related("checkpoint"), pk=pk)
    exports.delete(found, f"{person(request)} deleted its files.")
    return redirect(page_of(found))


@needs("training")
@require_GET
def download(request: HttpRequest, pk: int, name: str) -> HttpResponse:
    """One file of an export, if all that it was made of may still leave."""
    found = get_object_or_404(Export.objects.select_related("checkpoint"), pk=pk)
    try:
        exporting.check(found)
        file = exports.file_of(found, name)
    except exports.ExportGone as failure:
        messages.error(request, str(failure), extra_tags="bad")
        return redirect(page_of(found))
    return FileResponse(file.open("rb"), as_attachment=True, filename=f"talkback-{found.pk}-{name}")  # type: ignore[return-value]  # a file is a response like any


def page_of(export: Export) -> str:
    """Where an export is listed."""
    if export.checkpoint is None:
        return reverse("console:datasets")
    return f"{reverse('console:checkpoint', args=[export.checkpoint.number])}#files"


urls = [
    path("datasets/", datasets, name="datasets"),
    path("datasets/export/", export, name="dataset_export"),
    path("exports/<row:pk>/cancel/", cancel, name="export_cancel"),
    path("exports/<row:pk>/delete/", delete, name="export_delete"),
    path("exports/<row:pk>/<str:name>", download, name="export_file"),
]
