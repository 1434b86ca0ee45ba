"""The review desk for rewards: what each reply was found to be worth, by whom, and a reviewer's word against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.views.decorators.http import require_GET, require_POST

from chat.models import Turn
from core.errors import TalkbackError
from feedback.models import Feedback
from judge import evidence, precedence, reviews, undecided
from judge.models import Judgement, Overruling, Ruling, Vote
from webapp.console.desk import words
from webapp.console.doors import for_staff, person
from webapp.console.reviews import Parts, Unsaid, is_fragment

PAGE = 40

SHOWN = {"unclear": "unclear", "overturned": "overturned", "all": "all judged"}
SOURCES = {source.name: source.words for source in precedence.REWARDS}
"""Whose word a reward can be; the first that spoke decides."""

REWARDS = {"1": 1, "0": 0, "-1": -1, "none": None}

REASONS = ("the judge misread it", "meant as a joke", "it is about something else", "the thumb was a slip", "too harsh")

LISTED = (
    "status", "text", "learns", "session__user__username", "judgement__reward", "judgement__reward_from",
    "judgement__confidence", "judgement__judged_at", "overruling__reward",
)  # fmt: skip


ON_RECORD = Q(learns=True, session__learns=True)
"""Turns that a reviewer may read."""


@dataclass(frozen=True)
class Filters:
    """Which turns are in the list."""

    show: str = "unclear"
    by: str = ""
    """Where the reward came from."""
    reward: str = ""
    person: str = ""
    search: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> Filters:
        show, by, reward = (query.get(name, "") for name in ("show", "by", "reward"))
        return cls(
            show if show in SHOWN else "unclear",
            by if by in SOURCES else "",
            reward if reward in REWARDS else "",
            words(query, "person", 150),
            words(query, "search", 200),
        )

    @property
    def query(self) -> str:
        said = {"show": "" if self.show == "unclear" else self.show, "by": self.by, "reward": self.reward}
        said |= {"person": self.person, "search": self.search}
        return urlencode({name: value for name, value in said.items() if value})

    def but(self, **changes: str) -> Filters:
        return replace(self, **changes)

    @property
    def is_narrow(self) -> bool:
        return bool(self.by or self.reward or self.person or self.search)

    def rows(self) -> QuerySet[Turn]:
        """All of them, the newest verdict first."""
        rows = undecided.unclear() if self.show == "unclear" else Turn.objects.filter(judgement__isnull=False)
        rows = rows.filter(ON_RECORD).select_related(None)
        rows = rows.select_related("session__user", "judgement", "overruling").only(*LISTED)
        if self.show == "overturned":
            rows = rows.filter(overruling__isnull=False)
        if self.by:
            rows = rows.filter(judgement__reward_from=self.by)
        if self.reward:
            rows = rows.filter(judgement__reward=REWARDS[self.reward])
        if self.reward == "none":
            rows = rows.filter(judgement__reward__isnull=True)
        if self.person:
            rows = rows.filter(session__user__username=self.person)
        if self.search:
            rows = rows.filter(Q(text__icontains=self.search) | Q(judgement__evidence__icontains=self.search))
        return rows.order_by("-judgement__judged_at", "-pk")

    def beyond(self, at: datetime, pk: UUID, *, back: bool = False) -> Q:
        compare = "gt" if back else "lt"
        return Q(**{f"judgement__judged_at__{compare}": at}) | Q(judgement__judged_at=at, **{f"pk__{compare}": pk})

    def page(self, after: str = "") -> list[Turn]:
        """The next rows from `after` on, one more than are shown when there is more."""
        rows = self.rows()
        moment, _, pk = after.partition("~")
        if moment:
            with suppress(ValueError):
                rows = rows.filter(self.beyond(datetime.fromisoformat(moment), UUID(pk)))
        return list(rows[: PAGE + 1])

    def neighbour(self, turn: Turn) -> Turn | None:
        """Who is looked at once this one is decided: the next of the list, else the one before."""
        judgement = Judgement.objects.filter(turn=turn).only("judged_at").first()
        rows = self.rows().exclude(pk=turn.pk)
        if judgement is None:
            return rows.first()
        at = judgement.judged_at
        return rows.filter(self.beyond(at, turn.pk)).first() or (
            rows.filter(self.beyond(at, turn.pk, back=True)).reverse().first()
        )


@dataclass(frozen=True)
class Voice:
    """One of those whose word a reward can be, and what it was."""

    source: str
    words: str
    said: str
    """Empty: nothing."""
    decides: bool = False


@for_staff
@require_GET
def rewards(request: HttpRequest) -> HttpResponse:
    """The list, and its first turn."""
    filters = Filters.of(request.GET)
    if is_fragment(request):
        listed = listing(filters, request.GET.get("after", ""))
        return render(request, f"console/_reward_{'rows' if 'after' in request.GET else 'queue'}.html", listed)
    return whole(request, filters, after=request.GET.get("after", ""))


@for_staff
@require_GET
def reward(request: HttpRequest, pk: UUID) -> HttpResponse:
    """One judged turn, on the desk."""
    filters = Filters.of(request.GET)
    turn = found(pk)
    if turn is None:
        if is_fragment(request):
            return gone(request, filters, pk)
        raise Http404
    if not is_fragment(request):
        return whole(request, filters, turn)
    return render(request, "console/_reward_parts.html", parts(request, filters, turn))


@for_staff
@require_POST
def overturn(request: HttpRequest, pk: UUID) -> HttpResponse:
    """A reviewer's word on one reward; it stands above every other as long as it stands."""
    filters = back(request)
    turn = Turn.objects.select_related("session").filter(ON_RECORD, pk=pk).first()
    if turn is None:
        return gone(request, filters, pk)
    following = filters.neighbour(turn)
    try:
        wanted = request.POST.get("reward", "")
        if wanted not in REWARDS:
            raise Unsaid("Choose what the reward should be: +1, 0, −1, or none.")
        why, seen = words(request.POST, "reason", 500), request.POST.get("seen", "")
        ruling = reviews.overturn(turn, REWARDS[wanted], by=person(request), reason=why, seen=seen)
    except Turn.DoesNotExist:
        return gone(request, filters, pk)
    except TalkbackError as failure:
        return refused(request, filters, pk, failure)
    if not is_fragment(request):
        messages.success(request, sentence_of(ruling), extra_tags="good")
        return redirect(address(filters, following))
    toast = {"sentence": sentence_of(ruling), "ruling": ruling}
    shown = found(following.pk) if following else None
    return render(request, "console/_reward_parts.html", parts(request, filters, shown, changed=turn, toast=toast))


