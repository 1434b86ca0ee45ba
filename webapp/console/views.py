"""The operator's pages: find, call, show. For staff only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar
from uuid import UUID

from asgiref.sync import async_to_sync
from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from chat.models import Turn
from core.errors import TalkbackError
from gpu_workers.errors import EngineUnavailable
from judge import pooling, redaction
from judge.models import Examination, Judgement, Overruling
from training import batches, config, forecast, hours, promotion
from training.models import Checkpoint, Run
from webapp.console import curves, differences, fragments, heat, panels
from webapp.console.board import counted, waiting
from webapp.journey import journey

View = Callable[..., HttpResponse]
Result = TypeVar("Result")


def for_staff(view: View) -> View:
    """Nobody else gets in: strangers are asked to sign in, others are told no."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        if not request.user.is_staff:
            raise PermissionDenied("The console is for those who run this Talkback.")
        return never_cache(view)(request, *args, **kwargs)

    return guarded


@for_staff
@require_GET
def board(request: HttpRequest) -> HttpResponse:
    return render(request, "console/board.html", fragments.context(request.GET.get("status", "")))


@for_staff
@require_GET
def checkpoints(request: HttpRequest) -> HttpResponse:
    rows = Checkpoint.objects.select_related("line", "parent", "run", "examination").annotate(
        replies=Count("turns", distinct=True), lessons=Count("run__samples", distinct=True)
    )
    rows = rows.order_by("-number")
    return render(request, "console/checkpoints.html", {"checkpoints": rows})


@for_staff
@require_GET
def checkpoint(request: HttpRequest, number: int) -> HttpResponse:
    shown = get_object_or_404(Checkpoint.objects.select_related("line", "parent", "run"), number=number)
    examination = Examination.objects.select_related("against").filter(checkpoint=shown).first()
    line = lineage(shown)
    lessons = pooling.judged(shown.run) if shown.run else Judgement.objects.none()
    response = render(
        request,
        "console/checkpoint.html",
        {
            "checkpoint": shown,
            "line": line,
            "examination": examination,
            "pairs": [pair_of(pair) for pair in examination.pairs] if examination else [],
            "lessons": lessons.select_related("turn__session", "turn__checkpoint", "sample").order_by(
                "turn__created_at"
            ),
            "curves": curves.curves([ancestor.run.metrics for ancestor in line if ancestor.run]) if shown.run else [],
            "decisions": shown.decisions.select_related("by"),
            "live": Checkpoint.live(shown.line_id),
            "previous": promotion.previous(shown.line_id),
            "panels": panels.panels(shown, person(request)),
        },
    )
    return settled(request, response, shown.status not in (Checkpoint.Status.CANDIDATE, Checkpoint.Status.APPROVED))


@for_staff
@require_GET
def turn(request: HttpRequest, pk: UUID) -> HttpResponse:
    shown = get_object_or_404(Turn.objects.select_related("session__user", "checkpoint"), pk=pk)
    shown.journey = journey(shown)  # type: ignore[attr-defined]
    judgement = Judgement.objects.filter(turn=shown).select_related("sample__run__checkpoint").first()
    tokens = heat.tokens(judgement.teacher) if judgement else []
    return render(
        request,
        "console/turn.html",
        {
            "turn": shown,
            "judgement": judgement,
            "sample": judgement.sample if judgement else None,
            "votes": shown.votes.order_by("-question", "index", "pk"),
            "feedback": shown.feedback.select_related("by"),
            "hints": shown.hints.select_related("decided_by").defer("teacher"),
            "overruling": Overruling.objects.select_related("by").filter(turn=shown).first(),
            "tokens": tokens,
            "heat_sentence": heat.sentence(tokens) if tokens else "",
            "removed": removed_from(shown),
        },
    )


def removed_from(turn: Turn) -> list[redaction.Before]:
    """What of this turn's texts, and of those that say how it should have been, is removed before it is learned."""
    said = turn.feedback.filter(withdrawn_at=None).exclude(text="").values_list("text", flat=True)
    return redaction.shown(turn, list(said)) if turn.learns and turn.session.learns else []


@for_staff
@require_POST
def learn_now(request: HttpRequest) -> HttpResponse:
    started = said_aloud(request, lambda: batches.learn_now(config.current()))
    if started:
        learns = f"{str(started).capitalize()} learns from {counted(started.samples.count(), 'sample')}."
        messages.success(request, learns, extra_tags="good")
        if wait := hours.waiting(started):
            messages.warning(request, wait.sentence(started.samples.count()), extra_tags="warn")
    return redirect("console:board")


