"""Show and change lines of checkpoints: whose model there is beside the shared one, its people, its recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asgiref.sync import async_to_sync
from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import Prefetch, Q, QuerySet, prefetch_related_objects
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from checkpoints import lines, promotion
from checkpoints.models import Checkpoint, Line, Member
from core.errors import TalkbackError
from privacy import membership
from training import batches, line_recipes
from training.batches import Filling
from training.config import RecipeInvalid
from training.models import Run
from webapp.console.doors import needs, numbered, person, said_aloud

RUNS = 5
"""How many of a line's newest runs are listed."""


@dataclass(frozen=True)
class Standing:
    """One line and how it stands."""

    line: Line
    live: Checkpoint
    previous: Checkpoint | None
    """What a step back goes to."""
    members: list[Member]
    ready: int
    """Samples that "learn now" could claim."""
    batch: Filling | None
    """The next batch of them; None while the recipe cannot be used."""
    fault: str
    """Why not."""
    runs: list[Run]
    passed: list[Checkpoint]
    """Those that wait for a person's yes."""

    @property
    def set_aside(self) -> int:
        """Those of the samples that no run takes by itself."""
        return self.ready - self.batch.ready if self.batch else 0


def standings(lines: Sequence[Line], previous: Mapping[str, Checkpoint] | None = None) -> list[Standing]:
    """How each of these lines stands; `previous` is `promotion.previous_of_all`, where it is known."""
    recipes, faults = {}, {}
    for line in lines:
        try:
            recipes[line.name] = line_recipes.recipe_of_row(line)
        except RecipeInvalid as failure:
            faults[line.name] = str(failure)
    filled, before = batches.fillings(recipes), promotion.previous_of_all(lines) if previous is None else previous
    return [_standing(line, before.get(line.name), filled.get(line.name), faults.get(line.name, "")) for line in lines]


def _standing(line: Line, previous: Checkpoint | None, batch: Filling | None, fault: str) -> Standing:
    checkpoints = sorted(line.checkpoints.all(), key=lambda one: one.number)
    live = next((one for one in checkpoints if one.status == Checkpoint.Status.LIVE), None)
    return Standing(
        line=line,
        live=live or line.start or Checkpoint.live(line.name),
        previous=previous,
        members=sorted(line.members.all(), key=lambda one: one.user.username),
        ready=batch.ready + batch.set_aside if batch else line.samples.filter(status="ready").count(),
        batch=batch,
        fault=fault,
        runs=line.newest_runs if hasattr(line, "newest_runs") else list(_newest(line.runs.all())),
        passed=[one for one in checkpoints if one.status == Checkpoint.Status.PASSED],
    )


def _newest(runs: QuerySet[Run]) -> QuerySet[Run]:
    return runs.defer("metrics", "usage").order_by("-pk")[:RUNS]


@needs("training")
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """Every line, the shared one first and the retired ones last."""
    lines = list(Line.objects.select_related("start"))
    lines.sort(key=lambda line: (line.retired_at is not None, not line.is_shared))
    before = promotion.numbers_before(lines)
    shown = Q(status__in=(Checkpoint.Status.LIVE, Checkpoint.Status.PASSED)) | Q(number__in=before.values())
    checkpoints = Checkpoint.objects.with_taints().defer("probe", "made").filter(shown)
    newest = Prefetch("runs", _newest(Run.objects.all()), to_attr="newest_runs")
    members = Prefetch("members", Member.objects.select_related("user"))
    prefetch_related_objects(lines, members, Prefetch("checkpoints", checkpoints), newest)
    known = {one.number: one for line in lines for one in line.checkpoints.all()}
    rows = standings(lines, {name: known[number] for name, number in before.items()})
    waiting = sorted((one for row in rows for one in row.passed if not one.is_on_hold), key=lambda one: one.number)
    request.standing = promotion.Answering(rows[0].live, rows[0].previous, waiting)  # type: ignore[attr-defined]  # as `way_back` leaves it
    context = {
        "standings": rows,
        "people": User.objects.filter(is_active=True).order_by("username")[:500],
        "shared_live": rows[0].live,
    }
    return render(request, "training/lines.html", context)


