"""The exam: a candidate against what answers in its line, on prompts that never train. It passes or not, with numbers.

Does the engine really answer with these weights (gate.applied)? Are the replies still replies (gate.side_by_side)? Can
it still do what it could (gate.general_pack)? Does it please no less than before (gate.rated_replies), also where
corrections never trained (gate.personal_part)? Did it learn by heart (gate.meter_part)? All this is asked through the
engine, and a worker that dies half-way goes on where it stopped. Do agents solve no fewer tasks (gate.agent_part)? That
is played by others, and the exam waits for them. The limits are those of the run's recipe (training.config.Gate)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext_noop

from chat.models import Turn
from chat.rendering.renderer import Renderer
from checkpoints import notices, rulings
from checkpoints.loading import Unproven
from checkpoints.models import SHARED, Checkpoint, Decision
from core.errors import IllegalMove
from core.states import moved
from gate import agent_part, asked_again, exam_requests, general_pack, personal_part
from gate.applied import find_applied
from gate.findings import SAYS, Check, collapsed, kept_up, pleased, preferred
from gate.meter_part import read_meter
from gate.models import Examination
from gate.rated_replies import prefer_rated, rated_of
from gate.side_by_side import compare, grams_of, wishes_of
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import AdapterInvalid, AdapterMissing, EngineRefused, EngineUnavailable
from judge.models import Judgement
from judge.samples import exam_questions, personal_holdout
from judge.sittings import Seat, sitting
from training import config
from training.config import Gate
from training.models import Run
from training.provenance import cleaning

HANDFUL = 4
"""Prompts asked at once, of both checkpoints: eight replies fill the embedded engine's batch."""


AGAIN = 6
"""Corrected questions that are asked again, the newest first. They decide nothing: a person looks at them first."""

SEAT_S = 120
"""How long a dead examiner's seat stays taken; it is kept anew for each handful of prompts."""


class SeatLost(Exception):
    """Another worker examines it by now."""


@dataclass(frozen=True)
class Plan:
    """What the exam asks, settled before it begins: so its progress has one total."""

    prompts: Sequence[exam_questions.ExamQuestion]
    items: Sequence[general_pack.Item]
    kept: Sequence[Judgement]
    again: Sequence[Turn]

    @property
    def total(self) -> int:
        return len(self.prompts) + len(self.items) + len(self.kept) + len(self.again)


def examine(checkpoint_id: str, *, engine: Engine, renderer: Renderer, limits: Gate | None = None) -> None:
    """Move a candidate to PASSED or REJECTED, by the limits of its run's recipe where no others are given. Does nothing
    for any other state, or when another worker examines it.

    Raises EngineUnavailable when the engine does not answer; asking again goes on where this stopped.
    """
    with sitting(f"exam {checkpoint_id}", for_s=SEAT_S) as seat:
        if seat is None:
            return
        checkpoint = Checkpoint.objects.get(pk=checkpoint_id)
        if checkpoint.status != Checkpoint.Status.CANDIDATE or cleaning.is_step(checkpoint):
            return
        held_to = limits or config.gate_of(run.recipe if (run := Run.that_made(checkpoint)) else {})
        try:
            exam = _begun(checkpoint)
            checks = agent_part.set_aside(exam)
            if checks is None:
                checks = _examined(exam, seat, engine, renderer, held_to)
            _keep(seat)
        except SeatLost:
            return
        if all(check.passed for check in checks):
            if agent_part.is_waiting(exam):
                agent_part.wait(exam, checks)
                return
            checks += agent_part.findings(exam)
        _close(exam, checkpoint, checks)


def look(checkpoint: Checkpoint, *, engine: Engine, renderer: Renderer, limits: Gate | None = None) -> Examination:
    """The exam of a checkpoint once more, whatever its state: nothing is kept and nothing moves. Against what it was
    examined against, or where it never was, against the weights that it came from; the base against itself."""
    before = Examination.objects.filter(checkpoint=checkpoint).select_related("against").first()
    against = before.against if before is not None else checkpoint.parent or checkpoint
    exam = Examination(checkpoint=checkpoint, against=against)
    held_to = limits or config.gate_of(run.recipe if (run := Run.that_made(checkpoint)) else {})
    checks = _examined(exam, None, engine, renderer, held_to)
    exam.checks, exam.passed = [asdict(check) for check in checks], all(check.passed for check in checks)
    return exam


def _keep(seat: Seat | None) -> None:
    """Stay the one who examines. Raises SeatLost."""
    if seat is not None and not seat.renew(SEAT_S):
        raise SeatLost


