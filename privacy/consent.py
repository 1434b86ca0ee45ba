"""What a person allows to be learned from, and what is taken back when they change their mind.

Off the record: the conversation itself is stored, with what is said beside its replies, since it is the person's own;
nothing is made of it. No evidence, no vote, no hint, no sample is kept of such a turn, and its verdict says no more
than that learning is off. What was learned before is in weights already: those are told, and marked
(training/provenance/taints.py); it is taken out by learning the line again without it
(training/provenance/cleaning.py), or by rolling back."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chat import sessions, turns
from chat.api_keys import ApiKey
from chat.models import Session, Turn
from chat.usual_consent import Consent
from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from judge import off_record
from judge.hints import deletion
from judge.models import Judgement
from judge.samples.origins import made_of
from training.models import Sample

LATEST_FIRST = ("-number",)


class ReviewerSaidNo(TalkbackError):
    """A reviewer took this turn out of learning; its person cannot put it back."""

    code, status = "reviewer_said_no", 409


@dataclass(frozen=True)
class TakenBack:
    """What became of what had been made of some turns."""

    waiting: int = 0
    """Samples that waited to be learned, and are gone."""
    learning: int = 0
    """Samples that a run is learning now: they go when it has ended."""
    learned: int = 0
    """Samples that were learned before."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """Which learned them, the newest first."""

    @property
    def sentences(self) -> str:
        """The same for the person."""
        said = []
        if self.waiting:
            waited = ngettext(
                "One reply that waited to be learned from is out of it.",
                "%(n)s replies that waited to be learned from are out of it.",
                self.waiting,
            )
            said.append(waited % {"n": self.waiting})
        if self.learning:
            learning = ngettext(
                "A run is learning from one reply at this moment; nothing further follows from that.",
                "A run is learning from %(n)s replies at this moment; nothing further follows from that.",
                self.learning,
            )
            said.append(learning % {"n": self.learning})
        if self.learned:
            names = ", ".join(str(one) for one in self.checkpoints) or _("a checkpoint that is gone")
            learned = ngettext(
                "Learned already: %(n)s reply, in the weights of %(names)s and of what was trained on from there. "
                "Those who run this Talkback are told, and can have it learned again without.",
                "Learned already: %(n)s replies, in the weights of %(names)s and of what was trained on from there. "
                "Those who run this Talkback are told, and can have it learned again without.",
                self.learned,
            )
            said.append(learned % {"n": self.learned, "names": names})
        return " ".join(said)


def by_default(user: User) -> bool:
    """Whether what this person begins may be learned from unless they say otherwise."""
    return Consent.by_default(user)


def set_default(user: User, learns: bool) -> None:
    """From now on this person's new conversations and keys begin on, or off, the record."""
    Consent.objects.update_or_create(user=user, defaults={"learns": learns, "changed_at": timezone.now()})


@transaction.atomic
def set_session(session: Session, learns: bool) -> TakenBack:
    """Put a conversation on or off the record.

    On again: what was said before it went off is judged anew, what was said meanwhile stays out.
    """
    if not learns:
        deletion.lock_sessions([session.pk])
    locked = sessions.locked(session.pk)
    turns.set_learning(locked, learns)
    session.learns = learns
    of_session = Turn.objects.filter(session=locked)
    if not learns:
        return take_back(of_session)
    _judge_again(of_session.filter(learns=True))
    return TakenBack()


@transaction.atomic
def set_turn(turn: Turn, learns: bool) -> TakenBack:
    """Put one message and its reply on or off the record. Raises ReviewerSaidNo."""
    if not learns:
        deletion.lock_sessions([turn.session_id])
    locked = turns.locked(turn)
    one = Turn.objects.filter(pk=locked.pk)
    if learns and off_record.is_refused(locked):
        raise ReviewerSaidNo(_("A reviewer took this reply out of learning; a reviewer can undo that in the console."))
    one.update(learns=learns, withheld=not learns)
    turn.learns = locked.learns = learns
    if learns:
        _judge_again(one)
        locked.announce()
        return TakenBack()
    taken = take_back(one)
    _say_again(locked)
    return taken


@transaction.atomic
def set_key(key: ApiKey, learns: bool) -> TakenBack:
    """Let what comes through a key be learned from, or serve it only. Off: what came through it before is off the
    record as well. On: from the next request on."""
    ApiKey.objects.filter(pk=key.pk).update(learns=learns)
    key.learns = learns
    if learns:
        return TakenBack()
    key.issued.update(learns=False)
    through = Session.objects.filter(Q(key=key) | Q(key__parent=key))
    deletion.lock_sessions(list(through.values_list("pk", flat=True)))
    of_key = Turn.objects.filter(session__in=through.order_by().values("pk"))
    of_key.update(learns=False, withheld=True)
    taken = take_back(of_key)
    for turn in of_key.select_related("session").defer(*turns.LONG):
        _say_again(turn)
    return taken


def take_back(of: QuerySet[Turn]) -> TakenBack:
    """Let go at once of what was made of these turns, which are off the record: the next batch must not find it.
    Call it inside a transaction, with their sessions locked (deletion.lock_sessions)."""
    counts, learned_in = {"waiting": 0, "learning": 0, "learned": 0}, set()
    judged = Judgement.objects.select_related("turn__session", "sample", "learned").filter(turn__in=of)
    made: dict[uuid.UUID | None, list[Sample]] = {}
    for sample in Sample.objects.filter(origin__in=of.values("pk")).only("pk", "origin", "status", "run"):
        made.setdefault(sample.origin, []).append(sample)
    for judgement in judged.defer("teacher", "evidence"):
        own = [sample for sample in (judgement.sample, judgement.learned) if sample is not None]
        counted = {sample.status for sample in own}
        for sample in own + [sample for sample in made.get(judgement.turn_id, ()) if sample not in own]:
            if sample not in own and sample.status in counted:  # the same reply, in the shared line too
                learned_in.add(sample.run_id if sample.status == Sample.Status.TRAINED else None)
                continue
            if sample.status == Sample.Status.READY:
                counts["waiting"] += 1
            elif sample.status == Sample.Status.CLAIMED:
                counts["learning"] += 1
            elif sample.status == Sample.Status.TRAINED:
                counts["learned"] += 1
                learned_in.add(sample.run_id)
        off_record.forget(judgement.turn, judgement)
        judgement.save()
    for turn in of.filter(judgement=None).defer(*turns.LONG):
        off_record.forget(turn, None)
    checkpoints = Checkpoint.objects.filter(run__in=learned_in - {None}).order_by(*LATEST_FIRST)
    return TakenBack(**counts, checkpoints=tuple(checkpoints))


def learned_from(of: Iterable[Turn] | QuerySet[Turn]) -> QuerySet[Sample]:
    """What of these turns is in weights."""
    return Sample.objects.filter(made_of(of), status=Sample.Status.TRAINED)


def _judge_again(of: QuerySet[Turn]) -> None:
    """Have those of these turns judged anew of which something is known that may teach."""
    heard = of.exclude(observed_at=None).exclude(status__in=(Turn.Status.ANSWERING, Turn.Status.OBSERVED))
    for turn in heard.select_related("session").defer(*turns.LONG):
        turns.reopen(turn)


def _say_again(turn: Turn) -> None:
    """Its verdict is due, which says that learning is off; the page shows it at once."""
    if turn.status == Turn.Status.JUDGED:
        turn.move(Turn.Status.OBSERVED, observed_at=timezone.now())
    else:
        turn.announce()
