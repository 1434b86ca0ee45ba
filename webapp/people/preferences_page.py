"""Show what a person keeps asking for: their own page, and for staff any person's."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from accounts.roles import may
from chat.models import Turn
from core.errors import TalkbackError
from judge.hints import reviews, standing_hints, undoing
from judge.models import Hint, Ruling
from webapp.console.doors import needs, person
from webapp.journeys.known import journey

app_name = "preferences"


@require_GET
@login_required
@never_cache
def own(request: HttpRequest) -> HttpResponse:
    return page(request, person(request))


@needs("review")
@require_GET
def people(request: HttpRequest) -> HttpResponse:
    """Everybody who asked for something that stands."""
    return render(request, "people/preferences_of_all.html", {"people": standing_hints.people()})


@needs("review")
@require_GET
def of(request: HttpRequest, pk: int) -> HttpResponse:
    return page(request, get_object_or_404(User, pk=pk))


@require_POST
@login_required
def forgo(request: HttpRequest) -> HttpResponse:
    """Stop teaching the hints that the page showed in one group."""
    named = [int(pk) for pk in request.POST.getlist("hint") if pk.isdecimal() and len(pk) < 19]
    chosen = list(within_reach(request).filter(pk__in=named).select_related("turn__session__user").order_by("pk"))
    if not chosen:
        messages.error(request, _("That is not asked for any more: it was taken back already."), extra_tags="warn")
        return redirect("preferences:own")
    done, refused = standing_hints.forgo(chosen, by=person(request))
    if done:
        said = ngettext(
            "Stopped: %(n)s reply will not teach it. Below you can undo that.",
            "Stopped: %(n)s replies will not teach it. Below you can undo that.",
            len(done),
        )
        messages.success(request, said % {"n": len(done)}, extra_tags="good")
    for sentence in refused:
        messages.error(request, sentence, extra_tags="warn")
    return back(request, chosen[0].turn.session.user)


@require_POST
@login_required
def not_meant(request: HttpRequest, pk: int) -> HttpResponse:
    """That is not what I meant: what a judge found that its person wants is not taught. Its chip comes back."""
    guessed = Hint.objects.filter(turn__in=visible(request)).exclude(source=Hint.Source.PERSON)
    hint = get_object_or_404(guessed.select_related("turn__session"), pk=pk)
    said = _("It will not be taught.")
    try:
        reviews.reject(hint, by=person(request), reason=gettext_noop("That is not what I meant."))
    except TalkbackError as failure:
        said = str(failure)
    if not request.headers.get("HX-Request"):
        messages.info(request, said)
        return redirect("chat:session", hint.turn.session_id)
    turn = Turn.objects.select_related("session").get(pk=hint.turn_id)
    return render(request, "chat/_chip.html", {"turn": turn, "journey": journey(turn), "said": said})


@require_POST
@login_required
def undo(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask for it again: what was taken back here stands as before."""
    mine = Ruling.objects.filter(reason=standing_hints.NOT_ANY_MORE, turn__in=visible(request))
    ruling = get_object_or_404(mine.select_related("turn__session__user"), pk=pk)
    assert ruling.turn is not None  # it was found by its turn
    try:
        undoing.undo(ruling, by=person(request))
        messages.success(request, _("It is asked for again, as before."), extra_tags="good")
    except TalkbackError as failure:
        messages.error(request, str(failure), extra_tags="bad")
    return back(request, ruling.turn.session.user)


SHOWN = 50
"""Wishes that the page lists, those that were asked for last."""


def page(request: HttpRequest, owner: User) -> HttpResponse:
    found = standing_hints.of(owner)
    shown: dict[str, Any] = {
        "owner": owner,
        "is_own": owner == request.user,
        "preferences": found[:SHOWN],
        "left": len(found) - SHOWN,
        "waiting": standing_hints.waiting(owner),
        "rewrites": standing_hints.rewrites(owner),
        "forgone": standing_hints.forgone(owner),
        "live": standing_hints.live_line(owner),
    }
    return render(request, "people/preferences.html", shown)


def visible(request: HttpRequest) -> QuerySet[Turn]:
    """The turns whose wishes this person may take back: their own; reviewers may take back any person's."""
    who = person(request)
    return Turn.objects.all() if may(who, "review") else Turn.objects.visible_to(who)


def within_reach(request: HttpRequest) -> QuerySet[Hint]:
    return Hint.objects.filter(turn__in=visible(request), status__in=reviews.STANDS)


def back(request: HttpRequest, owner: User) -> HttpResponse:
    return redirect("preferences:own") if owner == request.user else redirect("preferences:of", pk=owner.pk)


urlpatterns = [
    path("preferences/", own, name="own"),
    path("preferences/forgo/", forgo, name="forgo"),
    path("preferences/<row:pk>/undo/", undo, name="undo"),
    path("hints/<row:pk>/not-meant/", not_meant, name="not_meant"),
    path("console/preferences/", people, name="people"),
    path("console/preferences/<row:pk>/", of, name="of"),
]