@for_staff
@require_POST
def undo(request: HttpRequest, pk: int | None = None) -> HttpResponse:
    """Take back one ruling, or the last of this person."""
    filters, by = back(request), person(request)
    ruling = get_object_or_404(Ruling.objects.select_related("turn", "hint"), pk=pk) if pk else reviews.last(by)
    try:
        if ruling is None:
            raise Unsaid("There is nothing of yours to take back.")
        reviews.undo(ruling, by=by)
    except TalkbackError as failure:
        at = request.POST.get("at", "")
        return refused(request, filters, UUID(at) if is_uuid(at) else None, failure)
    sentence = f"Taken back: {sentence_of(ruling)}"
    if not is_fragment(request):
        messages.success(request, sentence, extra_tags="good")
        return redirect(address(filters, ruling.turn))
    shown = found(ruling.turn_id) if ruling.turn_id else None
    context = parts(request, filters, shown, toast={"sentence": sentence})
    return render(request, "console/_reward_parts.html", context | listing(filters) | {"whole_queue": True})


urls = [
    path("rewards/", rewards, name="rewards"),
    path("rewards/<uuid:pk>/", reward, name="reward"),
    path("rewards/<uuid:pk>/overturn/", overturn, name="overturn"),
    path("rewards/undo/", undo, name="reward_undo_last"),
    path("rewards/undo/<row:pk>/", undo, name="reward_undo"),
]


def listing(filters: Filters, after: str = "") -> Parts:
    rows = filters.page(after)
    more = f"{rows[PAGE - 1].judgement.judged_at.isoformat()}~{rows[PAGE - 1].pk}" if len(rows) > PAGE else ""
    return {"rows": rows[:PAGE], "more": more, "filters": filters}


def choices(filters: Filters) -> Parts:
    """How many there are to choose from."""
    return {
        "shown": [(show, words, filters.but(show=show).rows().count()) for show, words in SHOWN.items()],
        "sources": SOURCES,
        "rewards": REWARDS,
    }


def found(pk: UUID) -> Turn | None:
    """The turn with all that its page shows; None off the record."""
    about = ("session__user", "checkpoint", "judgement__sample", "overruling__by")
    long = ("prompt_ids", "response_ids", "logprobs", "tools", "judgement__teacher")
    return Turn.objects.select_related(*about).defer(*long).filter(ON_RECORD, pk=pk).first()


def detail(turn: Turn | None) -> Parts:
    """What a reviewer wants to know before overturning, in a fixed number of queries."""
    if turn is None:
        return {"turn": None}
    judgement = getattr(turn, "judgement", None)
    overruling = getattr(turn, "overruling", None)
    seen = evidence.of(turn)
    votes = list(turn.votes.filter(question=Vote.Question.SCORE).order_by("index", "pk"))
    for vote in votes:
        vote.counts = vote.evidence in ("", seen.unswayed.digest, seen.digest)  # type: ignore[attr-defined]
    said = list(Feedback.objects.standing().filter(turn=turn).select_related("by"))
    return {
        "turn": turn,
        "judgement": judgement,
        "overruling": overruling,
        "votes": sorted(votes, key=lambda vote: not vote.counts),  # type: ignore[attr-defined]
        "said": said,
        "voices": voices(judgement, overruling, votes, said),
        "evidence": (judgement.evidence if judgement else "") or seen.text,
        "hints": list(turn.hints.all()),
        "seen": reviews.standing(turn),
        "reasons": REASONS,
        "rewards": REWARDS,
    }