@needs("training")
@require_POST
def make(request: HttpRequest) -> HttpResponse:
    """A new line, with the people who were named."""
    start = Checkpoint.live() if request.POST.get("start") == "live" else None

    def made() -> Line:
        people = [found(name) for name in request.POST.get("people", "").replace(",", " ").split()]
        line = lines.make(request.POST.get("title", ""), start=start)
        for user in people:
            membership.join(line, user)
        return line

    if line := said_aloud(request, made):
        said = _("“%(line)s” begins with %(start)s.") % {"line": line, "start": line.start}
        messages.success(request, said, extra_tags="good")
    return redirect("console:lines")


@needs("training")
@require_POST
def join(request: HttpRequest, name: str) -> HttpResponse:
    line = get_object_or_404(Line, name=name)
    if member := said_aloud(request, lambda: membership.join(line, found(request.POST.get("person", "").strip()))):
        said = _("“%(line)s” writes the next reply to %(person)s.") % {"line": line, "person": member.user}
        messages.success(request, said, extra_tags="good")
    return redirect("console:lines")


@needs("training")
@require_POST
def leave(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    member = get_object_or_404(Member.objects.select_related("user"), line=name, user=pk)

    def left() -> bool:
        membership.leave(member.user)
        return True

    if said_aloud(request, left):
        said = _("The shared model writes the next reply to %(person)s.") % {"person": member.user}
        messages.success(request, said, extra_tags="good")
    return redirect("console:lines")


@needs("training")
@require_POST
def learn(request: HttpRequest, name: str) -> HttpResponse:
    line = get_object_or_404(Line, name=name, retired_at=None)
    if run := said_aloud(request, lambda: batches.learn_now(line_recipes.recipe_of(name), name)):
        count = run.samples.count()
        said = ngettext(
            "Run %(run)s learns from %(n)s lesson of “%(line)s”.",
            "Run %(run)s learns from %(n)s lessons of “%(line)s”.",
            count,
        )
        messages.success(request, said % {"run": run.pk, "n": count, "line": line}, extra_tags="good")
    return redirect("console:lines")


@needs("training")
@require_POST
def step_back(request: HttpRequest, name: str) -> HttpResponse:
    """To what answered before in this line; `instead_of` is what this person saw live."""
    line = get_object_or_404(Line, name=name, retired_at=None)
    seen, by = numbered(request.POST.get("instead_of", "")), person(request)
    back = async_to_sync(promotion.roll_back)
    if live := said_aloud(request, lambda: back(line=name, by=by, instead_of=seen)):
        said = _("%(checkpoint)s writes the next reply in “%(line)s”.") % {"checkpoint": live, "line": line}
        messages.success(request, said, extra_tags="good")
    return redirect("console:lines")


@needs("training")
@require_POST
def retire(request: HttpRequest, name: str) -> HttpResponse:
    line = get_object_or_404(Line, name=name)

    def retired() -> bool:
        membership.retire(line)
        return True

    if said_aloud(request, retired):
        said = _("“%(line)s” is retired: its people talk to the shared model, its weights are kept.") % {"line": line}
        messages.success(request, said, extra_tags="good")
    return redirect("console:lines")


class PersonUnknown(TalkbackError):
    """No person here has that name."""

    code, status = "person_unknown", 404


def found(name: str) -> User:
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        if not name:
            raise PersonUnknown(_("Say who: a person's name."))
        raise PersonUnknown(_("No person here is called %(name)r.") % {"name": name})
    return user


urls = [
    path("lines/", home, name="lines"),
    path("lines/make/", make, name="line_make"),
    path("lines/<slug:name>/join/", join, name="line_join"),
    path("lines/<slug:name>/leave/<row:pk>/", leave, name="line_leave"),
    path("lines/<slug:name>/learn/", learn, name="line_learn"),
    path("lines/<slug:name>/step-back/", step_back, name="line_step_back"),
    path("lines/<slug:name>/retire/", retire, name="line_retire"),
]
