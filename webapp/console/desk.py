"""What lies on the review desk: which hints a reviewer sees, in what order, and what is known of the one at hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Q, QuerySet
from django.http import QueryDict

from chat.models import Turn
from judge import evidence, samples
from judge.evidence import Evidence
from judge.models import Hint, Vote
from training import batches, line_recipes
from training.models import Line
from webapp.charts import heat
from webapp.console import differences

PAGE = 40
"""Rows that are shown at once; the next ones come when the list is read to its end."""

LOOKED_THROUGH = 200
"""How many of a person's hints are looked through for those that say the same."""

ALL = "all"

REASONS = ("not asked for", "wrong", "nothing new", "only this once", "not trusted")
"""Why hints are rejected, mostly: one key each."""

SOURCES = {
    Hint.Source.PERSON: "a correction that a person wrote",
    Hint.Source.SAID: "the person’s next message, in its own words",
    Hint.Source.USER: "the person’s next message, as judges read it",
    Hint.Source.ENVIRONMENT: "what the environment answered",
    Hint.Source.TEST: "what a test said",
    Hint.Source.TOOL: "what a tool wrote",
    Hint.Source.FILE: "the text of a file",
    Hint.Source.WEB: "text from the web",
}
"""Where a hint's words come from, for people; the least trusted comes last."""

LONG = (
    "turn__prompt_ids",
    "turn__response_ids",
    "turn__logprobs",
    "turn__tools",
    "turn__checkpoint__probe",
)
"""Columns as long as a conversation, which the list does not show."""

LISTED = (
    "status",
    "source",
    "text",
    "merged_into",
    "confidence",
    "conflicts",
    "created_at",
    "moved_at",
    "decided_by__username",
    "turn__learns",
    "turn__session__user__username",
)


ON_RECORD = Q(turn__learns=True, turn__session__learns=True, turn__line=Turn.Line.MAIN)
"""Hints that could teach. Those of turns that were taken out of learning are listed only among all."""


@dataclass(frozen=True)
class Filters:
    """Which hints are in the list. An unknown value in an address is left out, so that any address shows a list."""

    status: str = Hint.Status.WAITING
    """A status, or `all`."""
    source: str = ""
    person: str = ""
    """Whose conversation it is."""
    search: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> Filters:
        status, source = query.get("status", ""), query.get("source", "")
        return cls(
            status if status == ALL or status in Hint.Status.values else Hint.Status.WAITING,
            source if source in Hint.Source.values else "",
            words(query, "person", 150),
            words(query, "search", 200),
        )

    @property
    def query(self) -> str:
        """As it stands in an address, defaults left out."""
        status = "" if self.status == Hint.Status.WAITING else self.status
        said = {"status": status, "source": self.source, "person": self.person, "search": self.search}
        return urlencode({name: value for name, value in said.items() if value})

    def but(self, **changes: str) -> Filters:
        return replace(self, **changes)

    @property
    def is_narrow(self) -> bool:
        return bool(self.source or self.person or self.search)

    @property
    def order(self) -> tuple[str, bool]:
        """By which moment, and whether the newest comes first. What has waited longest comes first."""
        return ("created_at", False) if self.status == Hint.Status.WAITING else ("moved_at", True)

    def narrowed(self, rows: QuerySet[Hint]) -> QuerySet[Hint]:
        """By everything but the status."""
        if self.source:
            rows = rows.filter(source=self.source)
        if self.person:
            rows = rows.filter(turn__session__user__username=self.person)
        if self.search:
            said = Q(text__icontains=self.search) | Q(proposed__icontains=self.search)
            rows = rows.filter(said | Q(turn__text__icontains=self.search))
        return rows

    def rows(self) -> QuerySet[Hint]:
        """All of them, in order, with what a row of the list shows."""
        rows = self.narrowed(Hint.objects.select_related("turn__session__user", "decided_by").only(*LISTED))
        if self.status != ALL:
            rows = rows.filter(ON_RECORD, status=self.status)
        by, falls = self.order
        sign = "-" if falls else ""
        return rows.order_by(f"{sign}{by}", f"{sign}pk")

    def holds(self, hint: Hint) -> bool:
        return self.rows().filter(pk=hint.pk).exists()

    def beyond(self, at: datetime, pk: int, *, back: bool = False) -> Q:
        """What comes after (or `back`: before) the place of the hint `pk`, whose moment is `at`."""
        by, falls = self.order
        compare = "lt" if falls != back else "gt"
        return Q(**{f"{by}__{compare}": at}) | Q(**{by: at, f"pk__{compare}": pk})

    def place(self, hint: Hint) -> str:
        """Where it stands in the list, as `after` takes it."""
        return f"{getattr(hint, self.order[0]).isoformat()}~{hint.pk}"

    def page(self, after: str = "") -> list[Hint]:
        """The next rows from a `place` on, one more than are shown when there is more. A place that cannot be read
        is the beginning."""
        rows = self.rows()
        moment, _, pk = after.partition("~")
        if pk.isdecimal():
            with suppress(ValueError):
                rows = rows.filter(self.beyond(datetime.fromisoformat(moment), int(pk)))
        return list(rows[: PAGE + 1])

    def neighbour(self, hint: Hint, besides: Sequence[int] = ()) -> Hint | None:
        """Who is looked at once this one is decided: the next of the list, else the one before."""
        at = getattr(hint, self.order[0])
        rows = self.rows().exclude(pk__in=[hint.pk, *besides])
        return rows.filter(self.beyond(at, hint.pk)).first() or (
            rows.filter(self.beyond(at, hint.pk, back=True)).reverse().first()
        )


