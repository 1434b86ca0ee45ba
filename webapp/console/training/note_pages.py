"""Write what one thinks of a run, and its tags, in their place on its page."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from core.errors import TalkbackError
from training.models import Run
from training.monitoring import notes
from webapp.console.doors import needs, person
from webapp.console.review.desk import is_fragment


def standing(run: Run) -> dict[str, Any]:
    """A run's note and tags, as the card on its page shows them."""
    note = getattr(run, "note", None)
    tags = list(run.tags.select_related("by"))
    return {
        "note": note,
        "tags": tags,
        "typed": {"text": note.text if note else "", "tags": ", ".join(tag.name for tag in tags)},
        "seen": note.at.isoformat() if note else "",
        "longest": notes.LONGEST_NOTE,
    }


@needs("training")
@require_POST
def write(request: HttpRequest, pk: int) -> HttpResponse:
    """Keep a note and tags; what cannot be kept stays typed, with the reason beside it."""
    run = get_object_or_404(Run.objects.select_related("note__by"), pk=pk)
    text, tags, seen = (request.POST.get(name, "") for name in ("text", "tags", "seen"))
    context: dict[str, Any] = {"run": run}
    status = 200
    try:
        notes.write(run, text, notes.tags_in(tags), by=person(request), seen=seen)
    except TalkbackError as failure:
        status = failure.status
        context |= standing(run) | {"fault": str(failure), "typed": {"text": text, "tags": tags}, "seen": seen}
    else:
        run = Run.objects.select_related("note__by").get(pk=pk)
        context |= standing(run) | {"run": run, "is_kept": True}
    if is_fragment(request):
        return render(request, "training/_run_notes.html", context, status=status)
    if status != 200:
        return render(request, "training/note.html", context, status=status)
    messages.success(request, _("The note and the tags are kept."), "good")
    return redirect("console:run", pk=pk)


urls = [path("runs/<row:pk>/note/", write, name="run_note")]
