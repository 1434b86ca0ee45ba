"""What a person keeps asking for: their standing hints, those that say the same together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Count, Q, QuerySet

from checkpoints.models import Checkpoint
from judge.hints import hint_words, likeness, reviews, undecided, wish_words
from judge.models import Hint, Ruling
from judge.samples.origins import made_of
from training.models import Sample

NOT_ANY_MORE = "Not any more."
"""The reason in the log by which what was taken back here is known."""

MOST = 500
"""How many of a person's newest standing hints are read."""

TAKEN_BACK = 5
"""How many of the latest withdrawals can be undone on the page."""


@dataclass(frozen=True)
class Request:
    """One turn after which it was asked for."""

    hint: Hint
    words: str
    """What its turn learns with."""
    learned: tuple[int, ...] = ()
    """Numbers of the checkpoints that were trained on it with a hint."""
    waits: bool = False
    """Its sample waits for a batch, or is being learned."""

    @property
    def at(self) -> datetime:
        return self.hint.created_at


@dataclass(frozen=True)
class Opposite:
    """Another preference of the same person that asks for the contrary."""

    wording: str
    is_newer: bool


@dataclass(frozen=True)
class Preference:
    """One wish, however often it was said."""

    requests: tuple[Request, ...]
    """The newest first; at least one."""
    opposites: tuple[Opposite, ...] = ()

    @cached_property
    def wording(self) -> str:
        """The words it was said in most often, of several the newest."""
        counts = Counter(request.words for request in self.requests)
        return max(self.requests, key=lambda request: (counts[request.words], request.at, request.hint.pk)).words

    @cached_property
    def others(self) -> list[str]:
        """Its other wordings."""
        return [words for words in dict.fromkeys(one.words for one in self.requests) if words != self.wording]

    @property
    def times(self) -> int:
        return len(self.requests)

    @property
    def since(self) -> datetime:
        return min(request.at for request in self.requests)

    @property
    def last(self) -> datetime:
        return max(request.at for request in self.requests)

    @property
    def learned(self) -> int:
        """How many turns taught it."""
        return sum(bool(request.learned) for request in self.requests)

    @property
    def waiting(self) -> int:
        return sum(request.waits for request in self.requests)

    @property
    def checkpoints(self) -> list[int]:
        return sorted({number for request in self.requests for number in request.learned})

    @property
    def is_own_words(self) -> bool:
        return any(request.hint.source == Hint.Source.PERSON for request in self.requests)


def of(person: User) -> list[Preference]:
    """What this person keeps asking for, what was asked for last first. Rewrites are left out: they say how one reply
    should have been."""
    standing = _standing(person).select_related("turn__session", "merged_into").only(*READ).order_by("-pk")
    shown = [(hint, hint_words.guidance_in(reviews.taught(hint))) for hint in standing[:MOST]]
    asked = [(hint, words) for hint, words in shown if words]
    learned, waiting = _made_of([hint.turn_id for hint, _ in asked])
    requests = [
        Request(hint, words, tuple(sorted(learned[hint.turn_id])), hint.turn_id in waiting) for hint, words in asked
    ]
    groups = likeness.groups([request.words for request in requests])
    found = [Preference(tuple(requests[place] for place in group)) for group in groups]
    found.sort(key=lambda preference: preference.last, reverse=True)
    # Compared are those alone that name a known matter: most name none, and each would be held against each.
    known = [(one, one.wording) for one in found]
    known = [(one, words) for one, words in known if wish_words.find_matters(words)]
    opposites = {id(one): tuple(_opposites(one, words, known)) for one, words in known}
    return [replace(one, opposites=opposites.get(id(one), ())) for one in found]


def rewrites(person: User) -> int:
    """How many replies this person wrote anew."""
    return sum(hint_words.is_rewrite(text) for text in _standing(person).values_list("text", flat=True)[:MOST])


def waiting(person: User) -> int:
    """How many hints after this person's replies wait for a reviewer."""
    return undecided.queue().filter(turn__session__user=person).count()


def forgo(chosen: Iterable[Hint], *, by: User) -> tuple[list[Ruling], list[str]]:
    """Not any more: these hints are rejected together, and what was made of them and not yet learned is taken back.

    What was learned stays in the weights. Returns the rulings, which `undoing.undo` takes back together, and a sentence
    for each hint that another person decided on meanwhile.
    """
    return reviews.bulk(Ruling.Verb.REJECT, chosen, by=by, reason=NOT_ANY_MORE)


def forgone(person: User) -> list[Ruling]:
    """The latest withdrawals of what this person asked for that were not undone, one ruling of each; newest first."""
    made = Ruling.objects.filter(
        turn__session__user=person, verb=Ruling.Verb.REJECT, reason=NOT_ANY_MORE, undone_by=None
    ).exclude(before={})
    one_of_each: dict[UUID | int, Ruling] = {}
    for ruling in made.select_related("by").order_by("-pk")[: TAKEN_BACK * 20]:
        one_of_each.setdefault(ruling.bulk or ruling.pk, ruling)
    return list(one_of_each.values())[:TAKEN_BACK]


def people() -> QuerySet[User]:
    """Everybody who has a standing hint, with how many (`standing`), the most first."""
    on_record = Q(sessions__learns=True, sessions__turns__learns=True)
    stands = Q(sessions__turns__hints__status__in=reviews.STANDS)
    counted = Count("sessions__turns__hints", filter=on_record & stands, distinct=True)
    return User.objects.annotate(standing=counted).filter(standing__gt=0).order_by("-standing", "username")


def live_line(person: User) -> set[int]:
    """The numbers of the checkpoint that answers this person and of those that it was trained from."""
    parents = {row.pk: row for row in Checkpoint.objects.only("number", "parent")}
    line, here = set(), parents.get(Checkpoint.for_user(person).pk)
    while here is not None:
        line.add(here.number)
        here = parents.get(here.parent_id) if here.parent_id is not None else None
    return line


READ = (
    *("status", "source", "text", "created_at", "merged_into__status", "merged_into__text"),
    *("turn__session__title", "turn__session__deleted_at"),
)
"""What is read of a hint: its turn's row holds the whole conversation."""


def _standing(person: User) -> QuerySet[Hint]:
    return Hint.objects.filter(
        turn__session__user=person, turn__session__learns=True, turn__learns=True, status__in=reviews.STANDS
    )


def _made_of(turns: Sequence[UUID]) -> tuple[dict[UUID, set[int]], set[UUID]]:
    """By turn the checkpoints that learned it with a hint; and the turns whose hint waits to be learned."""
    learned: dict[UUID, set[int]] = defaultdict(set)
    waiting: set[UUID] = set()
    rows = Sample.objects.filter(made_of(turns), teacher_prompt_ids__isnull=False).values_list(
        "status", "judgement__turn", "first_judgement__turn", "origin", "run__checkpoint__number"
    )
    for status, turn, earlier, origin, number in rows:
        for pk in (turn, earlier, origin):
            if pk is None:
                continue
            if status == Sample.Status.TRAINED and number is not None:
                learned[pk].add(number)
            elif status in (Sample.Status.READY, Sample.Status.CLAIMED):
                waiting.add(pk)
    return learned, waiting


def _opposites(one: Preference, wording: str, known: Sequence[tuple[Preference, str]]) -> list[Opposite]:
    """The preferences that ask for the contrary of this one, the newest first."""
    return [
        Opposite(words, other.last > one.last)
        for other, words in known
        if other is not one and likeness.opposed(wording, words)
    ]
