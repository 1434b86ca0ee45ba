"""Take thumbs with their reasons, marks and corrections that people give on a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from chat.models import Turn
from chat.rendering import markdown
from chat.turns import TurnUnfinished
from checkpoints.models import Checkpoint
from core.htmx import is_htmx
from feedback import signals
from feedback.forms import LONGEST, FeedbackForm, MarkForm, unfold
from feedback.models import Feedback, MarksInvalid


@require_GET
@login_required
@never_cache
def bring(request: HttpRequest, turn_id: UUID, box: str) -> HttpResponse:
    """What is in a box under a reply, on its first use: feedback/_teach.html or feedback/_marking.html."""
    turn = get_object_or_404(Turn.objects.visible_to(request.user).select_related("session__key"), pk=turn_id)
    return render(request, f"feedback/_{box}.html", {"turn": turn})


@require_POST
@login_required
def give(request: HttpRequest, turn_id: UUID) -> HttpResponse:
    """Say, change or take back one thing; the bar under the reply comes back as it then stands."""
    turn = get_object_or_404(Turn.objects.visible_to(request.user).select_related("session"), pk=turn_id)
    form = FeedbackForm(request.POST)
    if form.is_valid() and says_nothing_new(turn, **form.cleaned_data):
        form.add_error(None, gettext("That is what the reply said: write what it should have said instead."))
    if form.is_valid():
        try:
            apply(turn, request, **form.cleaned_data)
        except TurnUnfinished as unfinished:
            form.add_error(None, str(unfinished))
    status = 422 if form.errors else 200
    # What was taken back may have been learned: the person who did so reads at once where it is.
    taken_back = form.is_valid() and is_taken_back(request, **form.cleaned_data)
    tainted = signals.checkpoints_tainted_by(turn.pk) if taken_back else []
    if not is_htmx(request):
        if tainted:
            messages.warning(request, gettext("Taken back.") + " " + describe_weights(tainted), extra_tags="warn")
        return redirect(f"{reverse('chat:session', args=[turn.session_id])}{after_thumb(turn, form)}")
    context = {"turn": turn, "form": form, "answered": True, "tainted": describe_weights(tainted) if tainted else ""}
    return render(request, "feedback/_answered.html", context, status=status)


@require_POST
@login_required
def mark(request: HttpRequest, turn_id: UUID) -> HttpResponse:
    """Mark words, or take a mark off them; the reply comes back with its marks as they then stand."""
    turn = get_object_or_404(Turn.objects.visible_to(request.user).select_related("session"), pk=turn_id)
    form = MarkForm(request.POST)
    trouble = "" if form.is_valid() else gettext("Select some words of the reply, and mark them again.")
    if not trouble:
        try:
            set_mark(turn, cast(User, request.user), **form.cleaned_data)
        except (TurnUnfinished, MarksInvalid) as refused:
            trouble = str(refused)
    if not is_htmx(request):
        return redirect("chat:session", turn.session_id)
    sign = form.cleaned_data.get("value")
    tainted = signals.checkpoints_tainted_by(turn.pk) if sign == 0 and not trouble else []
    context = {
        "turn": turn,
        "trouble": trouble,
        "sign": sign,
        "pushed": True,
        "tainted": describe_weights(tainted) if tainted else "",
    }
    return render(request, "feedback/_marked.html", context, status=422 if trouble else 200)


def set_mark(turn: Turn, by: User, *, start: int, end: int, value: int, words: str, plain: bool) -> None:
    """Set it where the person saw these words. Raises MarksInvalid where they do not stand there, or TurnUnfinished."""
    if plain:
        start, end = (unfold(turn.text, min(at, len(turn.text))) for at in (start, end))
    there = turn.text[start:end].replace("\r\n", "\n") if plain else markdown.shown_text(turn.text, start, end)
    if words and words.replace("\r\n", "\n") != there:
        raise MarksInvalid(
            gettext("These are not the words of the reply as it stands: reload the page, and mark them again.")
        )
    Feedback.objects.mark(turn, by=by, start=start, end=end, sign=value)


@require_POST
@login_required
def difference(request: HttpRequest, turn_id: UUID) -> HttpResponse:
    """What a rewrite changes of the reply, before it is sent."""
    turn = get_object_or_404(Turn.objects.visible_to(request.user).only("text", "session"), pk=turn_id)
    rewrite = request.POST.get("text", "")[:LONGEST].replace("\r\n", "\n")
    return render(request, "feedback/_difference.html", {"turn": turn, "rewrite": rewrite})


def after_thumb(turn: Turn, form: FeedbackForm) -> str:
    """After a thumb down the page comes back with the box open that asks what to do next time."""
    is_down = form.is_valid() and form.cleaned_data["value"] == -1
    return f"?open=teach-{turn.pk}#turn-{turn.pk}" if is_down else ""


def says_nothing_new(turn: Turn, *, kind: str, text: str | None, **_: object) -> bool:
    """A rewrite that is the reply itself: the box was sent as it was found."""
    return kind == Feedback.Kind.REWRITE and text == turn.text.strip()


def is_taken_back(request: HttpRequest, *, value: int, text: str | None, **_: object) -> bool:
    return "take_back" in request.POST or not (value or text)


def describe_weights(tainted: Sequence[Checkpoint]) -> str:
    """Which weights hold what was taken back, as its person is told."""
    names = ", ".join(str(one) for one in tainted)
    return gettext("It was learned already, and is in the weights of %(names)s still.") % {"names": names}


def apply(turn: Turn, request: HttpRequest, *, kind: str, value: int, text: str | None, tags: list[str] | None) -> None:
    """An empty correction and a thumb of 0 take back what was said; a thumb that stands already stays. Reasons
    change no thumb: they are sent beside it, and may arrive after a later one."""
    by = cast(User, request.user)  # login_required saw to it
    if kind == Feedback.Kind.THUMB and "tags" in request.POST:
        Feedback.objects.say_why(turn, by=by, value=value, text=text, tags=tags)
    elif is_taken_back(request, value=value, text=text):
        Feedback.objects.withdraw(turn, by=by, kind=kind)
    else:
        Feedback.objects.give(turn, by=by, kind=kind, value=value, text=text, tags=tags)
