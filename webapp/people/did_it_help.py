"""Show whether talking helped: what feedback, blind choices and the control say of what was learned, and what got
worse. A person sees their own; operators see a line's, with all its people counted together and without their words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from checkpoints.models import SHARED, Checkpoint, Line
from core import statistics
from core.htmx import is_htmx
from core.statistics import MOST_CHOICES, Tally
from evaluation import blind, helped, pair_figures
from evaluation.blind import PairGone
from evaluation.helped import Contrast, Evidence
from webapp.charts import course, shares
from webapp.console.doors import marked, needs, person

KEYS = (("a", gettext_lazy("A, rather")), ("b", gettext_lazy("B, rather")), ("skip", gettext_lazy("Skip")))
"""What can be answered to the blind question; the first letter is its key."""


@dataclass(frozen=True)
class Note:
    """Why there is less to see than there might be, and what to do about it."""

    text: str
    link: str = ""
    url: str = ""


@dataclass(frozen=True)
class Answer:
    """The page's own question, answered as far as it can be."""

    word: str
    tone: str
    sentence: str


@require_GET
@login_required
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    """Everything of this person's, and the next pair to choose from."""
    user = person(request)
    evidence = helped.of_person(user)
    return marked(render(request, "evaluation/helped.html", told(evidence) | asked(request, choices=evidence.choices)))


@needs("review")
@require_GET
def line(request: HttpRequest) -> HttpResponse:
    """One line, the shared one where none is named, and the way to the others."""
    lines = list(Line.objects.all())
    shown = next((one for one in lines if one.name == (request.GET.get("line") or SHARED)), None)
    if shown is None:
        raise Http404
    context = told(helped.of_line(shown), "people") | {"line": shown, "lines": lines}
    return render(request, "evaluation/helped_in_line.html", context)


@require_POST
@login_required
def choose(request: HttpRequest) -> HttpResponse:
    """One answer to the blind question; the next pair follows."""
    pk = request.POST.get("pair", "")
    said = ""
    try:
        blind.choose(person(request), int(pk) if pk.isdecimal() and len(pk) < 19 else -1, request.POST.get("side", ""))
    except PairGone as gone:
        said = str(gone)
    return again(request, said)


@require_POST
@login_required
def undo(request: HttpRequest) -> HttpResponse:
    """Take back the last answer and ask it again."""
    pk = blind.undo(person(request))
    return again(request, "" if pk else _("There was nothing to take back."), pk)


def again(request: HttpRequest, said: str, pk: int | None = None) -> HttpResponse:
    """The question once more, in its place or on the whole page."""
    if is_htmx(request):
        return marked(render(request, "evaluation/_blind_pair.html", asked(request, pk) | {"said": said}))
    if said:
        messages.error(request, said, extra_tags="warn")
    return redirect(f"{reverse('helped:home')}{f'?pair={pk}' if pk else ''}#blind")


def asked(request: HttpRequest, pk: int | None = None, choices: Tally | None = None) -> dict[str, Any]:
    """What the blind question's part of the page shows; `choices` are this person's, where they are counted already."""
    user, wanted = person(request), request.GET.get("pair", "")
    pk = int(wanted) if pk is None and wanted.isdecimal() and len(wanted) < 19 else pk
    if choices is None:
        choices = blind.tally(blind.choices_of(user).values_list("picked", flat=True))
    pair, waiting = blind.at_hand(user, pk)
    return {
        "pair": pair,
        "waiting": waiting,
        "keys": KEYS,
        "choices": choices,
        "preferred": preferred(choices),
        "choices_chart": shares.choices(choices),
        "can_undo": user.blind_choices.exists(),
        "is_control_on": settings.SHADOW_SHARE > 0,
    }


