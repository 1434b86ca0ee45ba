"""Exams of agents: what the gate asks to have played, which checkpoint plays in a group, and when an exam is over."""

from __future__ import annotations

import re

from django.db.models import QuerySet
from django.utils import timezone

from chat.api.catalog import ModelNotFound, choose_checkpoint
from chat.api_keys import ApiKey
from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from episodes.models import Exam, Group


class ExamNotFound(TalkbackError):
    """This key's person is asked to play no such exam."""

    code, status = "exam_not_found", 404


class ExamOver(TalkbackError):
    """Nothing more is played for this exam."""

    code, status, param = "exam_over", 409, "group"


class ExamDiffers(TalkbackError):
    """The exam asks for something else."""

    code, status = "exam_differs", 409

    def __init__(self, sentence: str, param: str) -> None:
        super().__init__(sentence)
        self.param = param


def ask(
    candidate: Checkpoint, live: Checkpoint, person: int, world: str, *, tasks: int, attempts: int, seed: int
) -> Exam:
    """Ask this person's players for held-out tasks of a world; asked again, the same exam."""
    wanted = {"tasks": tasks, "attempts": attempts, "seed": seed}
    exam, _ = Exam.objects.get_or_create(candidate=candidate, live=live, user_id=person, world=world, defaults=wanted)
    return exam


def list_open(key: ApiKey) -> QuerySet[Exam]:
    """What this key's person is asked to play, the longest asked first."""
    return Exam.objects.visible_to(key.user).filter(ended_at=None).select_related("candidate", "live").order_by("pk")


def close(key: ApiKey, pk: int, reason: str) -> Exam:
    """The player plays no more of it: the gate reads what there is. Twice changes nothing. Raises ExamNotFound."""
    exam = Exam.objects.visible_to(key.user).select_related("candidate", "live").filter(pk=pk).first()
    if exam is None:
        raise ExamNotFound(f"This key's person is asked to play no exam {pk}.")
    end(exam, reason)
    return exam


def end(exam: Exam, reason: str = "") -> None:
    """Have nothing more be played for it."""
    if exam.ended_at is None:
        exam.ended_at, exam.reason = timezone.now(), reason
        Exam.objects.filter(pk=exam.pk, ended_at=None).update(ended_at=exam.ended_at, reason=reason)


def choose_player(key: ApiKey, *, group: str, world: str, split: str, attempts: int | None, model: str) -> Checkpoint:
    """The checkpoint that plays in a group: what answers this key where no model is named, else the one that is.

    An exam's candidate plays in that exam's groups alone, and for the person alone who is asked to play it. Raises
    ModelNotFound, ExamNotFound, ExamOver or ExamDiffers.
    """
    if (exam := _exam_of(key, group)) is None:
        return choose_checkpoint(model, key)
    if exam.ended_at is not None:
        raise ExamOver(f"Exam {exam.pk} is over. {exam.reason}".strip())
    asked = {"world": (world, exam.world), "split": (split, Group.Split.HELDOUT), "attempts": (attempts, exam.attempts)}
    for name, (said, wanted) in asked.items():
        if said != wanted:
            raise ExamDiffers(f"Exam {exam.pk} asks for {name} {str(wanted)!r}, and not {said!r}.", name)
    player = next((who for who in (exam.candidate, exam.live) if str(who) == model), None)
    if player is None:
        raise ExamDiffers(f"Exam {exam.pk} is played by {exam.candidate} and {exam.live}: name one of them.", "model")
    if key.checkpoint_id and key.checkpoint_id != player.pk:
        raise ModelNotFound(f"This API key is answered by {key.checkpoint} alone, and cannot play {player}.")
    return player


def _exam_of(key: ApiKey, group: str) -> Exam | None:
    """The exam that a group's name names; None where it names none. Raises ExamNotFound."""
    named = re.match(r"exam-([0-9]{1,18})/", group)
    if named is None:
        return None
    found = Exam.objects.visible_to(key.user).select_related("candidate", "live").filter(pk=int(named[1])).first()
    if found is None:
        raise ExamNotFound(f"This key's person is asked to play no exam {named[1]}: give the group another name.")
    return found
