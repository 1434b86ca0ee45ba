"""Search all of a person's chats, as they type and on a page of its own."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from chat.listing import pages
from chat.listing.views import is_htmx, open_chat
from chat.search import finding


@require_GET
@login_required
@never_cache
def search(request: HttpRequest) -> HttpResponse:
    """What was found; in the list beside a chat, where nothing is looked for, the list again."""
    after = request.GET.get("after", "")
    found = finding.find(request.user, request.GET.get("q", ""), after)
    if not is_htmx(request):
        return render(request, "chats/search.html", {"found": found})
    if after:
        return render(request, "chats/_hits.html", {"found": found})
    if not found.has_words:
        return render(request, "chats/_list.html", pages.side_list(request.user) | {"session": open_chat(request)})
    return render(request, "chats/_found.html", {"found": found})
