"""The review desk: a queue of rows at the left, the one at hand at the right, and a reviewer's decisions on them.

One set of views serves every queue (`hint_queue`, `reward_queue`). Every page works as plain forms; with htmx only what
changed is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import ObjectDoesNotExist
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import URLPattern, path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_GET, require_POST

from core.errors import TalkbackError
from judge.annotators import claims, readings, stations
from judge.annotators.stations import Station
from judge.hints import decisions, reviews, undoing
from judge.models import Claim, Hint, Ruling
from webapp.console.doors import needs, person
from webapp.console.review.queues import Parts, Queue, Unsaid, words

DONE = {
    Ruling.Verb.ACCEPT: gettext_lazy("Accepted"),
    Ruling.Verb.EDIT: gettext_lazy("Accepted in your words"),
    Ruling.Verb.MERGE: gettext_lazy("Merged"),
    Ruling.Verb.REJECT: gettext_lazy("Rejected"),
    Ruling.Verb.NEVER_LEARN: gettext_lazy("Never learned from"),
    Ruling.Verb.OVERTURN: gettext_lazy("Overturned"),
    Ruling.Verb.UNDO: gettext_lazy("Taken back"),
    Ruling.Verb.POLICY: gettext_lazy("Changed"),
}

Kind = type[Queue[Any]]


@needs("review")
@require_GET
def show_queue(request: HttpRequest, of: Kind) -> HttpResponse:
    """The desk: the list, and its first row."""
    queue, after = of.read(request.GET), request.GET.get("after", "")
    if is_fragment(request):
        listed = queue.listed(after) | {"goes_on": "after" in request.GET}
        name_claims(queue, listed["rows"], claims.of_others(of.KIND, person(request)))
        return render(request, "review/_queue.html", listed)
    return whole(request, queue, after=after)


@needs("review")
@require_GET
def show_row(request: HttpRequest, of: Kind, pk: Any) -> HttpResponse:
    """One row, on the desk."""
    queue = of.read(request.GET)
    row = queue.found(pk)
    if not is_fragment(request):
        if row is None:
            raise Http404
        return whole(request, queue, row)
    if row is None:
        return gone(request, queue, pk)
    if part := queue.part(row, request.GET):
        return render(request, *part)
    strayed = [] if queue.rows().filter(pk=row.pk).exists() else [row.pk]
    return fragment(request, queue, row, changed=strayed, stays=True)


@needs("review")
@require_POST
def decide(request: HttpRequest, of: Kind, pk: Any, verb: str) -> HttpResponse:
    """One verb on one row; then the next one is on the desk."""
    if verb not in of.VERBS:
        raise Http404
    queue = back(request, of)
    row = queue.found(pk)
    if row is None:
        return gone(request, queue, pk)
    by = person(request)
    following = queue.neighbour(row, besides=taken(of, by))
    try:
        claims.check(of.KIND, [row.pk], by)
        ruling = of.VERBS[verb](row, request)
    except ObjectDoesNotExist:
        return gone(request, queue, pk)
    except TalkbackError as failure:
        return refused(request, queue, pk, failure)
    claims.release(of.KIND, [row.pk])
    readings.note([ruling], by)
    return done(request, queue, [ruling], sentence_of(ruling), following)


@needs("review")
@require_POST
def decide_many(request: HttpRequest, of: Kind) -> HttpResponse:
    """One verb on all that were selected: each by itself, so that one that cannot be keeps no other from it."""
    queue, verb = back(request, of), request.POST.get("verb", "")
    selected = dict(value.partition("~")[::2] for value in request.POST.getlist(of.KIND))
    seen = {key: shown for text, shown in selected.items() if (key := of.key(text)) is not None}
    about = list(Hint.objects.select_related("turn__session").filter(pk__in=seen).order_by("pk"))
    at = queue.found(of.key(request.POST.get("at", "")))
    by, following = person(request), at
    if about and (at is None or at in about):
        following = queue.neighbour(at or about[-1], besides=[*seen, *taken(of, by)])
    try:
        if verb not in [one[0] for one in of.MANY]:
            raise Unsaid(_("Say what is to be done with them: accept, reject, or never learn from them."))
        if not about:
            raise Unsaid(_("Select hints first: x on the keyboard, or the boxes before them."))
        why = words(request.POST, "reason", 500)
        claims.check(of.KIND, [one.pk for one in about], by)
        rulings, failures = reviews.bulk(verb, about, by=by, reason=why, seen=seen)
    except TalkbackError as failure:
        return refused(request, queue, at.pk if at else None, failure)
    claims.release(of.KIND, [one.pk for one in about])
    readings.note(rulings, by)
    told = []
    if rulings:
        said = ngettext("%(done)s: %(n)s hint.", "%(done)s: %(n)s hints.", len(rulings))
        told = [said % {"done": DONE[Ruling.Verb(rulings[0].verb)], "n": len(rulings)}]
    return done(
        request, queue, rulings, " ".join([*told, *failures[:3]]), following, is_many=True, fails=bool(failures)
    )


@needs("review")
@require_POST
def undo(request: HttpRequest, of: Kind, pk: int | None = None) -> HttpResponse:
    """Take back one ruling, or the last of this person; what it was about is on the desk again."""
    queue, by = back(request, of), person(request)
    ruling = get_object_or_404(Ruling.objects.select_related("hint", "turn"), pk=pk) if pk else undoing.last(by)
    at = of.key(request.POST.get("at", ""))
    try:
        if ruling is None:
            raise Unsaid(_("There is nothing of yours to take back."))
        undoing.undo(ruling, by=by)
        readings.forget(ruling)
    except TalkbackError as failure:
        return refused(request, queue, at, failure)
    again, sentence = queue.row_of(ruling), _("Taken back: %(what)s") % {"what": sentence_of(ruling)}
    if not is_fragment(request):
        messages.success(request, sentence, extra_tags="good")
        return redirect(queue.address(again))
    return fragment(request, queue, queue.found(again.pk if again else at), all_rows=True, toast={"sentence": sentence})


def routes(of: Kind, pk: str) -> list[URLPattern]:
    """A queue's addresses; `pk` is the path converter of its primary key."""
    kind, given = of.KIND, {"of": of}
    return [
        path(f"{kind}s/", show_queue, given, name=f"{kind}s"),
        path(f"{kind}s/<{pk}:pk>/", show_row, given, name=kind),
        path(f"{kind}s/undo/", undo, given, name=f"{kind}_undo_last"),
        path(f"{kind}s/undo/<row:pk>/", undo, given, name=f"{kind}_undo"),
    ]


