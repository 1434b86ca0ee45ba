"""The queue of hints: what a reviewer sees of each, and accepts, edits, merges or rejects."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.db.models import Case, Count, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop, pgettext
from django.views.decorators.http import require_http_methods
from rapidfuzz import fuzz

from chat.models import Turn
from checkpoints.models import SHARED, Line
from core.errors import TalkbackError
from judge.hints import acceptance, likeness, reviews
from judge.models import Acceptance, Hint, Ruling, Vote
from judge.samples import sample_rows
from judge.votes import evidence
from judge.votes.evidence import Evidence
from training import batches, line_recipes
from webapp.charts import heat
from webapp.console.doors import needs, person
from webapp.console.review import desk, differences
from webapp.console.review.desk import said
from webapp.console.review.queues import Parts, Queue, Unsaid, words
from webapp.journeys import known

LOOKED_THROUGH = 200
"""How many of a person's hints are looked through for those that say the same."""

TARGETS = 8
"""Hints to merge into that are offered at once; others are found by searching."""

ALL = "all"

REASONS = (
    gettext_noop("not asked for"),
    gettext_noop("wrong"),
    gettext_noop("nothing new"),
    gettext_noop("only this once"),
    gettext_noop("not trusted"),
)
"""Why hints are rejected, mostly: one key each. Rows keep them in English."""

SOURCES = {
    Hint.Source.PERSON: gettext_noop("a correction that a person wrote"),
    Hint.Source.SAID: gettext_noop("the person’s next message, in its own words"),
    Hint.Source.USER: gettext_noop("the person’s next message, as judges read it"),
    Hint.Source.ENVIRONMENT: gettext_noop("what the environment answered"),
    Hint.Source.TEST: gettext_noop("what a test said"),
    Hint.Source.TOOL: gettext_noop("what a tool wrote"),
    Hint.Source.FILE: gettext_noop("the text of a file"),
    Hint.Source.WEB: gettext_noop("text from the web"),
}
"""Where a hint's words come from, for people; the least trusted comes last."""

LONG = (
    *("turn__prompt_ids", "turn__logprobs", "turn__tools", "turn__checkpoint__probe", "turn__checkpoint__made"),
    *("turn__judgement__teacher", "merged_into__teacher"),
    *(f"turn__judgement__sample__{name}" for name in known.LONG),
)
"""Columns as long as a conversation, which no page shows."""

LISTED = (
    *("status", "source", "text", "merged_into", "confidence", "conflicts", "created_at", "moved_at"),
    *("decided_by__username", "turn__learns", "turn__session__user__username"),
)

ON_RECORD = Q(turn__learns=True, turn__session__learns=True, turn__line=Turn.Line.MAIN)
"""Hints that could teach. Those of turns that were taken out of learning are listed only among all."""


def edit(hint: Hint, request: HttpRequest) -> Ruling:
    text = words(request.POST, "text", 8000).replace("\r\n", "\n")
    if not text:
        raise Unsaid(_("A hint needs words: write what the reply should do, or reject the hint."))
    return reviews.edit(hint, text, **said(request))


def merge(hint: Hint, request: HttpRequest) -> Ruling:
    into = Hint.objects.filter(pk=Hints.key(request.POST.get("into", ""))).first()
    if into is None:
        raise Unsaid(_("Choose the hint that says the same."))
    return reviews.merge(hint, into, **said(request))


def never_learn(hint: Hint, request: HttpRequest) -> Ruling:
    return reviews.never_learn(hint.turn, by=person(request), reason=said(request)["reason"], hint=hint)


