"""Export a chat as a file; import chats of another program's export: look first, then store, and say how far it is."""

from __future__ import annotations

import re
import uuid

from django.contrib.auth.decorators import login_required
from django.core.files.uploadedfile import UploadedFile
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from chat.imports import files
from chat.imports.conversations import ImportRefused
from chat.imports.import_rows import Import
from chat.listing.views import is_htmx
from chat.models import Session
from core import stores
from feedback import chat_files, importing
from webapp.console.doors import person

SHOWN = 10
"""Imports that the page lists."""

TYPES = {"json": "application/json", "md": "text/markdown; charset=utf-8"}


@require_GET
@login_required
@never_cache
def export(request: HttpRequest, pk: uuid.UUID, ending: str) -> HttpResponse:
    """One chat as a file, with thumbs and corrections."""
    found = get_object_or_404(Session.objects.visible_to(request.user), pk=pk)
    if ending not in TYPES:
        raise Http404
    body = chat_files.as_json(found) if ending == "json" else chat_files.as_markdown(found)
    slug = re.sub(r"[^a-z0-9]+", "-", str(found).lower()).strip("-")[:40] or "chat"
    named = {"Content-Disposition": f'attachment; filename="{slug}.{ending}"'}
    return HttpResponse(body, content_type=TYPES[ending], headers=named)


@require_http_methods(["GET", "POST"])
@login_required
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    """Take a file, and show what is in it before anything is stored."""
    refused = ""
    if request.method == "POST":
        try:
            return redirect("chat-files:look", pk=take(request, request.FILES.get("file")).pk)
        except ImportRefused as error:
            refused = str(error)
    rows = Import.objects.visible_to(request.user)[:SHOWN]
    return render(request, "chats/import.html", {"imports": rows, "refused": refused}, status=422 if refused else 200)


def take(request: HttpRequest, file: UploadedFile | None) -> Import:
    """Keep an uploaded file, and look into it. Raises ImportRefused."""
    if file is None:
        raise ImportRefused(_("Choose a file first."))
    if not file.size:
        raise ImportRefused(_("%(name)s is empty.") % {"name": file.name})
    if file.size > files.LARGEST:
        raise ImportRefused(files.TOO_LARGE)
    stores.check_room()
    row = Import(user=person(request))
    row.file.parent.mkdir(parents=True, exist_ok=True)
    row.file.parent.chmod(0o700)
    with row.file.open("wb") as kept:
        for part in file.chunks():
            kept.write(part)
    try:
        importing.look(row)
    except BaseException:
        row.file.unlink(missing_ok=True)
        raise
    row.save()
    return row


@require_GET
@login_required
@never_cache
def look(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """What is in a file; how far its import is; what was stored of it."""
    row = get_object_or_404(Import.objects.visible_to(request.user), pk=pk)
    return render(request, "chats/_import.html" if is_htmx(request) else "chats/import_one.html", {"row": row})


@require_POST
@login_required
def start(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Its person said yes. Few chats are stored with this request; of many, a worker stores the rest."""
    row = get_object_or_404(Import.objects.visible_to(request.user), pk=pk)
    if row.status == Import.Status.SHOWN:
        row.move(Import.Status.ASKED)
        importing.go_on(row, most=importing.AT_ONCE)
    return redirect("chat-files:look", pk=pk)


@require_POST
@login_required
def drop(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Its person said no, or stops it: what was stored stays."""
    row = get_object_or_404(Import.objects.visible_to(request.user), pk=pk)
    if row.status in (Import.Status.SHOWN, Import.Status.ASKED):
        importing.fail(row, gettext_noop("You stopped it."))
    return redirect("chat-files:import")


app_name = "chat-files"
urlpatterns = [
    path("chats/import/", home, name="import"),
    path("chats/import/<uuid:pk>/", look, name="look"),
    path("chats/import/<uuid:pk>/start/", start, name="start"),
    path("chats/import/<uuid:pk>/drop/", drop, name="drop"),
    path("chats/<uuid:pk>/export.<slug:ending>", export, name="export"),
]