def told(evidence: Evidence, whose: str = "you") -> dict[str, Any]:
    """All of the page that is counted, in words and pictures. `whose` is you, or people."""
    name = settings.MODEL_NAME
    by_number = {f"{name}@{one.number}": one.firsts for one in evidence.checkpoints}
    thumbs = {_("the base"): evidence.thumbs.base, _("learned"): evidence.thumbs.learned}
    return {
        "evidence": evidence,
        "name": name,
        "answer": answer(evidence, whose),
        "notes": notes(evidence, whose),
        "course": course.course(evidence.firsts, evidence.moments, evidence.went_live, name),
        "by_checkpoint": shares.ladder(by_number, "content"),
        "scores_say": contrasted(evidence.scores),
        "thumbs_say": contrasted(evidence.thumbs),
        "thumbs_chart": shares.ladder(thumbs, "up"),
        "choices_say": preferred(evidence.choices, whose),
        "choices_chart": shares.choices(evidence.choices),
        "from_what": from_what(evidence),
        "enough": pair_figures.ENOUGH,
        "newest": helped.NEWEST,
        "share": settings.SHADOW_SHARE,
    }


def answer(evidence: Evidence, whose: str = "you") -> Answer:
    """Blind choices are heard first, since a blind choice is not swayed; then how first replies were received."""
    if evidence.choices.is_known:
        is_better = evidence.choices.ahead == "first"
        word, tone = (_("Yes"), "good") if is_better else (_("No"), "bad")
        return Answer(word, tone, preferred(evidence.choices, whose))
    verdict = evidence.scores.reading.verdict if evidence.scores.has_both else "unknown"
    if verdict in ("better", "worse"):
        word, tone = (_("It seems so"), "good") if verdict == "better" else (_("It does not seem so"), "bad")
        undrawn = _("Who got which was not drawn, so other things may have changed too.")
        return Answer(word, tone, f"{contrasted(evidence.scores)} {undrawn}")
    if not evidence.is_learned:
        yours, theirs = (
            _("Nothing that was learned has answered you so far."),
            _("Nothing that was learned has answered people so far."),
        )
        return Answer(_("Nothing to compare yet"), "", yours if whose == "you" else theirs)
    return Answer(_("Not known yet"), "", _("There is not enough data yet to tell. Below stands how much is missing."))


def notes(evidence: Evidence, whose: str = "you") -> list[Note]:
    """What stands in the way of an answer."""
    found = []
    if not evidence.replies:
        found.append(
            Note(
                _(
                    "There are no replies on the record yet. Talk to it, and say what you think of the replies: a "
                    "thumb, a correction, or simply what you want changed."
                ),
                _("Begin a chat"),
                reverse("chat:home"),
            )
        )
    if not evidence.live.number:
        is_yours = whose == "you"
        said = (
            _("The original model answers you at the moment.")
            if is_yours
            else _("The original model answers people at the moment.")
        )
        unlearned = _(
            "Nothing has been learned yet: what people say of replies is learned batch by batch, and goes live once a "
            "person approves it."
        )
        found.append(Note(said if evidence.is_learned else f"{said} {unlearned}"))
    if settings.SHADOW_SHARE <= 0:
        found.append(
            Note(
                _(
                    "The frozen control is off, so there are no new pairs of answers to hold against each other. The "
                    "operator turns it on with SHADOW_SHARE=0.05 in its settings: the base then answers one turn "
                    "in twenty as well, unseen, while no person waits."
                )
            )
        )
    elif evidence.live.kind == Checkpoint.Kind.FULL:
        found.append(
            Note(_("While full weights are live the base is not in the engine: there are no new pairs until then."))
        )
    return found


