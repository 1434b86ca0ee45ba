"""Connect what follows what: a row that enters a state starts a task; the sweep reads the same list again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from celery import Task
from django.conf import settings
from django.db.models import Model, QuerySet
from django.utils import timezone
from kombu.exceptions import OperationalError

from chat import sessions
from chat.imports.import_rows import Import as ChatImport
from chat.models import Turn
from chat.pictures import keeping
from chat.replying import writers
from chat.signals import who_learned
from chat.tools import leases
from chat.tools.tasks import take_up
from checkpoints import repairs, trials
from checkpoints.cleaning_rows import Cleaning
from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from core.states import Stateful, moved
from episodes import lapses
from episodes.models import Episode
from evaluation import arms, clean_lines, exports, shadows, watching
from evaluation.datasets import exporting
from evaluation.models import Comparison, Export, Import
from evaluation.tasks import (
    compare,
    compare_clean_later,
    read_examples,
    shadow,
    take_examples,
    write_dataset,
    write_weights,
)
from feedback import importing
from feedback.signals import tainted, withdrawn
from feedback.tasks import import_chats
from gate import asked_again, played_later
from gate.tasks import consider, examine
from gpu_workers import engines
from judge import played_groups, steps
from judge.calibration import measuring
from judge.samples import base_answers
from judge.sittings import sitting
from judge.tasks import cast_votes, idly, judge_episode, judge_turn, measure, rehearse
from privacy import bin as chat_bin
from privacy import forgetting
from privacy.models import Erasure
from privacy.tasks import erase
from training import runs
from training.models import Run, Sample
from training.provenance import cleaning, retention, taints
from training.tasks import clean, fill_batch, promote, train
from webapp.notifications import events
from webapp.people import closing

log = logging.getLogger(__name__)


REPAIR_S = 20.0
"""How long one sweep waits for an engine that hangs; the next one asks it again."""


@dataclass(frozen=True)
class Arrow:
    """A row of `model` that entered `status` is due for `task`, which takes its id and is safe to run twice."""

    model: type[Stateful]
    status: str
    task: Task[[str], None]
    patience_s: float = 60
    """How long a row may wait before the sweep sends it again."""
    most: int = 50
    """How many rows one sweep sends."""
    due: Callable[[QuerySet[Any]], QuerySet[Any]] = lambda rows: rows
    """Which of the rows in that state wait for the task; usually all."""

    def send(self, pk: object, **options: Any) -> None:
        """Nudge a worker. With Redis away the row keeps the truth, and a later sweep sends it."""
        try:
            self.task.apply_async((str(pk),), retry=False, **options)
        except OperationalError as error:
            log.warning("%s of %s waits for the sweep: %s", self.task.name, pk, error)


def _not_played(turns: QuerySet[Any]) -> QuerySet[Any]:
    """Steps of an episode are due when it has ended; until then they would only stand in others' way."""
    return turns.exclude(session__episode__status=Episode.Status.PLAYING)


ARROWS = [
    Arrow(Turn, Turn.Status.OBSERVED, judge_turn, patience_s=30, due=_not_played),  # a next state, or feedback
    Arrow(Episode, Episode.Status.SCORED, judge_episode, due=steps.unjudged),  # its steps are scored together
    Arrow(Episode, Episode.Status.VOID, judge_episode, due=steps.unjudged),
    Arrow(Sample, Sample.Status.READY, fill_batch, most=1),  # a sample may complete a batch
    Arrow(Run, Run.Status.QUEUED, train),
    Arrow(Cleaning, Cleaning.Status.QUEUED, clean),  # a line is learned again without what was taken back
    Arrow(Comparison, Comparison.Status.QUEUED, compare),  # a person wants two side by side
    Arrow(Export, Export.Status.QUEUED, write_dataset, due=lambda rows: rows.filter(what=Export.What.DATASET)),
    Arrow(Export, Export.Status.QUEUED, write_weights, due=lambda rows: rows.exclude(what=Export.What.DATASET)),
    Arrow(Import, Import.Status.READING, read_examples),  # an operator brought a file of examples
    Arrow(Import, Import.Status.TAKING, take_examples),  # and said yes to what it holds
    Arrow(ChatImport, ChatImport.Status.ASKED, import_chats),  # a person brings chats of another program
    Arrow(Erasure, Erasure.Status.ASKED, erase),  # a person has everything of theirs deleted
    Arrow(Checkpoint, Checkpoint.Status.CANDIDATE, examine),  # the gate
    Arrow(Checkpoint, Checkpoint.Status.PASSED, consider),  # a line's policy may say yes; else a person does
    Arrow(Checkpoint, Checkpoint.Status.APPROVED, promote),
]


