"""Write the verdicts on an episode's steps: judgements, samples and turns, all or nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext_noop

from chat.models import Session, Turn
from core.errors import IllegalMove
from episodes import attempts
from episodes.models import Episode
from feedback.models import Feedback
from judge import off_record
from judge.hints import deletion
from judge.models import Judgement, Overruling
from judge.samples import pooling, sample_rows
from judge.samples.sample_rows import Reason
from judge.votes.evidence import Evidence
from judge.votes.opinions import Silence
from judge.votes.step_scores import StepScore
from training.models import Sample

VOID = Silence(gettext_noop("its attempt is void: the world failed, or it was called off"), Reason.UNCOUNTED.code)
FULL = Silence(gettext_noop("its attempt does not count: the model's window was full"), Reason.UNCOUNTED.code)
SHORT = Silence(
    gettext_noop("too few attempts at its task count, and one cannot be compared with none"), Reason.UNCOUNTED.code
)
NOT_PLAYED = Silence(gettext_noop("another reply to the same request was played in its place"), Reason.UNCOUNTED.code)
EXAMINES = Silence(gettext_noop("its task is held out: it examines, and never teaches"), Reason.HELD_OUT.code)
WORDS = Silence(gettext_noop("what was said of a step is kept, and its score alone teaches"), Reason.NOT_ASKED.code)


@dataclass(frozen=True)
class Step:
    """One reply of an episode, and all that is known of it."""

    turn: Turn
    number: int | None
    """Which step it is, from 0; None where it is none."""
    seen: Evidence
    word: Overruling | None = None
    unfit: Silence | None = None
    """Why it teaches nothing, whatever it scores."""

    @property
    def is_off(self) -> bool:
        """Off the record."""
        return not (self.turn.learns and self.turn.session.learns)

    @property
    def is_forgotten(self) -> bool:
        """Off the record by a person's word: nothing of it is kept. Held-out steps are so since they never teach."""
        return self.unfit == Silence.of(Reason.OFF)


@dataclass(frozen=True)
class StepVerdict:
    """What a step scores, and the sample that it makes."""

    step: Step
    score: StepScore
    hint: str = ""
    """What a person said it should have been: kept, and not taught."""
    sample: Sample | None = None
    silence: Silence | None = None
    """Why there is no sample, or what is missing in it."""


def claimed(turns: Collection[UUID]) -> set[UUID]:
    """Those of these turns that a run is learning just now."""
    held = Sample.objects.filter(origin__in=turns, status=Sample.Status.CLAIMED)
    return {pk for pk in held.values_list("origin", flat=True) if pk is not None}


def mark_late(turns: Collection[UUID]) -> None:
    """Mark what was said of these steps after a run had claimed their samples."""
    for sample in Sample.objects.filter(origin__in=turns, run__isnull=False).select_related("run"):
        if sample.run is not None and sample.status in (Sample.Status.CLAIMED, Sample.Status.TRAINED):
            said = Feedback.objects.standing().filter(turn=sample.origin, created_at__gt=sample.run.created_at)
            said.update(late=True)


@transaction.atomic
def write(episode: Episode, verdicts: Sequence[StepVerdict]) -> bool:
    """Write these verdicts. False: what they rest on changed meanwhile, and nothing was written. Raises IllegalMove
    where a run claimed a sample meanwhile."""
    turns = [verdict.step.turn for verdict in verdicts]
    session = episode.session_id
    if session is None:
        return False
    current = attempts.locked(episode.pk)
    if any(one.step.is_forgotten for one in verdicts):
        deletion.lock_sessions([session])  # forgetting deletes hints of other conversations too
    held = Session.objects.select_for_update().filter(pk=session).first()
    rows = Turn.objects.select_for_update().filter(pk__in=[turn.pk for turn in turns]).order_by("pk")
    now = {row.pk: row for row in rows.only("pk", "status", "observed_at", "learns")}
    if held is None or current.status != episode.status or claimed(list(now)):
        return False
    for turn in turns:
        row = now.get(turn.pk)
        if row is None or _stands(row, held) != _stands(turn, turn.session):
            return False
    _enter(episode, verdicts)
    mark_late(list(now))
    _move(turns)
    return True


def _stands(turn: Turn, session: Session) -> tuple[object, ...]:
    """What a verdict rests on: `observed_at` changes with whatever is said of a turn."""
    return turn.status, turn.observed_at, turn.learns, session.learns


def _enter(episode: Episode, verdicts: Sequence[StepVerdict]) -> None:
    pks = [verdict.step.turn.pk for verdict in verdicts]
    before = {one.turn_id: one for one in Judgement.objects.select_related("sample", "learned").filter(turn__in=pks)}
    known = set(Sample.objects.filter(origin__in=pks).values_list("origin", flat=True))
    fresh = [one for one in verdicts if one.step.turn.pk not in known and one.sample is not None]
    for one in fresh:
        if one.sample is not None:
            one.sample.origin = one.step.turn.pk
    pooling.enter_all([one.sample for one in fresh if one.sample is not None], episode.group.user_id)
    made: list[Judgement] = []
    for one in verdicts:
        turn = one.step.turn
        judgement = before.get(turn.pk) or Judgement(turn=turn)
        if one.step.is_forgotten:
            off_record.forget(turn, judgement)
        kept_out = ""
        if one in fresh:
            judgement.sample = one.sample
        elif turn.pk in known or judgement.sample is not None:
            kept_out = _replace(judgement, one)
        _fill(judgement, one, kept_out)
        if judgement.pk is None:
            made.append(judgement)
        else:
            judgement.save()
    Judgement.objects.bulk_create(made)


def _replace(judgement: Judgement, verdict: StepVerdict) -> Reason | str:
    """Put the sample of a step that is scored again in the place of the earlier one. A step is learned once, with its
    group: what is said of it afterwards changes nothing of that."""
    before, sample = judgement.sample, verdict.sample
    is_trained = before is not None and before.status == Sample.Status.TRAINED
    if verdict.step.unfit == Silence.of(Reason.LEARNED) or (sample is not None and is_trained):
        return Reason.LEARNED
    return sample_rows.entered(judgement, sample)


def _fill(judgement: Judgement, verdict: StepVerdict, kept_out: Reason | str) -> None:
    score, seen = verdict.score, verdict.step.seen
    judgement.reward, judgement.reward_from = score.sign, score.source
    judgement.confidence, judgement.rule = score.confidence, score.rule
    judgement.topic, judgement.teacher = "", {}
    judgement.hint = verdict.hint
    judgement.hint_from = ("guidance" if seen.guidance else "rewrite") if verdict.hint else ""
    judgement.evidence = seen.text if seen.next_role and not verdict.step.is_off else ""
    silence = verdict.silence
    judgement.reason = kept_out or (silence.reason if silence else "")
    judgement.reason_code = Reason.code_of(kept_out) or (silence.code if silence else "")
    judgement.judged_at = timezone.now()


def _move(turns: Sequence[Turn]) -> None:
    """Have these turns, which are locked, be judged, in one statement."""
    rows = Turn.objects.filter(pk__in=[turn.pk for turn in turns])
    open_states = (Turn.Status.OBSERVED, Turn.Status.CLOSED)
    moved = rows.filter(status__in=open_states).update(status=Turn.Status.JUDGED, moved_at=timezone.now())
    if moved != len(turns):
        raise IllegalMove(f"{len(turns) - moved} steps have moved meanwhile: nothing was changed.")
    for turn in turns:
        turn.status = Turn.Status.JUDGED
        turn.announce()
