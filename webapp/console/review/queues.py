"""A queue of the review desk: one kind of row that reviewers decide on, its list, its filters and its places."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar
from urllib.parse import urlencode

from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, QueryDict
from django.urls import reverse

from core.errors import TalkbackError
from judge.models import Ruling

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

Parts = dict[str, Any]
Row = TypeVar("Row", bound=Model)
Verb = Callable[[Any, HttpRequest], Ruling]

PAGE = 40
"""Rows that are shown at once; the next ones come when the list is read to its end."""


class Unsaid(TalkbackError):
    """A form left out what it is about."""

    code, status = "unsaid", 422


@dataclass(frozen=True)
class Queue(Generic[Row], ABC):
    """One kind of row that reviewers decide on, and as fields the filters that narrow its list. An unknown value in an
    address is left out, so that any address shows a list."""

    KIND: ClassVar[str]
    """Names its addresses and its elements on the page."""
    TEMPLATE: ClassVar[str]
    """Shows the row at hand."""
    SEARCHES: ClassVar[StrOrPromise]
    GONE: ClassVar[StrOrPromise]
    MODEL: ClassVar[type[Model]]
    TAB: ClassVar[str]
    """The filter of which a tab is always chosen."""
    CHOICES: ClassVar[Mapping[str, Collection[str]]]
    """What a filter may be, besides its default; those not named here are free text."""
    VERBS: ClassVar[Mapping[str, Verb]]
    MANY: ClassVar[tuple[tuple[str, str, StrOrPromise], ...]] = ()
    """What can be done with several at once: (verb, key, words)."""

    person: str = ""
    """Whose conversation it is."""
    search: str = ""

    @abstractmethod
    def rows(self) -> QuerySet[Row]:
        """All of them, in order, with what a row of the list shows."""

    @abstractmethod
    def found(self, pk: Any) -> Row | None:
        """The row with all that its page shows; None where a reviewer may not see it."""

    @abstractmethod
    def counts(self) -> Parts:
        """`tabs` and `selects`: the ways to look at fewer rows, with how many there are."""

    @abstractmethod
    def details(self, row: Row, sent: QueryDict) -> Parts:
        """What a reviewer wants to know before deciding, in a fixed number of queries."""

    @abstractmethod
    def row_of(self, ruling: Ruling) -> Row | None:
        """What a ruling was about."""

    @abstractmethod
    def changed_by(self, rulings: Sequence[Ruling]) -> list[Any]:
        """Primary keys of the rows that these rulings may have taken out of the list."""

    def part(self, row: Row, sent: QueryDict) -> tuple[str, Parts] | None:
        """A smaller template than all that is at hand, where a fragment asks for it."""
        return None

    @property
    @abstractmethod
    def order(self) -> tuple[str, bool]:
        """By which moment, and whether the newest comes first."""

    @classmethod
    def read(cls, sent: QueryDict) -> Self:
        said = {field.name: words(sent, field.name, 200) for field in fields(cls)}
        return cls(
            **{name: value for name, value in said.items() if value in cls.CHOICES.get(name, (value,)) and value}
        )

    @classmethod
    def key(cls, text: str) -> Any:
        """The primary key that a text names; None where it names none."""
        with suppress(ValidationError):
            return cls.MODEL._meta.pk.clean(text, None)
        return None

    @property
    def said(self) -> dict[str, str]:
        """The filters that are not as they come."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) != field.default}

    @property
    def query(self) -> str:
        """As it stands in an address, defaults left out."""
        return urlencode(self.said)

    @property
    def is_narrow(self) -> bool:
        """True where a filter besides the tab is set."""
        return bool(self.said.keys() - {self.TAB})

    @property
    def tab(self) -> str:
        """The tab; empty where it is the first."""
        return self.said.get(self.TAB, "")

    @property
    def url(self) -> str:
        return reverse(f"console:{self.KIND}s")

    def tabbed(self, tab: str, said: StrOrPromise, count: int) -> tuple[StrOrPromise, int, str, bool]:
        """One tab: (words, rows, query, chosen)."""
        return said, count, replace(self, **{self.TAB: tab}).query, getattr(self, self.TAB) == tab

    def select(self, name: str, label: str, every: str, options: Sequence[tuple[str, str]]) -> tuple[Any, ...]:
        """One filter to choose: (name, label, how leaving it open is worded, [(value, words)], value now)."""
        return name, label, every, options, getattr(self, name)

    def address(self, row: Row | None = None) -> str:
        base = reverse(f"console:{self.KIND}", args=[row.pk]) if row else self.url
        return f"{base}?{self.query}" if self.query else base

    def moment(self, row: Row) -> datetime:
        """By what the list is ordered."""
        return reduce(getattr, self.order[0].split("__"), row)  # type: ignore[return-value, arg-type]

    def beyond(self, at: datetime, pk: Any, *, back: bool = False) -> Q:
        """What comes after (or `back`: before) the place of the row `pk`, whose moment is `at`."""
        by, falls = self.order
        compare = "lt" if falls != back else "gt"
        return Q(**{f"{by}__{compare}": at}) | Q(**{by: at, f"pk__{compare}": pk})

    def listed(self, after: str = "") -> Parts:
        """A page of the list from a place on, and the place where the next begins. A place that cannot be read is the
        beginning."""
        rows = self.rows()
        moment, _sign, pk = after.partition("~")
        with suppress(ValueError):
            if moment and (key := self.key(pk)):
                rows = rows.filter(self.beyond(datetime.fromisoformat(moment), key))
        page = list(rows[: PAGE + 1])
        more = f"{self.moment(page[PAGE - 1]).isoformat()}~{page[PAGE - 1].pk}" if len(page) > PAGE else ""
        return {"rows": page[:PAGE], "more": more, "queue": self}

    def neighbour(self, row: Row, besides: Sequence[Any] = ()) -> Row | None:
        """Who is looked at once this one is decided: the next of the list, else the one before."""
        rows = self.rows().exclude(pk__in=[row.pk, *besides])
        try:
            at = self.moment(row)
        except ObjectDoesNotExist:
            return rows.first()
        return rows.filter(self.beyond(at, row.pk)).first() or (
            rows.filter(self.beyond(at, row.pk, back=True)).reverse().first()
        )


def words(sent: QueryDict, name: str, most: int) -> str:
    """What was typed into a field of one line, without what no database keeps."""
    return sent.get(name, "").replace("\x00", "").strip()[:most]