@dataclass(frozen=True)
class Hints(Queue[Hint]):
    """Hints in one state or in all: of those that wait, what has waited longest comes first."""

    KIND = "hint"
    TEMPLATE = "review/_hint.html"
    SEARCHES = gettext_lazy("Search hints and replies")
    GONE = gettext_lazy("This hint is gone: its conversation was deleted meanwhile.")
    MODEL = Hint
    TAB = "status"
    CHOICES = {"status": (ALL, *Hint.Status.values), "source": Hint.Source.values}
    VERBS = {
        "accept": lambda hint, request: reviews.accept(hint, **said(request)),
        "edit": edit,
        "merge": merge,
        "reject": lambda hint, request: reviews.reject(hint, **said(request)),
        "never": never_learn,
    }
    MANY = (
        ("accept", "a", gettext_lazy("Accept")),
        ("reject", "r", gettext_lazy("Reject")),
        ("never learn", "n", gettext_lazy("Never learn")),
    )

    status: str = Hint.Status.WAITING.value
    """A status, or `all`."""
    source: str = ""

    @property
    def order(self) -> tuple[str, bool]:
        return ("created_at", False) if self.status == Hint.Status.WAITING else ("moved_at", True)

    def narrowed(self, rows: QuerySet[Hint]) -> QuerySet[Hint]:
        """By everything but the status."""
        if self.source:
            rows = rows.filter(source=self.source)
        if self.person:
            rows = rows.filter(turn__session__user__username=self.person)
        if self.search:
            rows = rows.filter(self.searched())
        return rows

    def searched(self) -> Q:
        named = Q(text__icontains=self.search) | Q(proposed__icontains=self.search)
        return named | Q(turn__text__icontains=self.search)

    def rows(self) -> QuerySet[Hint]:
        rows = self.narrowed(Hint.objects.select_related("turn__session__user", "decided_by").only(*LISTED))
        if self.status != ALL:
            rows = rows.filter(ON_RECORD, status=self.status)
        by, falls = self.order
        sign = "-" if falls else ""
        return rows.order_by(f"{sign}{by}", f"{sign}pk")

    def found(self, pk: Any) -> Hint | None:
        about = ("turn__session__user", "turn__checkpoint", "turn__judgement__sample", "decided_by", "merged_into")
        followers = Hint.objects.filter(merged_into=OuterRef("pk")).order_by().values("merged_into")
        counted = Coalesce(Subquery(followers.annotate(n=Count("pk")).values("n")), 0)
        own, shared = (
            Line.objects.filter(members__user=OuterRef("turn__session__user")),
            Line.objects.filter(name=SHARED),
        )
        rows = Hint.objects.select_related(*about).defer(*LONG).filter(pk=pk)
        return rows.annotate(
            followers=counted,
            line_name=Coalesce(Subquery(own.values("name")[:1]), Value(SHARED)),
            line_recipe=Coalesce(Subquery(own.values("recipe")[:1]), Subquery(shared.values("recipe")[:1])),
        ).first()

    def counts(self) -> Parts:
        by_status: Counter[str] = Counter()
        by_source: Counter[str] = Counter()
        by_person: Counter[str] = Counter()
        named = ("status", "source", "turn__session__user__username")
        of = Hint.objects.order_by().annotate(
            on_record=Case(When(ON_RECORD, then=True), default=False),
            found=Count("pk", filter=self.searched()) if self.search else Count("pk"),
        )
        for status, source, name, on_record, found, count in of.values_list(*named, "on_record", "found").annotate(
            count=Count("pk")
        ):
            is_of, is_from = self.person in ("", name), self.source in ("", source)
            if is_of and is_from:
                by_status[ALL] += found
                by_status[status] += found if on_record else 0
            if self.status == ALL or (on_record and status == self.status):
                by_source[source] += count if is_of else 0
                by_person[name] += count if is_from else 0
        sources = [(one, f"{_(one)} ({by_source[one]})") for one in Hint.Source.values if by_source[one]]
        people = [(name, f"{name} ({count})") for name, count in sorted(by_person.items()) if count]
        tabs = [self.tabbed(status, pgettext("hint", status), by_status[status]) for status in Hint.Status.values]
        return {
            "tabs": [*tabs, self.tabbed(ALL, pgettext("hints", "all"), by_status[ALL])],
            "selects": [
                self.select("source", _("From which source"), _("from any source"), sources),
                self.select("person", _("Of whom"), _("of any person"), people),
            ],
        }

    def details(self, row: Hint, sent: QueryDict) -> Parts:
        turn, seen = row.turn, evidence.of(row.turn)
        judgement = getattr(turn, "judgement", None)
        tokens = heat.tokens(row.teacher)
        before, now = differences.between(row.proposed, row.text) if row.text != row.proposed else ([], [])
        return {
            "hint": row,
            "turn": turn,
            "judgement": judgement,
            "source_in_words": _(SOURCES[Hint.Source(row.source)]),
            "tokens": tokens,
            "heat_sentence": heat.sentence(tokens) if tokens else "",
            "before": before,
            "now": now,
            "evidence": (judgement.evidence if judgement else "") or seen.text,
            "evidence_changed": bool(row.evidence) and row.evidence != seen.digest,
            "votes": votes_on(row),
            "followers": row.followers,  # type: ignore[attr-defined]  # as `found` counts them
            "consequence": consequence(row, seen),
            "reasons": list(enumerate(REASONS, start=1)),
            **beside(row, words(sent, "likely", 200)),
        }

    def part(self, row: Hint, sent: QueryDict) -> tuple[str, Parts] | None:
        if "likely" not in sent:
            return None
        return "review/_merge_targets.html", candidates(row, words(sent, "likely", 200))

    def row_of(self, ruling: Ruling) -> Hint | None:
        return ruling.hint or Hint.objects.filter(turn=ruling.turn_id).first()

    def changed_by(self, rulings: Any) -> list[Any]:
        return list(Hint.objects.filter(turn__in=[one.turn_id for one in rulings]).values_list("pk", flat=True))