def desk(request: HttpRequest, queue: Queue[Any], at: Any, told: Parts, station: Station) -> Parts:
    """What page and fragment draw from: the row at hand, the counts, and the way back."""
    context = {"queue": queue, "at": at, "last": station.last, **queue.counts()}
    if at is not None:
        claim = claims.take(queue.KIND, at.pk, person(request), station.claims)
        context |= {**queue.details(at, request.GET), "seen": decisions.standing(at, as_read=True)}
        context["claimed"] = claims.sentence(claim) if claim else ""
    return context | told


def taken(of: Kind, by: User) -> list[Any]:
    """Primary keys of what other reviewers look at now."""
    return [of.key(item) for item in claims.of_others(of.KIND, by)]


def name_claims(queue: Queue[Any], rows: Iterable[Any], others: Mapping[str, Claim]) -> None:
    """Say beside each row who looks at it, where another reviewer does."""
    for row in rows:
        claim = others.get(str(row.pk))
        row.claimed_by = claim.by if claim else None


def whole(
    request: HttpRequest, queue: Queue[Any], at: Any = None, *, after: str = "", status: int = 200, **told: Any
) -> HttpResponse:
    """The desk as a page."""
    listed, station = queue.listed(after), stations.read(queue.KIND, person(request))
    others = claims.of_others(queue.KIND, person(request), station.claims)
    name_claims(queue, listed["rows"], others)
    free = next((row for row in listed["rows"] if str(row.pk) not in others), None)
    if at is None and free is not None:
        at = queue.found(free.pk)
    context = {**listed, "guidelines": station.guidelines, **desk(request, queue, at, told, station)}
    return render(request, "review/desk.html", context, status=status)


