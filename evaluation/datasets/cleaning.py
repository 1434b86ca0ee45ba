"""Texts as a dataset may hold them: words alone, and nothing personal.

A prompt has placeholders in place of what was taken out, as a sample has. A reply that holds something personal is left
out: a placeholder in it would be learned by heart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.utils.translation import gettext_noop as _

from evaluation.datasets.columns import Lesson, Message
from judge.samples import exam_questions, redaction
from judge.samples.personal import search
from judge.samples.removal import Remover
from judge.samples.sample_rows import Reason

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


class Why(StrEnum):
    """Why something that was said is no row, as a person reads it."""

    OFF = _("it is off the record")
    KEPT = _("it is kept for examining candidates")
    EXAM = Reason.HELD_OUT.value
    CALLS = _("it holds tool calls or pictures, for which these columns have no place")
    PERSONAL = _("its reply holds personal data")
    STILL_PERSONAL = _("personal data in its prompt could not be taken out")
    EMPTY = _("its prompt or its reply is empty")
    CUT = _("its reply was cut off at its length limit")
    STOPPED = _("its reply was stopped before it was whole")
    NO_REPLY = _("no better reply is known: a hint, or a thumb down, says what was wrong and shows no other")
    NO_PAIR = _("there is one reply alone, and no other to compare it with")
    NO_LABEL = _("neither a person nor a test said whether the reply was good")


class NotARow(Exception):
    """A lesson cannot be a row; says why."""

    def __init__(self, why: Why) -> None:
        super().__init__(why.value)
        self.why = why


@dataclass(frozen=True)
class Cleaned:
    """A lesson without what is personal."""

    lesson: Lesson
    removed: list[dict[str, Any]]
    """[{"where", "kind", "count"}], as a sample keeps it."""


def words_alone(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Messages of OpenAI's shape as role and text. Raises NotARow where they hold something else."""
    said: list[Message] = []
    for message in messages:
        role, content = ROLES.get(str(message.get("role"))), message.get("content")
        if isinstance(content, list):
            if not all(isinstance(part, Mapping) and part.get("type") == "text" for part in content):
                raise NotARow(Why.CALLS)
            content = "\n".join(str(part.get("text", "")) for part in content)
        if role is None or message.get("tool_calls") or message.get("pictures") or not isinstance(content, str):
            raise NotARow(Why.CALLS)
        said.append({"role": role, "content": content})
    return said


def clean(lesson: Lesson) -> Cleaned:
    """The lesson as it may leave, or be learned word for word. Raises NotARow."""
    replies = [text for text in (lesson.completion, lesson.rejected) if text]
    if not lesson.prompt or lesson.prompt[-1]["role"] != "user" or not lesson.completion.strip():
        raise NotARow(Why.EMPTY)
    if exam_questions.includes(lesson.prompt[-1]["content"]):
        raise NotARow(Why.EXAM)
    remover = Remover(redaction.wanted())
    if not redaction.is_on(remover.wanted):
        return Cleaned(lesson, [])
    redaction.learn(remover, lesson.prompt, (), replies)
    if any(remover.branch().clean(text, redaction.REPLY) != text for text in replies):
        raise NotARow(Why.PERSONAL)
    prompt: list[Message] = [
        {"role": one["role"], "content": remover.clean(one["content"], redaction.REQUEST)} for one in lesson.prompt
    ]
    if any(search.find(one["content"], remover.wanted) for one in prompt):
        raise NotARow(Why.STILL_PERSONAL)
    return Cleaned(Lesson(prompt, lesson.completion, lesson.rejected, lesson.label), remover.told)
