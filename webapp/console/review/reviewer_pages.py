"""Several reviewers: guidelines, a second look at a share of the items, how far they agree, disagreements to settle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_GET, require_POST

from core.errors import TalkbackError
from judge.annotators import readings
from judge.annotators.agreement import Pair
from judge.models import Desk, Reading
from webapp.console.doors import needs, person, said_aloud
from webapp.console.review.desk import signed
from webapp.console.review.queues import words

DISAGREEMENTS = 20
"""How many a page lists, the newest."""

LONGEST = 20_000
"""Characters of guidelines."""

WORDS = {"accept": gettext_noop("accept"), "reject": gettext_noop("reject"), "never": gettext_noop("never learn")}

KEYS = {"accept": "a", "reject": "r", "never": "n", "1": "+", "0": "0", "-1": "-", "none": "n"}


@dataclass(frozen=True)
class Shown:
    """Two reviewers by their names."""

    one: str
    other: str
    pair: Pair


@needs("review")
@require_GET
def reviewers(request: HttpRequest) -> HttpResponse:
    """Both desks: their rules, how far their reviewers agree, and what they disagree about."""
    compared = {desk: readings.compared(desk) for desk in Desk}
    people = {pk for one in compared.values() for pair in one.pairs for pk in (pair.one, pair.other)}
    names = dict(User.objects.filter(pk__in=people).values_list("pk", "username"))
    by, rules = person(request), readings.all_rules()
    desks = [
        {
            "name": desk.value,
            "rules": rules[desk],
            "compared": found,
            "pairs": [Shown(names[pair.one], names[pair.other], pair) for pair in found.pairs],
            "open": [shown(item) for item in found.open[:DISAGREEMENTS]],
            "open_count": len(found.open),
            "waiting": len(readings.waiting(desk, by, rules[desk].share)),
        }
        for desk, found in compared.items()
    ]
    return render(request, "review/reviewers.html", {"desks": desks, "longest": LONGEST})


def shown(item: readings.Item) -> dict[str, Any]:
    """A disagreement as the page shows it: who said what, and what may stand."""
    labels = list(dict.fromkeys(one.label for one in item.readings))
    return {
        "item": item,
        "first": item.readings[0],
        "said": [(one.by, worded(one.label), one.is_second) for one in item.readings],
        "choices": [(label, worded(label)) for label in labels],
    }


@needs("policies")
@require_POST
def set_rules(request: HttpRequest, desk: str) -> HttpResponse:
    """Change the guidelines of a desk, and of how many items of a hundred two reviewers read."""
    known(desk)
    share = request.POST.get("share", "").strip()
    guidelines = request.POST.get("guidelines", "").replace("\x00", "").replace("\r\n", "\n")[:LONGEST]
    of = int(share) if share.isdecimal() and len(share) < 4 else -1
    by = person(request)
    saved = said_aloud(request, lambda: readings.set_rules(desk, guidelines=guidelines, share=of, by=by))
    if saved is not None:
        messages.success(request, _("Saved."), extra_tags="good")
    return redirect("console:reviewers")


@needs("review")
@require_POST
def settle(request: HttpRequest, desk: str, pk: int) -> HttpResponse:
    """Let one of the words that differ stand."""
    known(desk)
    label, by = words(request.POST, "label", 8), person(request)
    try:
        readings.settle(desk, pk, label, by=by)
    except TalkbackError as failure:
        messages.error(request, str(failure), extra_tags="bad")
    else:
        messages.success(request, _("Settled: %(label)s.") % {"label": worded(label)}, extra_tags="good")
    return redirect("console:reviewers")


@needs("review")
@require_GET
def second_looks(request: HttpRequest, desk: str) -> HttpResponse:
    """The next item that waits for a second reviewer, without what the first one said."""
    known(desk)
    rules = readings.rules(desk)
    waiting = readings.waiting(desk, person(request), rules.share)
    about = Reading.objects.select_related("turn__session__user", "turn__checkpoint", "hint")
    first = about.filter(pk=waiting[0]).first() if waiting else None
    context: dict[str, Any] = {"desk": desk, "waiting": len(waiting), "first": first, "rules": rules}
    if first is not None:
        context |= {"turn": first.turn, "hint": first.hint}
        context["choices"] = [(label, worded(label), KEYS[label]) for label in readings.LABELS[Desk(desk)]]
    return render(request, "review/second_looks.html", context)


@needs("review")
@require_POST
def look(request: HttpRequest, desk: str, pk: int) -> HttpResponse:
    """What a second reviewer says."""
    known(desk)
    label, by = words(request.POST, "label", 8), person(request)
    said_aloud(request, lambda: readings.second(desk, pk, label, by=by))
    return redirect("console:second_looks", desk=desk)


@needs("review")
@require_POST
def take_back(request: HttpRequest, desk: str) -> HttpResponse:
    """Take back this reviewer's last second look."""
    known(desk)
    if readings.take_back(desk, person(request)) is None:
        messages.info(request, _("There is no second look of yours to take back."))
    return redirect("console:second_looks", desk=desk)


def worded(label: str) -> str:
    """A label as pages say it."""
    return _(WORDS[label]) if label in WORDS else signed(readings.REWARDS[label])


def known(desk: str) -> None:
    if desk not in Desk.values:
        raise Http404


urls = [
    path("reviewers/", reviewers, name="reviewers"),
    path("reviewers/<str:desk>/rules/", set_rules, name="reviewer_rules"),
    path("reviewers/<str:desk>/settle/<row:pk>/", settle, name="reviewer_settle"),
    path("second-looks/<str:desk>/", second_looks, name="second_looks"),
    path("second-looks/<str:desk>/<row:pk>/", look, name="second_look"),
    path("second-looks/<str:desk>/undo/", take_back, name="second_look_undo"),
]