def _examined(exam: Examination, seat: Seat | None, engine: Engine, renderer: Renderer, limits: Gate) -> list[Check]:
    """All checks of the exam, what is known of earlier attempts not asked again. Raises SeatLost, EngineUnavailable."""
    checkpoint, run = exam.checkpoint, Run.that_made(exam.checkpoint)
    plan = _plan(exam, renderer, limits)
    try:
        _say(exam, gettext_noop("loading"), plan)
        with _timed(exam, gettext_noop("loading and proof")):
            checks = find_applied(checkpoint, engine)
        if limits.off or not all(check.passed for check in checks):
            return checks
        agent_part.ask(exam, limits)  # so that it is played meanwhile
        wishes, known = wishes_of(run), grams_of(run)
        for start in range(0, len(plan.prompts), HANDFUL):
            _keep(seat)
            with _timed(exam, gettext_noop("replies")):
                compare(exam, plan.prompts[start : start + HANDFUL], wishes, known, engine, renderer, limits)
            _say(exam, gettext_noop("replies"), plan)
        _ask_pack(exam, seat, plan, engine, renderer)
        _ask_own(exam, seat, plan, engine, renderer, limits)
        _ask_again(exam, seat, plan, engine)
        _keep(seat)
        _say(exam, gettext_noop("preference"), plan)
        with _timed(exam, gettext_noop("rated replies")):
            rated = prefer_rated(exam, rated_of(run, renderer), engine)
        with _timed(exam, gettext_noop("meter")):
            metered = read_meter(exam, engine, limits)
        checks += collapsed(exam.pairs, limits)
        checks += kept_up([general_pack.Row.read(row) for row in exam.pack], limits)
        checks += preferred(exam.pairs, wishes)
        checks += rated
        checks += pleased([personal_part.Row.read(row) for row in exam.personal], limits)
        return checks + metered
    except AdapterMissing as error:  # loaded, and let go of again at once: that says nothing of the weights
        raise EngineUnavailable(str(error)) from error
    except exam_requests.Unaskable as error:
        if error.who.pk == checkpoint.pk:
            return [Check("applied", False, 0.0, 0.0, str(error))]
        raise _waits(checkpoint, error) from error
    except (AdapterInvalid, Unproven) as error:
        return [Check("applied", False, 0.0, 0.0, str(error))]
    except EngineRefused as error:
        return [Check("answered", False, 0.0, 0.0, f"{SAYS['refused']} {error}")]


def _waits(checkpoint: Checkpoint, failure: exam_requests.Unaskable) -> EngineUnavailable:
    """Why a candidate waits for what it is held against, which cannot be asked: that says nothing of the candidate.
    Operators hear of it; another exam begins once something else answers."""
    why = f"{rulings.SAYS['exam waits'] % {'who': failure.who, 'checkpoint': checkpoint}} {failure}"
    notices.tell(f"weights {failure.who}", why, level="error", checkpoint=failure.who)
    return EngineUnavailable(why)


def _plan(exam: Examination, renderer: Renderer, limits: Gate) -> Plan:
    """What is asked. An exam that is only looked at asks no corrected questions again: their replies are kept."""
    checkpoint, again = exam.checkpoint, AGAIN if exam.pk else 0
    if limits.off:
        return Plan((), (), (), ())
    return Plan(
        exam_questions.questions()[: limits.prompts],
        general_pack.items()[: limits.pack],
        personal_holdout.of(checkpoint.line_id or SHARED, limits.own),
        asked_again.find_questions(Run.that_made(checkpoint), again, renderer.context_length),
    )


def _begun(checkpoint: Checkpoint) -> Examination:
    """The exam's row; what an earlier attempt found is kept if it was against the same live checkpoint."""
    live = Checkpoint.live(checkpoint.line_id)
    exam, _ = Examination.objects.get_or_create(checkpoint=checkpoint, defaults={"against": live})
    if exam.against_id != live.pk:
        exam.against, exam.started_at = live, timezone.now()
        exam.pairs, exam.pack, exam.personal, exam.agents, exam.meter, exam.progress = [], [], [], [], {}, {}
        agent_part.ask_anew(checkpoint, live)
        with transaction.atomic():
            exam.asked_again.all().delete()
            exam.save()
    return exam


