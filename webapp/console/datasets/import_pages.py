"""Bring examples: a file, what it holds, a person's yes, and the way back."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import pgettext_lazy
from django.views.decorators.http import require_GET, require_POST

from checkpoints.models import Line
from core.errors import IllegalMove
from evaluation.datasets import importing, reading
from evaluation.models import Import
from training import batches, line_recipes
from webapp.console.doors import needs, person, said_aloud

LISTED = 20
"""Imports that the page lists, the newest."""

REFUSALS = 50
"""Refused examples that a page names by their place."""

CHIPS = (
    pgettext_lazy("an import", "reading"), pgettext_lazy("an import", "read"), pgettext_lazy("an import", "taking"),
    pgettext_lazy("an import", "taken"), pgettext_lazy("an import", "undone"), pgettext_lazy("an import", "discarded"),
    pgettext_lazy("an import", "failed"),
)  # fmt: skip
"""How an import may stand, as its chip says it."""


def brought() -> dict[str, Any]:
    """What the Datasets page shows of imports."""
    rows = Import.objects.select_related("by", "line").defer("found")[:LISTED]
    return {"imports": list(rows), "most_mib": reading.MOST_BYTES >> 20, "suffixes": ", ".join(reading.SUFFIXES)}


@needs("training")
@require_POST
def bring(request: HttpRequest) -> HttpResponse:
    """Keep the file that was sent; a worker reads it."""
    sent, by = request.FILES.get("file"), person(request)
    line = get_object_or_404(Line, name=request.POST.get("line", ""))
    if sent is None:
        messages.error(request, _("Choose a file first."), extra_tags="bad")
        return redirect("console:datasets")
    name = sent.name or ""
    found = said_aloud(request, lambda: importing.receive(sent, name, by=by, line=line))
    return redirect("console:datasets") if found is None else redirect("console:dataset_import", pk=found.pk)


@needs("training")
@require_GET
def shown(request: HttpRequest, pk: int) -> HttpResponse:
    """What one file holds, and what became of it."""
    found = get_object_or_404(Import.objects.select_related("by", "line"), pk=pk)
    recipe = line_recipes.recipe_of(found.line.name)
    told = found.taken or found.found
    context = {
        "found": found,
        "told": told,
        "refusals": told.get("where", [])[:REFUSALS],
        "refused": sum(told.get("refused", {}).values()),
        "is_moving": found.status in (Import.Status.READING, Import.Status.TAKING),
        "learns_rewrites": bool(recipe.w_sft),
        "of_a_run": max(1, recipe.batch_size // batches.ONE_IN),
        "batch_size": recipe.batch_size,
    }
    return render(request, "datasets/import.html", context)


@needs("training")
@require_POST
def decide(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Yes or no to what was read, or the way back from a yes."""
    found, by = get_object_or_404(Import, pk=pk), person(request)
    sent = request.POST
    try:
        if verb == "agree":
            terms = {"origin": sent.get("origin", ""), "licence": sent.get("licence", "")}
            clean = {name: value.replace("\x00", "") for name, value in terms.items()}
            said_aloud(request, lambda: importing.agree(found, by=by, consents="consents" in sent, **clean))
        elif verb == "discard":
            importing.discard(found)
            said = _("%(file)s was put away; nothing was learned from it.") % {"file": found.name}
            messages.success(request, said, extra_tags="good")
            return redirect("console:datasets")
        else:
            importing.undo(found)
    except IllegalMove:
        messages.error(request, _("It has moved on meanwhile: look at it again."), extra_tags="bad")
    return redirect("console:dataset_import", pk=pk)


urls = [
    path("datasets/bring/", bring, name="dataset_bring"),
    path("datasets/imports/<row:pk>/", shown, name="dataset_import"),
    path("datasets/imports/<row:pk>/agree/", decide, {"verb": "agree"}, name="dataset_agree"),
    path("datasets/imports/<row:pk>/discard/", decide, {"verb": "discard"}, name="dataset_discard"),
    path("datasets/imports/<row:pk>/undo/", decide, {"verb": "undo"}, name="dataset_undo"),
]
