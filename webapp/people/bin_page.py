"""Put chats into the bin and take them back; show what lies there, and delete it for good."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from chat import signals
from chat.listing.views import is_htmx, open_chat, show_done
from chat.models import Session
from privacy import bin as chat_bin
from webapp.console.doors import person

LISTED = 50


@require_POST
@login_required
def delete(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Put a chat into the bin. What was already learned from it stays in the weights: its person reads so at once."""
    found = get_object_or_404(Session.objects.visible_to(request.user), pk=pk)
    holding = signals.checkpoints_that_learned_from(found.turns.all())
    chat_bin.discard(found)
    if holding:
        names = ", ".join(str(one) for one in holding)
        told = _(
            "The chat is in the bin. What was learned of it is in the weights of %(names)s still, and the people who "
            "run this Talkback are told: they can have it learned again without."
        )
        messages.warning(request, told % {"names": names}, extra_tags="warn")
    url = f"{reverse('chat:new')}?gone={pk}"
    if not is_htmx(request):
        return redirect(url)
    shown = open_chat(request)
    if holding or (shown is not None and shown.pk == pk):
        return HttpResponse(headers={"HX-Redirect": url})
    return show_done(request, found, gone=found)


@require_POST
@login_required
def restore(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Take a chat back out of the bin."""
    found = get_object_or_404(Session.objects.in_bin(request.user), pk=pk)
    chat_bin.restore(found)
    return show_done(request, found)


@require_GET
@login_required
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    """The chats that can still be taken back, those that were deleted last on top."""
    rows = Session.objects.in_bin(request.user).order_by("-deleted_at", "-pk")
    page = Paginator(rows, LISTED).get_page(request.GET.get("page"))
    for one in page.object_list:
        one.days_left = chat_bin.days_left(one)  # type: ignore[attr-defined]  # for the page
    return render(request, "chats/bin.html", {"page": page, "days": chat_bin.KEPT.days})


@require_POST
@login_required
def empty(request: HttpRequest) -> HttpResponse:
    """Delete for good what lies in the bin."""
    count = chat_bin.empty(person(request))
    told = ngettext("%(n)s chat is gone for good.", "%(n)s chats are gone for good.", count)
    messages.success(request, told % {"n": count}, extra_tags="good")
    return redirect("bin:home")


app_name = "bin"
urlpatterns = [
    path("chats/bin/", home, name="home"),
    path("chats/bin/empty/", empty, name="empty"),
    path("chats/<uuid:pk>/delete/", delete, name="delete"),
    path("chats/<uuid:pk>/restore/", restore, name="restore"),
]