def follow(sender: type[Model], pk: object, status: str, **kwargs: object) -> None:
    """Send what is due now that this row is in this state."""
    for arrow in ARROWS:
        if arrow.model is sender and arrow.status == status:
            arrow.send(pk)
    if sender is Checkpoint:
        trials.end_overtaken()


def sweep() -> int:
    """Send again whatever has waited too long, and pick up what dead processes left. Returns how many were sent.

    The parts are independent: an engine that is away must not keep a lost run from being found. One sweep at a time.
    """
    with sitting("sweep", for_s=3 * REPAIR_S) as seat:
        if seat is None:
            return 0
        repair = async_to_sync(_repair)
        for part in (
            _close_stranded,
            _take_up,
            leases.close_unheld,
            writers.clear,
            _close_idle,
            lapses.close_lapsed,
            played_groups.settle_left,
            runs.recover,
            forgetting.catch_up,
            closing.remove_due,
            chat_bin.sweep,
            keeping.sweep,
            importing.clear,
            _clean,
            repair,
            arms.settle,
            watching.watch,
            _vote,
            _measure,
            _rehearse,
            _shadow,
            asked_again.prune,
            played_later.catch_up,
            retention.sweep,
            events.announce,
            exports.prune,
            exporting.check_again,
        ):
            try:
                part()
            except (TalkbackError, TimeoutError) as error:
                log.warning("the sweep left something for later: %s", error or "the engine took too long")
        return sum(_send_again(arrow) for arrow in ARROWS)


def _send_again(arrow: Arrow) -> int:
    """A nudge that no worker took lapses when the next one is due, so that they never pile up behind a long queue."""
    waiting_since = timezone.now() - timedelta(seconds=arrow.patience_s)
    rows: QuerySet[Any] = arrow.model._base_manager.all()
    due = arrow.due(rows.filter(status=arrow.status, moved_at__lt=waiting_since))
    keys = list(due.order_by("moved_at").values_list("pk", flat=True)[: arrow.most])
    for pk in keys:
        arrow.send(pk, expires=arrow.patience_s)
    return len(keys)


async def _repair() -> None:
    try:
        async with asyncio.timeout(REPAIR_S):
            await repairs.repair()
    finally:
        await engines.policy().aclose()  # this event loop ends here, and its connections with it


def _close_stranded() -> None:
    """Close replies whose writer is gone, but for those of a chat's tools, with which another process goes on."""
    writers.close_stranded(Turn.objects.filter(lease=None))


def _take_up() -> None:
    """Have workers go on with chats whose process went while their tools were in hand: a person waits for them."""
    for pk in leases.lost():
        with suppress(OperationalError):
            take_up.apply_async((str(pk),), retry=False, expires=settings.SWEEP_S)


def _close_idle() -> None:
    sessions.close_idle(settings.SESSION_IDLE_S)


def _vote() -> None:
    """Have the judge measured, while no person waits for anything."""
    if measuring.is_due():
        idly(cast_votes)


def _clean() -> None:
    """Go on with cleanings whose worker died between two steps, and with what was not measured yet."""
    for pk in cleaning.unfinished():
        cleaning.go_on(pk)
    cleaning.settle()
    for pk in clean_lines.unmeasured():
        compare_clean_later(pk)


def _measure() -> None:
    """Go on with measurings that no worker has in hand."""
    for pk in measuring.unfinished():
        idly(measure, str(pk))


def _rehearse() -> None:
    """Have the base answer what runs will rehearse, while no person waits for anything."""
    if base_answers.is_due():
        idly(rehearse)


def _shadow() -> None:
    """Have the frozen control answer what others answered, while no person waits for anything."""
    shadows.prune()
    if shadows.is_due():
        idly(shadow)


def _mark_withdrawn(turn_id: UUID, spans: Sequence[tuple[datetime, datetime | None]], **kwargs: object) -> None:
    taints.withdraw(turn_id, spans)


def _tainted_by(turn_id: UUID, **kwargs: object) -> list[Checkpoint]:
    return taints.tainted_by(turn_id)


def _learned_from(turns: QuerySet[Any], **kwargs: object) -> list[Checkpoint]:
    return taints.learned_from(turns)


def connect() -> None:
    moved.connect(follow, dispatch_uid="pipeline")
    withdrawn.connect(_mark_withdrawn, dispatch_uid="pipeline")
    tainted.connect(_tainted_by, dispatch_uid="pipeline")
    who_learned.connect(_learned_from, dispatch_uid="pipeline")