@needs("policies")
@require_http_methods(["GET", "POST"])
def accepted_without(request: HttpRequest) -> HttpResponse:
    """From which confidence on hints of each source are accepted without a person: the panel, or a page of its own
    where no script asked for it."""
    if request.method == "POST":
        return set_acceptance(request)
    queue = Hints.read(request.GET)
    template = "review/_acceptance.html" if desk.is_fragment(request) else "review/acceptance.html"
    return render(request, template, {**policies(), "queue": queue})


def set_acceptance(request: HttpRequest) -> HttpResponse:
    """Have what is typed hold; with an empty field hints of that source wait."""
    queue, changed = desk.back(request, Hints), []
    try:
        wanted = {source: threshold_of(request, source) for source in Hint.Source if source in request.POST}
        for source, above in wanted.items():
            if above != acceptance.threshold(source):
                acceptance.accept_from(source, above, by=person(request))
                changed.append(str(source))
    except TalkbackError as failure:
        panel = {**policies(request.POST), "queue": queue, "fault": str(failure)}
        if desk.is_fragment(request):
            return render(request, "review/_acceptance.html", panel, status=failure.status)
        messages.error(request, str(failure), extra_tags="bad")
        return redirect(queue.address())
    told = _("As it was.")
    if changed:
        sources = ", ".join(_(source) for source in changed)
        told = _("Saved, for %(sources)s. It holds for hints that come from now on.") % {"sources": sources}
    if desk.is_fragment(request):
        return render(request, "review/_acceptance.html", {**policies(), "queue": queue, "saved": told})
    messages.success(request, told, extra_tags="good")
    return redirect(queue.address())


urls = [
    *desk.routes(Hints, "row"),
    path("hints/<row:pk>/<str:verb>/", desk.decide, {"of": Hints}, name="hint_decide"),
    path("hints/many/", desk.decide_many, {"of": Hints}, name="hints_decide"),
    path("hints/acceptance/", accepted_without, name="hint_acceptance"),
]


def votes_on(hint: Hint) -> list[Vote]:
    """The hint votes on this turn, those on the same evidence first, then the others, which count no more."""
    votes = list(hint.turn.votes.filter(question=Vote.Question.HINT).order_by("index", "pk"))
    for vote in votes:
        vote.counts = not hint.evidence or vote.evidence == hint.evidence  # type: ignore[attr-defined]
    return sorted(votes, key=lambda vote: not vote.counts)  # type: ignore[attr-defined]


