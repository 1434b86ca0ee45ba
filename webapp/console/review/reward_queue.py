"""The queue of rewards: what each reply was found to be worth, by whom, and a reviewer's word against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest, QueryDict
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop, ngettext

from chat.models import Turn
from core.counting import count_rows
from feedback.models import Feedback
from judge.hints import reviews, undecided
from judge.models import Judgement, Overruling, Ruling, Vote
from judge.votes import evidence, precedence
from webapp.console.review import desk
from webapp.console.review.desk import said, signed
from webapp.console.review.queues import Parts, Queue, Unsaid

SHOWN = {
    "unclear": gettext_lazy("unclear"),
    "overturned": gettext_lazy("overturned"),
    "all": gettext_lazy("all judged"),
}
SOURCES = tuple(source.name for source in precedence.REWARDS)
"""Whose word a reward can be; the first that spoke decides."""

REWARDS = {"1": 1, "0": 0, "-1": -1, "none": None}

KEYS = {"1": "+", "0": "0", "-1": "-", "none": "n"}
"""Which key chooses it."""

REASONS = (
    gettext_noop("the judge misread it"),
    gettext_noop("meant as a joke"),
    gettext_noop("it is about something else"),
    gettext_noop("the thumb was a slip"),
    gettext_noop("too harsh"),
)

LISTED = (
    *("status", "text", "learns", "session__user__username", "judgement__reward", "judgement__reward_from"),
    *("judgement__confidence", "judgement__judged_at", "overruling__reward"),
)

LONG = (
    *("prompt_ids", "response_ids", "logprobs", "tools"),
    *("checkpoint__probe", "checkpoint__made", "judgement__teacher"),
)
"""Columns as long as a conversation, which no page shows."""

ON_RECORD = Q(learns=True, session__learns=True)
"""Turns that a reviewer may read."""


def overturn(turn: Turn, request: HttpRequest) -> Ruling:
    """A reviewer's word on one reward; it stands above every other as long as it stands."""
    wanted = request.POST.get("reward", "")
    if wanted not in REWARDS:
        raise Unsaid(_("Choose what the reward should be: +1, 0, −1, or none."))
    return reviews.overturn(turn, REWARDS[wanted], **said(request))


@dataclass(frozen=True)
class Rewards(Queue[Turn]):
    """Judged turns, the newest verdict first."""

    KIND = "reward"
    TEMPLATE = "review/_reward.html"
    SEARCHES = gettext_lazy("Search what was asked and answered")
    GONE = gettext_lazy("This turn is gone: its conversation was deleted meanwhile, or taken off the record.")
    MODEL = Turn
    TAB = "show"
    CHOICES = {"show": SHOWN, "by": SOURCES, "reward": REWARDS}
    VERBS = {"overturn": overturn}

    show: str = "unclear"
    by: str = ""
    """Where the reward came from."""
    reward: str = ""

    @property
    def order(self) -> tuple[str, bool]:
        return "judgement__judged_at", True

    def rows(self) -> QuerySet[Turn]:
        return self.shown(self.show)

    def shown(self, show: str) -> QuerySet[Turn]:
        """Those under one tab."""
        rows = undecided.unclear() if show == "unclear" else Turn.objects.filter(judgement__isnull=False)
        rows = rows.filter(ON_RECORD).select_related(None)
        rows = rows.select_related("session__user", "judgement", "overruling").only(*LISTED)
        if show == "overturned":
            rows = rows.filter(overruling__isnull=False)
        if self.by:
            rows = rows.filter(judgement__reward_from=self.by)
        if self.reward == "none":
            rows = rows.filter(judgement__reward__isnull=True)
        elif self.reward:
            rows = rows.filter(judgement__reward=REWARDS[self.reward])
        if self.person:
            rows = rows.filter(session__user__username=self.person)
        if self.search:
            rows = rows.filter(Q(text__icontains=self.search) | Q(judgement__evidence__icontains=self.search))
        return rows.order_by("-judgement__judged_at", "-pk")

    def found(self, pk: Any) -> Turn | None:
        about = ("session__user", "checkpoint", "judgement", "overruling__by")
        return Turn.objects.select_related(*about).defer(*LONG).filter(ON_RECORD, pk=pk).first()

    def counts(self) -> Parts:
        counted = count_rows(**{show: self.shown(show).select_related(None) for show in SHOWN})
        person = [(self.person, self.person)] if self.person else []
        by = [(one, _("by %(source)s") % {"source": _(one)}) for one in SOURCES]
        rewards = [(name, _("reward %(reward)s") % {"reward": signed(one)}) for name, one in REWARDS.items()]
        return {
            "tabs": [self.tabbed(show, name, counted[show]) for show, name in SHOWN.items()],
            "selects": [
                self.select("by", _("By whom"), _("by any person"), by),
                self.select("reward", _("Which reward"), _("any reward"), rewards),
                *([self.select("person", _("Of whom"), _("of any person"), person)] if person else ()),
            ],
        }

    def details(self, row: Turn, sent: QueryDict) -> Parts:
        judgement = getattr(row, "judgement", None)
        overruling = getattr(row, "overruling", None)
        given = list(Feedback.objects.standing().filter(turn=row).select_related("by"))
        seen = evidence.of(row, given)
        votes = list(row.votes.filter(question=Vote.Question.SCORE).order_by("index", "pk"))
        for vote in votes:
            vote.counts = vote.evidence in ("", seen.unswayed.digest, seen.digest)  # type: ignore[attr-defined]
        return {
            "turn": row,
            "judgement": judgement,
            "overruling": overruling,
            "votes": sorted(votes, key=lambda vote: not vote.counts),  # type: ignore[attr-defined]
            "said": given,
            "voices": voices(judgement, overruling, votes, given),
            "evidence": (judgement.evidence if judgement else "") or seen.text,
            "hints": list(row.hints.all()),
            "reasons": REASONS,
            "rewards": [(name, signed(reward), KEYS[name]) for name, reward in REWARDS.items()],
        }

    def row_of(self, ruling: Ruling) -> Turn | None:
        return ruling.turn

    def changed_by(self, rulings: Any) -> list[Any]:
        return [ruling.turn_id for ruling in rulings]