def fragment(
    request: HttpRequest,
    queue: Queue[Any],
    at: Any,
    *,
    changed: Sequence[Any] = (),
    stays: bool = False,
    all_rows: bool = False,
    status: int = 200,
    **told: Any,
) -> HttpResponse:
    """The row at hand, and out of band the rows that `changed` (or the whole list), the counts and the way back.

    A row that changed and is no more in the list leaves it, but where the one at hand `stays`.
    """
    here = {row.pk: row for row in queue.rows().filter(pk__in=changed)} if changed else {}
    if stays and at is not None:
        here = {at.pk: at} | here
    station = stations.read(queue.KIND, person(request))
    context = desk(request, queue, at, told, station) | (queue.listed() if all_rows else {})
    shown = [*here.values(), *context.get("rows", ())]
    name_claims(queue, shown, claims.of_others(queue.KIND, person(request), station.claims))
    context |= {"changed": [(pk, here.get(pk)) for pk in changed], "all_rows": all_rows, "pushed": True}
    return render(request, "review/_changed_parts.html", context, status=status)


def done(
    request: HttpRequest,
    queue: Queue[Any],
    rulings: Sequence[Ruling],
    sentence: str,
    following: Any,
    *,
    is_many: bool = False,
    fails: bool = False,
) -> HttpResponse:
    """What was done, with a way back, and the next row."""
    if not is_fragment(request):
        messages.success(request, sentence, extra_tags="warn" if fails else "good")
        return redirect(queue.address(following))
    toast = {"sentence": sentence, "ruling": rulings[-1] if rulings else None, "tone": "warn" if fails else ""}
    at = queue.found(following.pk) if following else None
    changed = [] if is_many else queue.changed_by(rulings)
    return fragment(request, queue, at, changed=changed, all_rows=is_many, toast=toast)


def refused(request: HttpRequest, queue: Queue[Any], pk: Any, failure: TalkbackError) -> HttpResponse:
    """The same row as it stands now, why nothing was done, and what was typed, still there."""
    at = queue.found(pk)
    typed = {name: request.POST[name] for name in ("text", "reward", "reason") if request.POST.get(name)}
    told: Parts = {"fault": str(failure), "typed": typed, "status": failure.status}
    if is_fragment(request):
        return fragment(request, queue, at, changed=[at.pk] if at else [], stays=True, **told)
    if at is None:
        messages.error(request, str(failure), extra_tags="bad")
        return redirect(queue.address())
    return whole(request, queue, at, **told)


def gone(request: HttpRequest, queue: Queue[Any], pk: Any) -> HttpResponse:
    """The row was deleted with its conversation while it was on the desk."""
    if not is_fragment(request):
        messages.error(request, str(queue.GONE), extra_tags="bad")
        return redirect(queue.address())
    return fragment(request, queue, None, changed=[pk], fault=queue.GONE, status=404)


def said(request: HttpRequest) -> Parts:
    """Who, what they saw, and why."""
    why, seen = words(request.POST, "reason", 500), request.POST.get("seen", "")
    return {"by": person(request), "seen": seen, "reason": why}


def sentence_of(ruling: Ruling) -> str:
    """What was done, shortly, for the person who did it."""
    if "overruling" in ruling.after:
        then = ruling.after["overruling"]
        if not then:
            return _("The overturned reward.")
        return _("The reward is %(reward)s by a reviewer’s word.") % {"reward": signed(then["reward"])}
    done = DONE[Ruling.Verb(ruling.verb)]
    text = " ".join(ruling.hint.text.split()) if ruling.hint else ""
    return f"{done}: “{text if len(text) <= 70 else text[:69] + '…'}”" if text else f"{done}."


def signed(reward: int | None) -> str:
    """A reward for people.

    >>> signed(1), signed(0), signed(-1), signed(None)
    ('+1', '0', '−1', 'none')
    """
    return _("none") if reward is None else f"{reward:+d}".replace("-", "−") if reward else "0"


def is_fragment(request: HttpRequest) -> bool:
    """True where htmx asks for a part of the page, and not for the page of a link it follows."""
    headers = request.headers
    return "HX-Request" in headers and "HX-Boosted" not in headers and "HX-History-Restore-Request" not in headers


def back(request: HttpRequest, of: Kind) -> Queue[Any]:
    """The list that this form was sent from."""
    return of.read(QueryDict(request.POST.get("back", "")))