@for_staff
@require_GET
def dry_run(request: HttpRequest) -> HttpResponse:
    """What "learn now" would take: nothing is started."""
    expected = None
    try:
        expected = forecast.of_ready(config.current())
        said = expected.sentence
    except TalkbackError as failure:
        said = str(failure)
    if request.headers.get("HX-Request"):
        return render(request, "console/_forecast.html", {"sentence": said})
    active = Run.objects.filter(status__in=(Run.Status.QUEUED, Run.Status.RUNNING)).first()
    context = {
        "forecast": expected,
        "sentence": said,
        "busy": active,
        "held": waiting(active),
        "ready": expected.samples if expected else 0,
    }
    return render(request, "console/forecast.html", context)


@for_staff
@require_POST
def approve(request: HttpRequest, number: int) -> HttpResponse:
    """A person's yes, and at once the swap. Should this process end in between, the pipeline does the swap."""
    candidate = get_object_or_404(Checkpoint, number=number)
    by, reason = person(request), request.POST.get("reason", "").strip()

    def go_live() -> Checkpoint | None:
        promotion.approve(candidate, by=by, reason=reason)
        try:
            return async_to_sync(promotion.promote)(candidate, by=by)
        except EngineUnavailable as away:
            messages.warning(request, f"Approved; it goes live once the engine is back. {away}", extra_tags="warn")
            return None

    if live := said_aloud(request, go_live):
        messages.success(request, f"{live} is live: it writes every new reply.", extra_tags="good")
    return redirect("console:checkpoint", number=number)


@for_staff
@require_POST
def reject(request: HttpRequest, number: int) -> HttpResponse:
    candidate = get_object_or_404(Checkpoint, number=number)
    reason = request.POST.get("reason", "").strip()
    if reason:
        said_aloud(request, lambda: promotion.reject(candidate, by=person(request), reason=reason))
    else:
        messages.error(request, "Say in a few words why, so that others can learn from it.", extra_tags="bad")
    return redirect("console:checkpoint", number=number)


@for_staff
@require_POST
def roll_back(request: HttpRequest) -> HttpResponse:
    """Back to `to`, or to what was live before; `instead_of` is what this person saw live."""
    to, seen = (numbered(request.POST.get(name, "")) for name in ("to", "instead_of"))
    by, reason = person(request), request.POST.get("reason", "").strip()
    call = async_to_sync(promotion.roll_back)
    if live := said_aloud(request, lambda: call(to=to, by=by, reason=reason, instead_of=seen)):
        messages.success(request, f"{live} is live again: it writes the next reply.", extra_tags="good")
    return redirect("console:board")


def settled(request: HttpRequest, response: HttpResponse, is_over: bool) -> HttpResponse:
    """A page that was looking again by itself is loaded whole once there is nothing more to wait for."""
    polled = request.headers.get("HX-Request") and not request.headers.get("HX-Boosted")
    if is_over and polled:
        response["HX-Refresh"] = "true"
    return response


def person(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # for_staff let nobody else in
    return request.user


def numbered(number: str) -> Checkpoint | None:
    """The checkpoint a form names; None when it names none. An unknown number is a 404."""
    return get_object_or_404(Checkpoint, number=int(number)) if number.isdecimal() else None


def said_aloud(request: HttpRequest, act: Callable[[], Result]) -> Result | None:
    """What `act` returns; a failure with a name becomes a sentence on the next page, and None."""
    try:
        return act()
    except TalkbackError as failure:
        messages.error(request, str(failure), extra_tags="bad")
        return None


def lineage(checkpoint: Checkpoint) -> list[Checkpoint]:
    """From the base to this checkpoint, each the parent of the next."""
    known = {row.pk: row for row in Checkpoint.objects.select_related("run").filter(number__lte=checkpoint.number)}
    line = [known[checkpoint.pk]]
    while line[-1].parent_id is not None:
        line.append(known[line[-1].parent_id])
    return line[::-1]


def pair_of(pair: Mapping[str, Any]) -> dict[str, Any]:
    """One held-out prompt as the page shows it: both replies with what differs, and each one's numbers."""
    live, candidate = differences.between(str(pair.get("live", "")), str(pair.get("candidate", "")))
    numbers = {
        side: {
            name.removeprefix(f"{side}_"): value
            for name, value in pair.items()
            if name.startswith(f"{side}_") and isinstance(value, (int, float))
        }
        for side in ("live", "candidate")
    }
    return {"prompt": pair.get("prompt", ""), "live": live, "candidate": candidate, "numbers": numbers}
