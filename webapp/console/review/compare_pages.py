"""Compare two checkpoints blind: ask both, choose without knowing which is which, then reveal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from chat.models import Turn
from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from evaluation import comparing
from evaluation.comparing import MOST_PROMPTS, USUAL_PROMPTS
from evaluation.models import Choice, Comparison
from judge.samples import exam_questions
from webapp.console.doors import needs, numbered, person, said_aloud
from webapp.console.review import differences
from webapp.console.review.differences import Piece
from webapp.console.views import settled

SHOWN = 20
"""Comparisons of the list, the newest first."""

SIDES = (("left", "1"), ("same", "2"), ("right", "3"))
"""What can be chosen, and by which key."""

BAR = 100.0
"""Width of the longest bar."""


@dataclass(frozen=True)
class Row:
    """One prompt with both replies, once it is known which is which."""

    prompt: str
    first: list[Piece]
    second: list[Piece]
    picked: dict[str, int]


@dataclass(frozen=True)
class Bar:
    """One layer: how far the two are apart there, beside how far each is from the base."""

    layer: str
    apart: float
    first: float
    second: float
    alike: float | None
    width: float


@needs("review")
@require_http_methods(["GET", "HEAD", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    """The form, filled in where an address says with what, and the comparisons so far."""
    fault, status = "", 200
    prompts = "\n".join(one.strip() for one in request.POST.get("prompts", "").splitlines() if one.strip())
    chosen = {name: request.POST.get(name) or request.GET.get(name, "") for name in ("first", "second")}
    if request.method == "POST":
        first, second = (numbered(chosen[name]) for name in ("first", "second"))
        try:
            if first is None or second is None:
                raise comparing.ComparisonRefused(_("Choose two checkpoints."))
            made = comparing.ask(first, second, prompts.splitlines(), by=person(request))
            return redirect("console:comparison", pk=made.pk)
        except TalkbackError as failure:
            fault, status = str(failure), 422
    elif turn := asked_about(request.GET.get("turn", "")):
        prompts = " ".join(comparing.question_of(turn).split())
        chosen["first"] = chosen["first"] or str(turn.checkpoint.number)
    choices = Checkpoint.objects.filter(let_go_at=None).exclude(status=Checkpoint.Status.REJECTED)
    live = Checkpoint.live()
    before = choices.exclude(pk=live.pk).order_by("-number").first()
    context = {
        "choices": choices.select_related("line").order_by("-number"),
        "first": chosen["first"] or str(live.number),
        "second": chosen["second"] or (str(before.number) if before else ""),
        "prompts": prompts,
        "usual": [question.prompt for question in exam_questions.questions()[:USUAL_PROMPTS]],
        "most": MOST_PROMPTS,
        "fault": fault,
        "rows": Comparison.objects.select_related("first", "second", "by").annotate(picks=Count("choices"))[:SHOWN],
    }
    return render(request, "evaluation/compare.html", context, status=status)


@needs("review")
@require_GET
def comparison(request: HttpRequest, pk: int) -> HttpResponse:
    """While it is asked: how far. Then one pair after the other, blind; after the last, everything."""
    shown = get_object_or_404(Comparison.objects.select_related("first", "second", "by"), pk=pk)
    user = person(request)
    is_over = shown.status != Comparison.Status.QUEUED
    context: dict[str, Any] = {"comparison": shown, "asked": len(shown.replies), "total": len(shown.prompts)}
    if shown.status == Comparison.Status.ANSWERED:
        if comparing.has_seen(shown, user):
            context |= seen(shown)
        else:
            context |= at_hand(shown, comparing.open_places(shown, user), request.GET.get("place", ""))
    return settled(request, render(request, "evaluation/comparison.html", context), is_over)


@needs("review")
@require_POST
def choose(request: HttpRequest, pk: int) -> HttpResponse:
    """One pick; the next pair follows."""
    shown = get_object_or_404(Comparison, pk=pk)
    place = request.POST.get("place", "")
    side = request.POST.get("side", "")
    said_aloud(
        request,
        lambda: comparing.choose(shown, int(place) if place.isdecimal() else -1, side, by=person(request)),
    )
    return redirect("console:comparison", pk=pk)


@needs("review")
@require_POST
def reveal(request: HttpRequest, pk: int) -> HttpResponse:
    comparing.reveal(get_object_or_404(Comparison, pk=pk), person(request))
    return redirect("console:comparison", pk=pk)


@needs("review")
@require_POST
def again(request: HttpRequest, pk: int) -> HttpResponse:
    shown = get_object_or_404(Comparison, pk=pk)
    said_aloud(request, lambda: comparing.again(shown))
    return redirect("console:comparison", pk=pk)


def asked_about(turn: str) -> Turn | None:
    """The turn that an address names, if it names one that is on the record: others are their person's alone."""
    try:
        pk = UUID(turn)
    except ValueError:
        return None
    on_record = Turn.objects.filter(learns=True, session__learns=True)
    return on_record.select_related("checkpoint").filter(pk=pk).first()


