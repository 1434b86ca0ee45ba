"""Show a person's chats beside a chat and on pages of their own; rename, pin, archive and move them."""

from __future__ import annotations

import uuid
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import resolve
from django.urls.exceptions import Resolver404
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from chat.forms import TitleForm
from chat.listing import pages
from chat.listing.folders import MOST, Folder
from chat.listing.forms import FolderForm
from chat.listing.pages import Scope
from chat.models import Session
from chat.search import keeping
from core.htmx import is_htmx


@require_GET
@login_required
@never_cache
def more(request: HttpRequest, kind: str) -> HttpResponse:
    """The next chats of the list, after the one that `after` names."""
    chats = pages.list_chats(request.user, Scope(kind), request.GET.get("after", ""))
    if is_htmx(request):
        return render(request, "chats/_groups.html", {"chats": chats, "session": open_chat(request)})
    return render(request, "chats/chats.html", {"chats": chats, "scope": kind})


@require_GET
@login_required
@never_cache
def archive(request: HttpRequest) -> HttpResponse:
    chats = pages.list_chats(request.user, pages.ARCHIVE, request.GET.get("after", ""))
    if is_htmx(request):
        return render(request, "chats/_groups.html", {"chats": chats, "is_page": True})
    return render(request, "chats/chats.html", {"chats": chats, "scope": "archive"})


@require_GET
@login_required
@never_cache
def folder(request: HttpRequest, pk: int) -> HttpResponse:
    """The chats of one folder, and what can be done with it."""
    found = get_object_or_404(Folder.objects.visible_to(request.user), pk=pk)
    chats = pages.list_chats(request.user, Scope("folder", found), request.GET.get("after", ""))
    if is_htmx(request):
        return render(request, "chats/_groups.html", {"chats": chats, "is_page": True})
    return render(request, "chats/chats.html", {"chats": chats, "scope": "folder", "folder": found})


@require_GET
@login_required
@never_cache
def manage(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """What can be done with a chat: a menu in the list, a page for a browser without scripts."""
    found = get_object_or_404(Session.objects.visible_to(request.user).select_related("folder"), pk=pk)
    back = request.GET.get("back", "")
    context: dict[str, Any] = {"chat": found, "folders": Folder.objects.visible_to(request.user)}
    context["back"] = back if url_has_allowed_host_and_scheme(back, None) else ""
    return render(request, "chats/_menu.html" if is_htmx(request) else "chats/manage.html", context)


@require_POST
@login_required
def rename(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    session = get_object_or_404(Session.objects.visible_to(request.user), pk=pk)
    form = TitleForm(request.POST)
    if not form.is_valid():
        return show_done(request, session, refused=" ".join(map(str, form.errors.get("title", []))))
    with transaction.atomic():
        session.title = form.cleaned_data["title"]
        Session.objects.filter(pk=session.pk).update(title=session.title)
        keeping.keep_title(session)
    return show_done(request, session, renamed=True)


@require_POST
@login_required
def pin(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Have a chat stand above the others, or where its day is."""
    return mark(request, pk, "pinned")


@require_POST
@login_required
def put_away(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Put a chat into the archive, or back into the list."""
    return mark(request, pk, "archived")


def mark(request: HttpRequest, pk: uuid.UUID, what: str) -> HttpResponse:
    """Note since when a chat is `what`, pinned or archived, or that it is not."""
    session = get_object_or_404(Session.objects.visible_to(request.user), pk=pk)
    since = timezone.now() if request.POST.get(what) == "yes" else None
    Session.objects.filter(pk=session.pk).update(**{f"{what}_at": since})
    return show_done(request, session)


@require_POST
@login_required
def move(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Put a chat into a folder, a new one where the form names one, or into none."""
    session = get_object_or_404(Session.objects.visible_to(request.user), pk=pk)
    target: Folder | None = None
    if request.POST.get("name", "").strip():
        form = FolderForm(request.POST)
        if not form.is_valid():
            return show_done(request, session, refused=" ".join(map(str, form.errors.get("name", []))))
        target = named(request, form.cleaned_data["name"])
        if target is None:
            return show_done(
                request, session, refused=_("There are %(most)d folders already: remove one first.") % {"most": MOST}
            )
    elif (given := request.POST.get("folder", "")).isdecimal() and len(given) < 18:
        target = get_object_or_404(Folder.objects.visible_to(request.user), pk=given)
    Session.objects.filter(pk=session.pk).update(folder=target)
    return show_done(request, session)


def named(request: HttpRequest, name: str) -> Folder | None:
    """The person's folder of that name, in whatever case, made if need be; None where they have too many."""
    own = Folder.objects.visible_to(request.user)
    if (known := own.filter(name__iexact=name).first()) is not None:
        return known
    return None if own.count() >= MOST else Folder.objects.create(user=cast(User, request.user), name=name)


@require_POST
@login_required
def rename_folder(request: HttpRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(Folder.objects.visible_to(request.user), pk=pk)
    form = FolderForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(map(str, form.errors.get("name", []))), extra_tags="bad")
    elif Folder.objects.visible_to(request.user).filter(name__iexact=form.cleaned_data["name"]).exclude(pk=pk).exists():
        messages.error(request, _("You have a folder of that name already: choose another one."), extra_tags="bad")
    else:
        Folder.objects.filter(pk=found.pk).update(name=form.cleaned_data["name"])
    return redirect("chat:folder", pk=pk)


@require_POST
@login_required
def remove_folder(request: HttpRequest, pk: int) -> HttpResponse:
    """Take a folder away; its chats stay, in the list."""
    get_object_or_404(Folder.objects.visible_to(request.user), pk=pk).delete()
    return redirect("chat:home")


def show_done(
    request: HttpRequest, session: Session, *, refused: str = "", renamed: bool = False, gone: Session | None = None
) -> HttpResponse:
    """The list as it then stands; without scripts the page that the form names, else the chat. `refused` says why
    nothing was done, `gone` is the chat that was put into the bin."""
    if not is_htmx(request):
        if refused:
            messages.error(request, refused, extra_tags="bad")
        back = request.POST.get("back", "")
        return redirect(back if url_has_allowed_host_and_scheme(back, None) else f"/chats/{session.pk}/")
    shown: dict[str, Any] = pages.side_list(request.user) | {"session": open_chat(request), "refused": refused}
    shown |= {"gone": gone, "renamed": session if renamed else None}
    return render(request, "chats/_list.html", shown, status=422 if refused else 200)


def open_chat(request: HttpRequest) -> Session | None:
    """The chat that the page shows which asks, as far as a list needs it: its number."""
    try:
        found = resolve(request.htmx.current_url_abs_path or "/")  # type: ignore[attr-defined]
    except Resolver404:
        return None
    return Session(pk=found.kwargs["pk"]) if found.view_name == "chat:session" else None