def words(sent: QueryDict, name: str, most: int) -> str:
    """What was typed into a field of one line, without what no database keeps."""
    return sent.get(name, "").replace("\x00", "").strip()[:most]


def listed(filters: Filters, after: str = "") -> dict[str, Any]:
    """A page of the list, and where the next begins."""
    rows = filters.page(after)
    more = filters.place(rows[PAGE - 1]) if len(rows) > PAGE else ""
    return {"rows": rows[:PAGE], "more": more, "filters": filters}


def counts(filters: Filters) -> dict[str, Any]:
    """How many hints there are in each state, from each source and of each person, the other filters being as
    they are."""
    narrow = filters.narrowed(Hint.objects.order_by())
    by_status = dict(narrow.filter(ON_RECORD).values_list("status").annotate(count=Count("pk")))
    within = Hint.objects.all() if filters.status == ALL else Hint.objects.filter(ON_RECORD, status=filters.status)
    by_source: Counter[str] = Counter()
    by_person: Counter[str] = Counter()
    groups = within.order_by().values_list("source", "turn__session__user__username").annotate(count=Count("pk"))
    for source, person, count in groups:
        if filters.person in ("", person):
            by_source[source] += count
        if filters.source in ("", source):
            by_person[person] += count
    return {
        "statuses": [(status, by_status.get(status, 0)) for status in Hint.Status.values],
        "total": narrow.count(),
        "sources": [(source, by_source[source]) for source in Hint.Source.values if by_source[source]],
        "people": sorted(by_person.items()),
    }


def waiting() -> int:
    """How many hints wait for a person."""
    return Hint.objects.filter(ON_RECORD, status=Hint.Status.WAITING).count()


def found(pk: int) -> Hint | None:
    """The hint with all that its page shows of it."""
    about = ("turn__session__user", "turn__checkpoint", "turn__judgement__sample", "decided_by", "merged_into")
    return Hint.objects.select_related(*about).defer(*LONG, "turn__judgement__teacher").filter(pk=pk).first()


def shown(hint: Hint) -> dict[str, Any]:
    """What a reviewer wants to know before deciding, in a fixed number of queries."""
    turn = hint.turn
    judgement = getattr(turn, "judgement", None)
    tokens = heat.tokens(hint.teacher)
    seen = evidence.of(turn)
    before, now = differences.between(hint.proposed, hint.text) if hint.text != hint.proposed else ([], [])
    return {
        "hint": hint,
        "turn": turn,
        "judgement": judgement,
        "source_in_words": SOURCES[Hint.Source(hint.source)],
        "tokens": tokens,
        "heat_sentence": heat.sentence(tokens) if tokens else "",
        "before": before,
        "now": now,
        "evidence": (judgement.evidence if judgement else "") or seen.text,
        "evidence_changed": bool(hint.evidence) and hint.evidence != seen.digest,
        "votes": votes_on(hint),
        "others": list(Hint.objects.filter(turn=turn).exclude(pk=hint.pk).only("status", "text", "turn")),
        "followers": hint.merged.count(),
        "consequence": consequence(hint, seen),
        "reasons": list(enumerate(REASONS, start=1)),
    }


def votes_on(hint: Hint) -> list[Vote]:
    """The hint votes on this turn, those on the same evidence first, then the others, which count no more."""
    votes = list(hint.turn.votes.filter(question=Vote.Question.HINT).order_by("index", "pk"))
    for vote in votes:
        vote.counts = not hint.evidence or vote.evidence == hint.evidence  # type: ignore[attr-defined]
    return sorted(votes, key=lambda vote: not vote.counts)  # type: ignore[attr-defined]


def consequence(hint: Hint, seen: Evidence) -> str:
    """What accepting will do, or did, in a sentence or two."""
    line = Line.of(hint.turn.session.user)
    recipe = line_recipes.recipe_of(line)
    batch = batches.filling(recipe, line)
    waits = batch.full_sentence
    if reason := samples.unfit(hint.turn, seen, recipe):
        return f"Accepting keeps the hint, and teaches nothing by this turn: {reason}."
    if not recipe.w_opd:
        return "Accepting keeps the hint. The recipe does not learn from hints just now (w_opd is 0)."
    if hint.status == Hint.Status.MERGED:
        return f"This turn learns with the words of the hint that it was merged into, once that is accepted. {waits}"
    if hint.is_accepted:
        sample = getattr(getattr(hint.turn, "judgement", None), "sample", None)
        became = f"its lesson is {sample.status}" if sample else "the turn is judged anew with it"
        return f"It teaches this turn: {became}. {waits}"
    return f"Accepting teaches this turn: the reply is learned as the hint would have it. {waits}"


def mergeable(hint: Hint, search: str = "") -> list[Hint]:
    """The newest hints of the same person that this one could be merged into."""
    rows = Hint.objects.filter(turn__session__user=hint.turn.session.user_id)
    rows = rows.exclude(pk=hint.pk).exclude(status__in=(Hint.Status.REJECTED, Hint.Status.MERGED))
    if search:
        rows = rows.filter(text__icontains=search)
    rows = rows.select_related("turn__session__user").only("text", "status", "turn__session__user__username")
    return list(rows.order_by("-moved_at", "-pk")[:LOOKED_THROUGH])
