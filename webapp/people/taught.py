"""Show what a person taught beside a reply, reword it, take it back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from chat.models import Turn
from chat.turns import TurnUnfinished
from core.errors import TalkbackError
from core.htmx import is_htmx
from feedback.forms import LONGEST
from feedback.models import Feedback
from feedback.views import describe_weights
from judge.hints import back_references, standing_hints, wish_words
from judge.models import Hint
from training.provenance import taints
from webapp.console.doors import person

app_name = "taught"

KINDS = (Feedback.Kind.GUIDANCE, Feedback.Kind.REWRITE, Feedback.Kind.THUMB)
"""What is shown under a reply, in this order. Marks are on the reply itself."""

THEIRS = (Hint.Source.USER, Hint.Source.SAID)
STANDS = (Hint.Status.ACCEPTED, Hint.Status.EDITED)


class NotAWish(TalkbackError):
    """These words are no wish for every reply."""

    code, status, param = "not_a_wish", 422, "text"


@dataclass(frozen=True)
class Worded:
    """Guidance, and the wish that is taught of it."""

    said: str
    """The person's own words."""
    text: str = ""
    """What is taught; empty while it waits for the person's wording."""
    suggestion: str = ""
    """Where it waits: the best try."""

    @property
    def waits(self) -> bool:
        return not self.text

    @property
    def is_turned(self) -> bool:
        """True where other words are taught than those that were said."""
        return bool(self.text) and self.text != self.said


def worded(said: Feedback) -> Worded:
    """What of this guidance is taught."""
    if said.wish:
        return Worded(said.text, said.wish)
    wish = wish_words.word_wish(said.text)
    return Worded(said.text, wish.text) if wish else Worded(said.text, "", wish_words.suggest_wish(said.text))


def word(turn: Turn, by: User, text: str) -> Feedback:
    """Let the person's guidance on this turn be taught in these words. Raises NotAWish, with a sentence, for words that
    speak of an earlier reply, and where no guidance stands; TurnUnfinished as `Feedback.objects.give` does."""
    text = text.replace("\r\n", "\n").strip()
    if not text:
        raise NotAWish(_("Write what every reply should do."))
    if len(text) > LONGEST:
        said = _("A wish may have at most %(most)s characters; this has %(n)s.")
        raise NotAWish(said % {"most": LONGEST, "n": len(text)})
    if back := back_references.find_references(text):
        raise NotAWish(back_references.refusal(back))
    if not Feedback.objects.standing().filter(turn=turn, by=by, kind=Feedback.Kind.GUIDANCE).exists():
        raise NotAWish(_("There is no guidance on this reply any more: write it anew."))
    return Feedback.objects.give(turn, by=by, kind=Feedback.Kind.GUIDANCE, wish=text)


def told(said: Feedback | None) -> dict[str, Any] | None:
    """The wish that guidance comes to, as the API tells it; None without guidance."""
    if said is None:
        return None
    one = worded(said)
    return {
        "said": one.said,
        "text": one.text or None,
        "waits": one.waits,
        "suggestion": one.suggestion or None,
        "refers_back": [back.text for back in back_references.find_references(said.text)] if one.waits else [],
    }


def guidance_of(turn: Turn, by: User) -> Feedback | None:
    return Feedback.objects.standing().filter(turn=turn, by=by, kind=Feedback.Kind.GUIDANCE).first()


def heard(turn: Turn) -> list[Hint]:
    """The accepted hints that were read out of the person's next message."""
    rows = Hint.objects.filter(turn=turn, source__in=THEIRS, status__in=STANDS)
    return list(rows.defer("teacher"))


def heard_among(hints: Iterable[Hint]) -> Mapping[UUID, list[Hint]]:
    """The same of many turns, by turn, from the hints on them."""
    found: dict[UUID, list[Hint]] = defaultdict(list)
    for hint in hints:
        if hint.source in THEIRS and hint.status in STANDS:
            found[hint.turn_id].append(hint)
    return found


# On the page


@require_POST
@login_required
def put(request: HttpRequest, turn_id: UUID) -> HttpResponse:
    """Say what holds for every reply; what is taught comes back as it then stands, or what is wrong with the words."""
    turn = visible_turn(request, turn_id)
    text = request.POST.get("text", "")
    trouble = ""
    try:
        word(turn, person(request), text)
    except (NotAWish, TurnUnfinished) as refused:
        trouble = str(refused)
    if not is_htmx(request):
        if trouble:
            messages.error(request, trouble, extra_tags="warn")
        return redirect("chat:session", turn.session_id)
    context = {"turn": turn, "trouble": trouble, "typed": text if trouble else "", "answered": not trouble}
    return render(request, "feedback/_taught.html", context, status=422 if trouble else 200)


@require_POST
@login_required
def undo(request: HttpRequest, turn_id: UUID) -> HttpResponse:
    """Take back one thing that was taught: what the person said of one kind, or a hint of their next message."""
    turn = visible_turn(request, turn_id)
    kind, by = request.POST.get("kind", ""), person(request)
    trouble = ""
    if kind in KINDS:
        Feedback.objects.withdraw(turn, by=by, kind=kind)
    else:
        named = request.POST.get("hint", "")
        chosen = [hint for hint in heard(turn) if str(hint.pk) == named]
        trouble = " ".join(standing_hints.forgo(chosen, by=by)[1])
    tainted = taints.tainted_by(turn.pk)
    kept = describe_weights(tainted) if tainted else ""
    if not is_htmx(request):
        if trouble or kept:
            messages.warning(request, trouble or _("Taken back. %(kept)s") % {"kept": kept}, extra_tags="warn")
        return redirect("chat:session", turn.session_id)
    context = {"turn": turn, "form": None, "answered": False, "tainted": kept, "trouble": trouble}
    return render(request, "feedback/_taken_back.html", context)


def visible_turn(request: HttpRequest, pk: UUID) -> Turn:
    turns = Turn.objects.visible_to(request.user).select_related("session", "checkpoint")
    return get_object_or_404(turns, pk=pk)


urlpatterns = [
    path("turns/<uuid:turn_id>/wish/", put, name="put"),
    path("turns/<uuid:turn_id>/undo/", undo, name="undo"),
]