def contrasted(contrast: Contrast) -> str:
    """The base's rate beside that of what was learned, in sentences."""
    base, learned = contrast.base, contrast.learned
    if not base.votes and not learned.votes:
        return _("Nothing was rated yet.")
    counts = {"learned": _of(learned), "base": _of(base)}
    if not base.votes:
        return _("%(learned)s with what was learned. The base’s replies were never rated here.") % counts
    if not learned.votes:
        return _("%(base)s with the base. No trained version has been rated yet.") % counts
    reading = contrast.reading
    said = _(
        "%(learned)s with what was learned, %(base)s with the base: a difference of %(low)s to %(high)s points."
    ) % {**counts, "low": _points(reading.low), "high": _points(reading.high)}
    return f"{said} {_read(reading)}"


def _read(reading: statistics.Reading) -> str:
    """What a difference comes to."""
    if reading.verdict == "better":
        return _("That is more than chance gives.")
    if reading.verdict == "worse":
        return _("That is worse, and more so than chance gives.")
    if reading.verdict == "no worse":
        margin = f"{statistics.MARGIN * 100:.0f}"
        said = _("It is not worse by %(margin)s points or more; whether it is better is open.")
        return said % {"margin": margin}
    if reading.needed is None:
        said = _("Too close, or too little of one of the two, to tell: %(n)s more would not do.")
        return said % {"n": statistics.MOST_VOTES}
    said = ngettext(
        "Not known yet: about %(n)s more rated conversation, if both rates stay as they are.",
        "Not known yet: about %(n)s more rated conversations, if both rates stay as they are.",
        reading.needed,
    )
    return said % {"n": reading.needed}


def preferred(choices: Tally, whose: str = "you") -> str:
    """What the blind choices come to, and how many more it takes, in sentences. `whose` is you, or people."""
    number = choices.first + choices.second
    if not number:
        needed = {"n": Tally().needed}
        return _("No choices yet. With %(n)s for the same side it would be known.") % needed
    low, high = choices.interval
    counts = {"first": choices.first, "all": number, "low": f"{low:.1%}", "high": f"{high:.1%}"}
    said = _("%(first)s of %(all)s for what was learned: a share of %(low)s to %(high)s.") % counts
    if choices.is_known:
        return f"{_ahead(choices, whose)} {said}"
    if choices.needed is None:
        close = _("Too close: at this share not even %(n)s more choices would tell the two apart.")
        return f"{said} {close % {'n': MOST_CHOICES}}"
    more = ngettext(
        "Not known yet: about %(n)s more choice at this share would take one half out of the interval.",
        "Not known yet: about %(n)s more choices at this share would take one half out of the interval.",
        choices.needed,
    )
    return f"{said} {more % {'n': choices.needed}}"


def _ahead(choices: Tally, whose: str) -> str:
    if choices.ahead == "first":
        return _("You prefer what was learned.") if whose == "you" else _("People prefer what was learned.")
    return _("You prefer the base.") if whose == "you" else _("People prefer the base.")


def from_what(evidence: Evidence) -> str:
    """How much the page has looked at."""
    scored, thumbs, pairs = evidence.scored, evidence.thumbs_given, evidence.pairs
    choices = evidence.choices.first + evidence.choices.second
    parts = (
        ngettext("%(n)s first reply rated", "%(n)s first replies rated", scored) % {"n": scored},
        ngettext("%(n)s thumb", "%(n)s thumbs", thumbs) % {"n": thumbs},
        ngettext("%(n)s pair with the control", "%(n)s pairs with the control", pairs) % {"n": pairs},
        ngettext("%(n)s blind choice", "%(n)s blind choices", choices) % {"n": choices},
    )
    return ", ".join(parts)


def _of(arm: statistics.Arm) -> str:
    return _("%(part)s of %(whole)s") % {"part": arm.ups, "whole": arm.votes}


def _points(difference: float) -> str:
    sign = "+" if difference > 0 else "−" if difference < 0 else ""
    return f"{sign}{abs(difference) * 100:.0f}"


console_urls = [path("helped/", line, name="helped")]

app_name = "helped"
urlpatterns = [
    path("helped/", home, name="home"),
    path("helped/choose/", choose, name="choose"),
    path("helped/undo/", undo, name="undo"),
]