urls = [
    *desk.routes(Rewards, "uuid"),
    path("rewards/<uuid:pk>/overturn/", desk.decide, {"of": Rewards, "verb": "overturn"}, name="overturn"),
]


@dataclass(frozen=True)
class Voice:
    """One of those whose word a reward can be, and what it was."""

    source: str
    words: str
    said: str
    """Empty: nothing."""
    decides: bool = False


def voices(
    judgement: Judgement | None, overruling: Overruling | None, votes: Iterable[Vote], given: Iterable[Feedback]
) -> list[Voice]:
    """Everybody who could decide, in the order in which they are heard, with what they said."""
    decides = "reviewer" if overruling else judgement.reward_from if judgement else ""
    spoke: dict[str, str] = {}
    if overruling is not None:
        spoke["reviewer"] = _("%(reward)s by %(who)s: %(why)s") % {
            "reward": signed(overruling.reward),
            "who": overruling.by or _("a person who left"),
            "why": _(overruling.reason),
        }
    for source, kind in (("thumb", Feedback.Kind.THUMB), ("test", Feedback.Kind.VERDICT)):
        if told := [by(one, signed(one.value)) for one in given if one.kind == kind]:
            spoke[source] = ", ".join(told)
    if marked := [by(one, str(len(one.spans))) for one in given if one.kind == Feedback.Kind.MARKS]:
        spoke["marks"] = ", ".join(marked)
    if judgement is not None and judgement.rule:
        is_rule = judgement.reward_from == "rule"
        name = _(judgement.rule)
        what = {"what": signed(judgement.reward), "who": name}
        spoke["rule"] = _("%(what)s by %(who)s") % what if is_rule else name
    counting = [vote for vote in votes if vote.counts]  # type: ignore[attr-defined]
    if counting:
        spoke["votes"] = tally(counting)
    return [Voice(one.name, _(one.words), spoke.get(one.name, ""), one.name == decides) for one in precedence.REWARDS]


def by(said: Feedback, what: str) -> str:
    return _("%(what)s by %(who)s") % {"what": what, "who": said.by}


def tally(votes: Iterable[Vote]) -> str:
    """What the votes were, shortly.

    >>> tally([Vote(score=1), Vote(score=1), Vote(score=-1), Vote(score=None)])
    '2 × +1, 1 × −1, 1 failed'
    """
    counts = Counter(vote.score for vote in votes)
    told = [f"{counts[score]} × {signed(score)}" for score in (1, 0, -1) if counts[score]]
    if failed := counts[None]:
        told.append(ngettext("%(n)s failed", "%(n)s failed", failed) % {"n": failed})
    return ", ".join(told)
