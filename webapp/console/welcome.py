"""Lead a new installation through its first lesson in three steps: ask, teach, approve."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST
from kombu.exceptions import OperationalError

from checkpoints.models import Checkpoint
from training.models import Run
from webapp import sample_lesson
from webapp.console.board import Board
from webapp.console.doors import needs, person
from webapp.notifications.models import PutAway
from webapp.sample_lesson import Progress
from webapp.tasks import ask_samples

NAME = "welcome"


@dataclass(frozen=True)
class Step:
    """One of the three. The template has its words, its bar and its one button by `state`."""

    key: str
    """ask | teach | approve"""
    state: str
    """later | done, or what is to be done or at work: ask, asking; teach, judging, learn, learning; exam, decide,
    refused"""
    done: int = 0
    total: int = 0
    """How full its bar is; of 0 there is none."""

    @property
    def title(self) -> str:
        return {"ask": _("Ask"), "teach": _("Teach"), "approve": _("Approve")}[self.key]

    @property
    def is_open(self) -> bool:
        return self.state not in ("later", "done")


@dataclass(frozen=True)
class Welcome:
    steps: tuple[Step, Step, Step]
    refused: Checkpoint | None = None
    """The newest candidate that the exam turned down, where that is how it stands."""


def welcome(user: User, board: Board) -> Welcome | None:
    """How far the first lesson is; None where it is over, here or for this person."""
    counts = board.facts.counts["checkpoints"]
    if counts["live"] + counts["retired"] > 1 or PutAway.objects.filter(person=user, name=NAME).exists():
        return None
    steps = decide(board, sample_lesson.progress(user))
    refused = steps[2].state == "refused"
    newest = Checkpoint.objects.filter(status=Checkpoint.Status.REJECTED).order_by("-number") if refused else None
    return Welcome(steps, newest.first() if newest is not None else None)


def decide(board: Board, sample: Progress) -> tuple[Step, Step, Step]:
    """The steps, from what the rows say. Asks nothing of the database.

    Whatever a person asked and taught in chats of their own counts as well as the sample.
    """
    facts = board.facts
    turns, checkpoints, run = facts.counts["turns"], facts.counts["checkpoints"], facts.run
    has_talked = turns["served"] + turns["observed"] + turns["judged"] > 0
    has_learned = any(checkpoints[state] for state in ("candidate", "passed", "approved", "rejected"))
    is_learning = run is not None and run.status in (Run.Status.QUEUED, Run.Status.RUNNING)
    ask = Step("ask", "done") if has_talked else Step("ask", "ask")
    if sample.asked and sample.written < sample.asked and not has_learned:
        ask = Step("ask", "asking", sample.written, sample.total)
    if has_learned and not is_learning:
        return Step("ask", "done"), Step("teach", "done"), approve(board)
    if is_learning:
        share = round(100 * ((run.progress if run else {}) or {}).get("share", 0))
        return Step("ask", "done"), Step("teach", "learning", share, 100), Step("approve", "later")
    return ask, teach(ask, sample, facts.claimable, turns["observed"]), Step("approve", "later")


def teach(ask: Step, sample: Progress, claimable: int, in_judging: int) -> Step:
    if ask.state != "done":
        return Step("teach", "later")
    if sample.written > sample.taught:
        return Step("teach", "teach")
    if sample.taught > sample.judged:
        return Step("teach", "judging", sample.judged, sample.taught)
    if claimable:
        return Step("teach", "learn")
    return Step("teach", "judging") if in_judging else Step("teach", "teach")


def approve(board: Board) -> Step:
    facts = board.facts
    if facts.passed or facts.approved:
        return Step("approve", "decide")
    if facts.candidate:
        stop = next(one for one in board.stations if one.key == "examine")
        return Step("approve", "exam", stop.done, stop.total)
    return Step("approve", "refused")


@needs("training")
@require_POST
def ask(request: HttpRequest) -> HttpResponse:
    """Have a worker ask the sample's questions."""
    try:
        ask_samples.apply_async((person(request).pk,), retry=False)
    except OperationalError:
        messages.error(request, _("Redis does not answer: start it, and press again."), extra_tags="bad")
    return redirect("console:board")


@needs("training")
@require_POST
def teach_sample(request: HttpRequest) -> HttpResponse:
    """Say the sample's wish of its replies; without a sample the person teaches in a chat."""
    if not sample_lesson.teach(person(request)):
        return redirect("chat:home")
    return redirect("console:board")


@needs("training")
@require_POST
def put_away(request: HttpRequest) -> HttpResponse:
    """Show this person no welcome any more."""
    PutAway.objects.get_or_create(person=person(request), name=NAME)
    return redirect("console:board")


urls = [
    path("welcome/ask/", ask, name="welcome_ask"),
    path("welcome/teach/", teach_sample, name="welcome_teach"),
    path("welcome/put-away/", put_away, name="welcome_put_away"),
]