def voices(
    judgement: Judgement | None, overruling: Overruling | None, votes: Iterable[Vote], said: Iterable[Feedback]
) -> list[Voice]:
    """Everybody who could decide, in the order in which they are heard, with what they said."""
    decides = "reviewer" if overruling else judgement.reward_from if judgement else ""
    spoke: dict[str, str] = {}
    if overruling is not None:
        who = overruling.by or "a person who left"
        spoke["reviewer"] = f"{signed(overruling.reward)} by {who}: {overruling.reason}"
    for source, kind in (("thumb", Feedback.Kind.THUMB), ("test", Feedback.Kind.VERDICT)):
        if words := [f"{signed(one.value)} by {one.by}" for one in said if one.kind == kind]:
            spoke[source] = ", ".join(words)
    if marked := [f"{len(one.spans)} by {one.by}" for one in said if one.kind == Feedback.Kind.MARKS]:
        spoke["marks"] = ", ".join(marked)
    if judgement is not None and judgement.rule:
        is_rule = judgement.reward_from == "rule"
        spoke["rule"] = f"{signed(judgement.reward)} by {judgement.rule}" if is_rule else judgement.rule
    counting = [vote for vote in votes if vote.counts]  # type: ignore[attr-defined]
    if counting:
        spoke["votes"] = tally(counting)
    return [Voice(source, words, spoke.get(source, ""), source == decides) for source, words in SOURCES.items()]


def tally(votes: Iterable[Vote]) -> str:
    """What the votes were, shortly.

    >>> tally([Vote(score=1), Vote(score=1), Vote(score=-1), Vote(score=None)])
    '2 × +1, 1 × −1, 1 failed'
    """
    counts = Counter(vote.score for vote in votes)
    told = [f"{counts[score]} × {signed(score)}" for score in (1, 0, -1) if counts[score]]
    return ", ".join([*told, *([f"{counts[None]} failed"] if counts[None] else [])])


def signed(reward: int | None) -> str:
    return "none" if reward is None else f"{reward:+d}".replace("-", "−") if reward else "0"


def whole(request: HttpRequest, filters: Filters, at: Turn | None = None, after: str = "") -> HttpResponse:
    listed = listing(filters, after)
    if at is None and listed["rows"]:
        at = found(listed["rows"][0].pk)
    return render(request, "console/rewards.html", {**listed, **parts(request, filters, at), "pushed": False})


def parts(request: HttpRequest, filters: Filters, at: Turn | None, **more: Any) -> Parts:
    """What page and fragment draw from."""
    changed: Turn | None = more.pop("changed", None)
    row = filters.rows().filter(pk=changed.pk).first() if changed else None
    return {
        **choices(filters),
        **detail(at),
        "filters": filters,
        "last": reviews.last(person(request)),
        "at_hand": "#reward",
        "undo_one": "console:reward_undo",
        "undo_last": "console:reward_undo_last",
        "pushed": True,
        "changed": changed,
        "row": row,
        **more,
    }


def refused(request: HttpRequest, filters: Filters, pk: UUID | None, failure: TalkbackError) -> HttpResponse:
    """The same turn as it stands now, why nothing was done, and what was typed, still there."""
    shown = found(pk) if pk else None
    if not is_fragment(request) and shown is None:
        messages.error(request, str(failure), extra_tags="bad")
        return redirect(address(filters))
    typed = {name: request.POST.get(name, "") for name in ("reward", "reason")}
    context = parts(request, filters, shown, fault=str(failure), typed=typed)
    if not is_fragment(request):
        page = context | listing(filters) | {"pushed": False}
        return render(request, "console/rewards.html", page, status=failure.status)
    return render(request, "console/_reward_parts.html", context, status=failure.status)


def gone(request: HttpRequest, filters: Filters, pk: UUID) -> HttpResponse:
    fault = "This turn is gone: its conversation was deleted meanwhile, or taken off the record."
    if not is_fragment(request):
        messages.error(request, fault, extra_tags="bad")
        return redirect(address(filters))
    context = parts(request, filters, None, fault=fault, gone=pk)
    return render(request, "console/_reward_parts.html", context, status=404)


def sentence_of(ruling: Ruling) -> str:
    """What was done, shortly, for the person who did it."""
    if "overruling" in ruling.after:
        then = ruling.after["overruling"]
        return f"The reward is {signed(then['reward'])} by a reviewer’s word." if then else "The overturned reward."
    return f"{str(ruling.verb).capitalize()}."


def back(request: HttpRequest) -> Filters:
    return Filters.of(QueryDict(request.POST.get("back", "")))


def address(filters: Filters, turn: Turn | None = None) -> str:
    base = reverse("console:reward", args=[turn.pk]) if turn else reverse("console:rewards")
    return f"{base}?{filters.query}" if filters.query else base


def is_uuid(text: str) -> bool:
    with suppress(ValueError):
        return bool(UUID(text))
    return False