def _close(exam: Examination, checkpoint: Checkpoint, checks: Sequence[Check]) -> None:
    """Move the candidate and write the result, all or nothing: who was quicker has the last word.

    `checkpoint` is the row as it was read when it was a candidate: from no other state is it moved.
    """
    failed = [check for check in checks if not check.passed]
    exam.checks = [asdict(check) for check in checks]
    exam.passed, exam.finished_at = not failed, timezone.now()
    exam.progress |= {"phase": "done", "done": exam.progress["total"]}
    exam.progress.pop(agent_part.ASIDE, None)
    reason = " ".join(check.sentence for check in failed)
    exam.pairs = _worst_first(exam.pairs, [name for check in failed if check.where == "pairs" for name in check.worst])
    try:
        with transaction.atomic():
            checkpoint.move(Checkpoint.Status.REJECTED if failed else Checkpoint.Status.PASSED, reason=reason)
            if failed:
                Decision.objects.create(checkpoint=checkpoint, verb=Decision.Verb.REJECT, by=None, reason=reason)
            exam.save()
            if failed:
                agent_part.call_off(checkpoint, f"{checkpoint} was rejected.")
    except IllegalMove:
        return
    moved.send(sender=Examination, pk=exam.pk, status="done")


def _worst_first(pairs: Sequence[dict[str, Any]], worst: Sequence[str]) -> list[dict[str, Any]]:
    """The pairs with those first that made a check fail."""
    place = {name: at for at, name in reversed(list(enumerate(worst)))}
    return sorted(pairs, key=lambda pair: place.get(pair["id"], len(worst)))


def _say(exam: Examination, phase: str, plan: Plan) -> None:
    """Write how far the exam has come, and tell the pages that watch. The total is the one that it began with, and what
    was done stays done: the worker that goes on with it may find that a question is gone since."""
    total = exam.progress.get("total", plan.total)
    done = len(exam.pairs) + len(exam.pack) + len(exam.personal) + (exam.asked_again.count() if exam.pk else 0)
    done = max(exam.progress.get("done", 0), min(done, total))
    exam.progress |= {"phase": phase, "done": done, "total": total}
    if exam.pk is None:  # it is only looked at
        return
    exam.save()
    moved.send(sender=Examination, pk=exam.pk, status=phase)


@contextmanager
def _timed(exam: Examination, part: str) -> Iterator[None]:
    """Add the seconds that this takes to those of its part; an attempt that ends half-way counts as well."""
    began = monotonic()
    try:
        yield
    finally:
        before = exam.progress.get("seconds", {})
        exam.progress["seconds"] = before | {part: round(before.get(part, 0.0) + monotonic() - began, 2)}


def _ask_pack(exam: Examination, seat: Seat | None, plan: Plan, engine: Engine, renderer: Renderer) -> None:
    """Ask both the general pack, as far as it was not asked; what live did on it in an earlier exam is known."""
    there = {row["mark"] for row in exam.pack}
    todo, known = [item for item in plan.items if item.mark not in there], general_pack.known(exam.against)
    for start in range(0, len(todo), general_pack.HANDFUL):
        _keep(seat)
        with _timed(exam, gettext_noop("general pack")):
            rows = general_pack.ask(todo[start : start + general_pack.HANDFUL], exam, known, engine, renderer)
        exam.pack = [*exam.pack, *(row.written() for row in rows)]
        _say(exam, gettext_noop("general pack"), plan)


def _ask_own(
    exam: Examination, seat: Seat | None, plan: Plan, engine: Engine, renderer: Renderer, limits: Gate
) -> None:
    """Ask both the corrections that people's lines kept, as far as they were not asked."""
    there = {row["turn"] for row in exam.personal}
    todo = [kept for kept in plan.kept if str(kept.turn_id) not in there]
    taught = personal_part.Lessons.of(exam.checkpoint) if todo else personal_part.Lessons()
    for start in range(0, len(todo), HANDFUL):
        _keep(seat)
        with _timed(exam, gettext_noop("kept corrections")):
            rows = personal_part.ask(todo[start : start + HANDFUL], taught, exam, engine, renderer, limits)
        exam.personal = [*exam.personal, *(row.written() for row in rows)]
        _say(exam, gettext_noop("kept corrections"), plan)


def _ask_again(exam: Examination, seat: Seat | None, plan: Plan, engine: Engine) -> None:
    """Ask the corrected questions that it learned from, as far as they were not asked."""
    there = set(exam.asked_again.values_list("turn", flat=True)) if plan.again else set()
    todo = [turn for turn in plan.again if turn.pk not in there]
    for start in range(0, len(todo), HANDFUL):
        _keep(seat)
        with _timed(exam, gettext_noop("corrected questions")):
            asked_again.ask(todo[start : start + HANDFUL], exam, engine)
        _say(exam, gettext_noop("corrected questions"), plan)