def consequence(hint: Hint, seen: Evidence) -> str:
    """What accepting will do, or did, in a sentence or two."""
    line = Line(name=hint.line_name, recipe=hint.line_recipe)  # type: ignore[attr-defined]  # as `found` has them
    recipe = line_recipes.recipe_of_row(line)
    waits = batches.filling(recipe, line.name).full_sentence
    if reason := sample_rows.unfit(hint.turn, seen, recipe):
        return _("Accepting keeps the hint, and teaches nothing by this turn: %(why)s.") % {"why": _(reason)}
    if not recipe.w_opd:
        return _("Accepting keeps the hint. The recipe does not learn from hints just now (w_opd is 0).")
    if hint.status == Hint.Status.MERGED:
        told = _("This turn learns with the words of the hint that it was merged into, once that is accepted.")
        return f"{told} {waits}"
    if hint.is_accepted:
        sample = getattr(getattr(hint.turn, "judgement", None), "sample", None)
        if sample:
            told = _("It teaches this turn: its lesson is %(status)s.") % {"status": _(sample.status)}
        else:
            told = _("It teaches this turn: the turn is judged anew with it.")
        return f"{told} {waits}"
    return f"{_('Accepting teaches this turn: the reply is learned as the hint would have it.')} {waits}"


def beside(hint: Hint, search: str) -> Parts:
    """The other hints on its turn, and those of `candidates`. One query."""
    found = of_same_person(hint, search, same_turn=True)
    others = sorted(
        (one for one in found if one.turn_id == hint.turn_id), key=lambda one: (one.created_at, one.pk), reverse=True
    )
    return {"others": others, **candidates(hint, search, [one for one in found if one.can_lead])}


def candidates(hint: Hint, search: str, found: list[Hint] | None = None) -> Parts:
    """Which hints this one could be merged into: those that ask for the same, then those in much the same words;
    or, if the reviewer searches, those with these words. Only the same person's: what one asks for is not the
    other's. `found` are those of `of_same_person`, where they are known."""
    chosen = of_same_person(hint, search) if found is None else found
    twins = [other for other in chosen if likeness.of_a_kind(hint.text, other.text)] if not search else []
    if not search:
        shared = {other.pk: fuzz.token_set_ratio(hint.text, other.text) for other in chosen}
        chosen = sorted(chosen, key=lambda other: (other not in twins, -shared[other.pk]))
    return {"likely": search, "targets": chosen[:TARGETS], "twins": twins[:2]}


def of_same_person(hint: Hint, search: str, *, same_turn: bool = False) -> list[Any]:
    """The newest hints of the same person that this one could be merged into: each `can_lead`. With `same_turn` all
    others on its turn are among them, in front."""
    leads = Q(turn__session__user=hint.turn.session.user_id)
    leads &= ~Q(status__in=(Hint.Status.REJECTED, Hint.Status.MERGED))
    if search:
        leads &= Q(text__icontains=search)
    here = Q(turn=hint.turn_id) if same_turn else Q(pk__in=[])
    rows = Hint.objects.filter(leads | here).exclude(pk=hint.pk)
    rows = rows.annotate(
        can_lead=Case(When(leads, then=True), default=False), is_here=Case(When(here, then=0), default=1)
    )
    rows = rows.select_related("turn__session__user")
    rows = rows.only("text", "status", "created_at", "turn", "turn__session__user__username")
    return list(rows.order_by("is_here", "-moved_at", "-pk")[:LOOKED_THROUGH])


def policies(typed: Any = None) -> Parts:
    """For each source, what is accepted by itself, and who said so."""
    rows = {row.source: row for row in Acceptance.objects.select_related("changed_by")}
    told = []
    for source, name in SOURCES.items():
        above = rows[source].above if source in rows else acceptance.DEFAULTS.get(source)
        field = "" if above is None else f"{100 * above:g}"
        told.append((source, _(name), typed.get(source, field) if typed else field, rows.get(source)))
    return {"policies": told}


def threshold_of(request: HttpRequest, source: str) -> float | None:
    """The share that the form names, as a part of one; None: always waits."""
    typed = request.POST.get(source, "").strip().removesuffix("%").strip().replace(",", ".")
    if not typed:
        return None
    try:
        percent = float(typed)
    except ValueError:
        percent = -1
    if not 0 <= percent <= 100:
        told = _("%(source)s: “%(typed)s” is no share of votes. Write 0 to 100, or leave it empty to wait.")
        raise Unsaid(told % {"source": _(source), "typed": typed[:20]})
    return percent / 100