def at_hand(shown: Comparison, places: list[int], wanted: str) -> dict[str, Any]:
    """The pair to choose from, by the sides it is shown on; `wanted` is a place to come back to."""
    back = int(wanted) if wanted.isdecimal() and int(wanted) < len(shown.replies) else None
    place = back if back is not None else places[0]
    reply = shown.replies[place]
    left, right = (reply["second"], reply["first"]) if reply["is_swapped"] else (reply["first"], reply["second"])
    done = len(shown.replies) - len(places)
    return {
        "place": place,
        "prompt": reply["prompt"],
        "left": left,
        "right": right,
        "sides": SIDES,
        "done": done,
        "previous": place - 1 if place else None,
    }


def seen(shown: Comparison) -> dict[str, Any]:
    """All there is to see for who knows which is which."""
    picks = list(Choice.objects.filter(comparison=shown).values_list("place", "picked"))
    rows = []
    for place, reply in enumerate(shown.replies):
        first, second = differences.between(str(reply["first"]), str(reply["second"]))
        here = [picked for at, picked in picks if at == place]
        counts = {name: here.count(name) for name in ("first", "second", "same")}
        rows.append(Row(str(reply["prompt"]), first, second, counts))
    tally = comparing.tally(shown)
    between = comparing.tally_between(shown.first, shown.second)
    return {
        "rows": rows,
        "tally": tally,
        "between": between,
        "is_more": between != tally,
        "verdict": verdict(shown, between),
        "bars": bars(shown.distances),
    }


def verdict(shown: Comparison, tally: comparing.Tally) -> str:
    """What all blind choices between these two come to, in a sentence."""
    sides = {"first": shown.first, "second": shown.second}
    told = tally.first + tally.second
    if not told:
        same = [_("All who looked saw no difference.")] if tally.same else []
        return " ".join([_("No preference yet."), *same, _("Seven choices for the same one would tell.")])
    numbers: dict[str, Any] = {"choices": max(tally.first, tally.second), "all": told}
    if tally.is_known:
        best = sides[tally.ahead]
        said = _("People prefer %(checkpoint)s: %(choices)s of %(all)s choices, more than chance would give.")
        return said % (numbers | {"checkpoint": best})
    if tally.ahead:
        ahead = _("%(checkpoint)s is ahead with %(choices)s of %(all)s.") % (
            numbers | {"checkpoint": sides[tally.ahead]}
        )
    else:
        ahead = _("They are level, %(first)s to %(second)s.") % {"first": tally.first, "second": tally.second}
    if tally.needed is None:
        then = _("No realistic number of choices could tell them apart like this.")
    else:
        then = _("About %(n)s more, chosen likewise, would tell; until then it may be chance.") % {"n": tally.needed}
    return f"{ahead} {then}"


def bars(distances: list[dict[str, Any]]) -> list[Bar]:
    longest = max((row["apart"] for row in distances), default=0.0)
    return [Bar(**row, width=round(BAR * row["apart"] / longest, 1) if longest else 0.0) for row in distances]


urls = [
    path("compare/", index, name="compare"),
    path("compare/<row:pk>/", comparison, name="comparison"),
    path("compare/<row:pk>/choose/", choose, name="comparison_choose"),
    path("compare/<row:pk>/reveal/", reveal, name="comparison_reveal"),
    path("compare/<row:pk>/again/", again, name="comparison_again"),
]
