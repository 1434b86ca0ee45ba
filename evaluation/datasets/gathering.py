"""Gather what people, tests and judges said into lessons for a dataset, a few turns in memory at a time.

Off the record is never read here: every query asks for turns and conversations that may teach. What was withdrawn does
not stand, and what is kept for examining candidates stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Prefetch, Q, QuerySet, Window
from django.utils.translation import gettext_noop as _

from chat import branches
from chat.branches import Tree
from chat.models import Session, Turn
from evaluation.datasets.cleaning import NotARow, Why, clean, words_alone
from evaluation.datasets.columns import Lesson, Message
from evaluation.datasets.filters import Filters
from evaluation.models import BlindChoice, Choice
from feedback.models import Feedback
from training.models import Sample

AT_ONCE = 50
"""Turns in memory: each may hold a whole conversation."""

PREVIEWED = 2
"""Conversations whose tries a preview looks through."""

HEAVY = ("prompt_ids", "response_ids", "logprobs", "tools")

ON_RECORD = Q(line=Turn.Line.MAIN, learns=True, session__learns=True)

Key = TypeVar("Key")

SOURCES = (
    _("rewrite"), _("thumb"), _("reviewer"), _("test"), _("rule"), _("votes"), _("kept try"), _("blind choice"),
    _("comparison"),
)  # fmt: skip
"""Where a row may come from, as its file of origins says it; a page translates it."""


@dataclass(frozen=True)
class Origin:
    """Where a row comes from: what stands beside it in the second file."""

    source: str
    """One of SOURCES."""
    turn: str = ""
    """The turn's number; of a comparison `comparison:NUMBER:PLACE`."""
    feedback: int | None = None
    """The number of what a person or a test said, which must still stand."""
    checkpoint: str = ""
    """Which weights wrote the reply that was judged."""
    judged_by: str = ""
    """`person:NUMBER`, or what else judged. No name is in a dataset."""
    other: str = ""
    """The turn of the reply that it was compared with, where that is another one of the same conversation."""
    confidence: float = 1.0
    """How likely the word is right; 1 for a person's and a test's."""
    said_at: str = ""
    removed: Sequence[dict[str, Any]] = ()
    """What of personal data was taken out of the prompt."""

    def told(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Found:
    """A row to be, and where it comes from."""

    lesson: Lesson
    origin: Origin


Outcome = Found | Why


def turns(filters: Filters) -> QuerySet[Turn]:
    """The turns that the filters ask for, oldest first."""
    return filters.over(Turn.objects.filter(ON_RECORD)).order_by("created_at", "pk")


def count(filters: Filters) -> int:
    """How many steps `gather` takes, about: turns, and choices between two replies."""
    if filters.kind != "dpo":
        return turns(filters).count()
    return turns(filters).count() + _choices(filters).count() + _picks(filters).count()


def off_record(filters: Filters) -> int:
    """How many turns something was said of that is off the record: they are counted, and not read."""
    rows = Turn.objects.filter(filters.of_people("session__user"), filters.within("created_at"), line=Turn.Line.MAIN)
    said = Feedback.objects.standing().filter(turn=OuterRef("pk"))
    return rows.filter(Exists(said)).exclude(learns=True, session__learns=True).count()


def newest(filters: Filters, most: int) -> tuple[list[UUID], int]:
    """The last so many turns that the filters ask for, the newest first, and how many they ask for. One query."""
    rows = turns(filters).annotate(every=Window(Count("*"))).values_list("pk", "every").reverse()[:most]
    found = list(rows)
    return [pk for pk, _every in found], found[0][1] if found else 0


def gather(filters: Filters, of: Sequence[UUID] | None = None) -> Iterator[Outcome]:
    """Every lesson that the filters ask for, or why there is none; with `of`, of these turns alone, for a preview."""
    for some in _batches(list(turns(filters).values_list("pk", flat=True)) if of is None else of):
        for turn in _loaded(some):
            yield from _tried(said_of(turn, filters))
    if filters.kind == "dpo":
        tries = _kept_tries(filters, most=None if of is None else PREVIEWED)
        for found in (tries, _chosen_blindly(filters), _compared(filters)):
            yield from _tried(found)


def said_of(turn: Turn, filters: Filters) -> Iterator[Found | NotARow]:
    """The lessons of one turn, with its feedback loaded as `standing`."""
    try:
        prompt = prompt_of(turn)
    except NotARow as error:
        yield error
        return
    rewrites = [one for one in turn.standing if one.kind == Feedback.Kind.REWRITE and one.text.strip()]  # type: ignore[attr-defined]
    verdict = label_of(turn, filters)
    if filters.kind == "kto":
        if verdict is None:
            yield NotARow(Why.NO_LABEL)
        else:
            yield _whole(turn, Lesson(prompt, turn.text, label=verdict[0]), verdict[1])
        return
    if rewrites:
        for one in rewrites:
            lesson = Lesson(prompt, one.text, turn.text if filters.kind == "dpo" else "")
            origin = _origin(turn, "rewrite", one)
            yield Found(lesson, origin) if filters.kind == "sft" else _whole(turn, lesson, origin)
    elif filters.kind == "sft" and verdict is not None and verdict[0]:
        yield _whole(turn, Lesson(prompt, turn.text), verdict[1])
    else:
        yield NotARow(Why.NO_REPLY if filters.kind == "sft" else Why.NO_PAIR)


def prompt_of(turn: Turn) -> list[Message]:
    """What this turn answers, as words. Raises NotARow where it has no place in a dataset."""
    judgement = getattr(turn, "judgement", None)
    if judgement is not None and judgement.held_out:
        raise NotARow(Why.KEPT)
    return words_alone(turn.messages)


def label_of(turn: Turn, filters: Filters) -> tuple[bool, Origin] | None:
    """Whether the reply was good, by the first that spoke: a reviewer, a thumb, a test, else a rule or the judges, as
    far as a run learns from them."""
    overruling = getattr(turn, "overruling", None)
    if overruling is not None:
        by = f"person:{overruling.by_id}" if overruling.by_id else "person"
        origin = Origin("reviewer", str(turn.pk), None, str(turn.checkpoint), by, said_at=_at(overruling.at))
        return (overruling.reward > 0, origin) if overruling.reward else None
    for kind, source in ((Feedback.Kind.THUMB, "thumb"), (Feedback.Kind.VERDICT, "test")):
        spoke = [one for one in turn.standing if one.kind == kind and one.value]  # type: ignore[attr-defined]
        if spoke:
            return spoke[-1].value > 0, _origin(turn, source, spoke[-1])
    judgement = getattr(turn, "judgement", None)
    if filters.explicit or judgement is None or turn.status != Turn.Status.JUDGED or not judgement.reward:
        return None
    if judgement.reward_from not in ("rule", "votes"):
        return None
    sample = judgement.sample or judgement.learned
    if sample is None or not sample.reward or sample.drop_reason or sample.status == Sample.Status.STALE:
        return None
    by = judgement.rule or "judges"
    confidence = 1.0 if judgement.confidence is None else judgement.confidence
    origin = Origin(judgement.reward_from, str(turn.pk), None, str(turn.checkpoint), by, confidence=confidence)
    return judgement.reward > 0, replace(origin, said_at=_at(judgement.judged_at))


def _whole(turn: Turn, lesson: Lesson, origin: Origin) -> Found | NotARow:
    """A lesson that shows the turn's own reply, which must be a whole one."""
    if turn.is_cut:
        return NotARow(Why.CUT)
    if turn.finish_reason == "tool_calls" or (turn.message or {}).get("tool_calls"):
        return NotARow(Why.CALLS)
    if turn.finish_reason != "stop":
        return NotARow(Why.STOPPED)
    return Found(lesson, origin)


def _kept_tries(filters: Filters, most: int | None = None) -> Iterator[Found | NotARow]:
    """Of tries at one reply the one that its person went on from, or chose, against each of the others; of so many
    conversations at most."""
    several = turns(filters).exclude(request_chain="").order_by("session").values("session", "request_chain")
    sessions = several.annotate(tries=Count("pk")).filter(tries__gt=1).values_list("session", flat=True)
    for pk in list(dict.fromkeys(sessions))[:most]:
        session = Session.objects.filter(pk=pk, learns=True).first()
        if session is None or not branches.has_branches(session):
            continue
        tree = Tree.of(session)
        tries: dict[str, list[UUID]] = {}
        for node in tree.nodes.values():
            tries.setdefault(node.request, []).append(node.pk)
        chosen = {*tree.path[:-1], session.head}
        for at in tree.path:
            same = tries[tree.nodes[at].request] if tree.nodes[at].request else []
            if at in chosen and len(same) > 1:
                loaded = {turn.pk: turn for turn in _loaded(same)}
                kept = loaded.pop(at, None)
                if kept is not None:
                    yield from (_pair(kept, other, "kept try") for other in loaded.values())


def _pair(kept: Turn, other: Turn, source: str) -> Found | NotARow:
    if other.text.strip() == kept.text.strip() or not other.text.strip():
        return NotARow(Why.NO_PAIR)
    try:
        prompt = prompt_of(kept)
    except NotARow as error:
        return error
    by = f"person:{kept.session.user_id}"
    origin = Origin(source, str(kept.pk), None, str(kept.checkpoint), by, str(other.pk), said_at=_at(kept.created_at))
    found = _whole(other, Lesson(prompt, kept.text, other.text), origin)
    return found if isinstance(found, NotARow) else _whole(kept, found.lesson, origin)


def _choices(filters: Filters) -> QuerySet[BlindChoice]:
    rows = BlindChoice.objects.exclude(picked=BlindChoice.Picked.SKIPPED).filter(
        filters.of_people("shadow__turn__session__user"), filters.within("at")
    )
    return rows.filter(shadow__turn__in=Turn.objects.trainable())


def _chosen_blindly(filters: Filters) -> Iterator[Found | NotARow]:
    """Which of two replies to their own question a person chose without knowing whose they were."""
    rows = _choices(filters).select_related(
        "shadow__turn__session", "shadow__turn__checkpoint", "shadow__turn__judgement"
    )
    for some in _batches(list(rows.order_by("pk").values_list("pk", flat=True))):
        for one in rows.filter(pk__in=some).order_by("pk"):
            turn, shadow = one.shadow.turn, one.shadow
            try:
                prompt = prompt_of(turn)
            except NotARow as error:
                yield error
                continue
            pair = (turn.text, shadow.text) if one.picked == BlindChoice.Picked.REPLY else (shadow.text, turn.text)
            origin = Origin("blind choice", str(turn.pk), None, str(turn.checkpoint), f"person:{one.by_id}")
            yield _whole(turn, Lesson(prompt, *pair), replace(origin, said_at=_at(one.at)))


def _picks(filters: Filters) -> QuerySet[Choice]:
    """Choices between two checkpoints on prompts that an operator wrote: of no person's conversation, and no lesson."""
    rows = Choice.objects.exclude(picked=Choice.Picked.SAME).filter(filters.within("at"))
    return rows if filters.state == "any" and not filters.person else rows.none()


def _compared(filters: Filters) -> Iterator[Found | NotARow]:
    rows = _picks(filters).select_related("comparison__first", "comparison__second").order_by("pk")
    for one in rows.iterator(AT_ONCE):
        replies = one.comparison.replies
        if one.place >= len(replies):
            continue
        said = replies[one.place]
        first, second = str(said["first"]), str(said["second"])
        pair = (first, second) if one.picked == Choice.Picked.FIRST else (second, first)
        prompt = [{"role": "user", "content": str(said.get("prompt", ""))}]
        by = f"person:{one.by_id}" if one.by_id else "person"
        names = f"{one.comparison.first} or {one.comparison.second}"
        origin = Origin("comparison", f"comparison:{one.comparison_id}:{one.place}", None, names, by)
        yield Found(Lesson(words_alone(prompt), *pair), replace(origin, said_at=_at(one.at)))


def _tried(found: Iterable[Found | NotARow]) -> Iterator[Outcome]:
    """Each as it may leave, or why not."""
    for one in found:
        if isinstance(one, NotARow):
            yield one.why
            continue
        try:
            cleaned = clean(one.lesson)
        except NotARow as error:
            yield error.why
            continue
        yield Found(cleaned.lesson, replace(one.origin, removed=tuple(cleaned.removed)))


def _loaded(pks: Sequence[Any]) -> list[Turn]:
    """These turns, as far as they are on the record, with what was said of them."""
    said = Prefetch("feedback", Feedback.objects.standing(), to_attr="standing")
    rows = Turn.objects.filter(ON_RECORD, pk__in=pks).defer(*HEAVY).prefetch_related(said)
    rows = rows.select_related("session", "checkpoint", "overruling", "judgement__sample", "judgement__learned")
    heavy = ("prompt_ids", "response_ids", "behaviour_logprobs", "sampled_logprobs", "teacher_prompt_ids")
    made = (f"judgement__{one}__{name}" for one in ("sample", "learned") for name in heavy)
    return list(rows.defer(*HEAVY, *made, "judgement__teacher", "judgement__evidence").order_by("created_at", "pk"))


def _origin(turn: Turn, source: str, said: Feedback) -> Origin:
    by = f"person:{said.by_id}" if source != "test" else "test"
    return Origin(source, str(turn.pk), said.pk, str(turn.checkpoint), by, said_at=_at(said.created_at))


def _at(moment: Any) -> str:
    return str(moment.isoformat(timespec="seconds"))


def _batches(keys: Sequence[Key]) -> Iterator[Sequence[Key]]:
    return (keys[at : at + AT_ONCE] for at in range(0, len(keys), AT_ONCE))
