"""State machine for rows: the states, the moves each allows, and one way to move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, ClassVar

from django.db import models, transaction
from django.dispatch import Signal
from django.utils import timezone

from core.errors import IllegalMove
from core.prepared import update

moved = Signal()
"""A row entered a state, and the transaction that did it has committed.

Sent with `sender` the model, `pk`, and `status` the state it entered (creation included)."""

Sink = Callable[[type[models.Model], object, str], None]
"""Takes one move: the model, the row's pk, the state it entered."""

_sink: ContextVar[Sink | None] = ContextVar("deferred_moves", default=None)


@contextmanager
def defer_signals(sink: Sink) -> Iterator[None]:
    """Collect state changes in `sink`, which sends their signals soon, in one batch: no request waits for listeners.

    The row is the truth in any case: a listener that missed a signal finds the row by its sweep."""
    token = _sink.set(sink)
    try:
        yield
    finally:
        _sink.reset(token)


class Stateful(models.Model):
    """A row with states. Subclasses give `Status`, a `status` field and `MOVES`."""

    MOVES: ClassVar[dict[str, set[str]]]
    if TYPE_CHECKING:  # each subclass has its own, with its own choices
        status = models.CharField(max_length=12)

    moved_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        abstract = True

    def move(self, to: str, **fields: object) -> None:
        """Enter state `to`, and set `fields` with it, in one conditional UPDATE: of two that try, one wins.

        Raises IllegalMove when MOVES forbids it or the row has moved meanwhile; the row is then unchanged.
        """
        if to not in self.MOVES.get(self.status, set()):
            raise IllegalMove(f"{self._meta.verbose_name} {self.pk} is {self.status}: it cannot become {to}.")
        now = timezone.now()
        if not update(type(self), {"pk": self.pk, "status": self.status}, {"status": to, "moved_at": now} | fields):
            raise IllegalMove(f"{self._meta.verbose_name} {self.pk} is no longer {self.status}: nothing was changed.")
        self.status, self.moved_at = to, now
        for name, value in fields.items():
            setattr(self, name, value)
        self.announce()

    def save(self, *args: object, **kwargs: object) -> None:
        born = self._state.adding
        super().save(*args, **kwargs)  # type: ignore[arg-type]
        if born:
            self.announce()

    def announce(self) -> None:
        """Tell each listener that this row is in its present state, once it is committed."""
        model, pk, status = type(self), self.pk, str(self.status)
        if (sink := _sink.get()) is not None:
            transaction.on_commit(lambda: sink(model, pk, status))
        else:
            transaction.on_commit(lambda: moved.send(sender=model, pk=pk, status=status))
