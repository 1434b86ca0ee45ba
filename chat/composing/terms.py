"""Find how a chat is answered: with which instructions, which sampling, by which checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from chat.api.catalog import list_checkpoints
from chat.composing.defaults import ChatDefaults
from chat.models import Session
from chat.requests import Message
from chat.turns import MAX_NEW_TOKENS
from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from gpu_workers.types import Sampling

USUAL: Mapping[str, Any] = {
    "temperature": Sampling().temperature,
    "top_p": Sampling().top_p,
    "max_new_tokens": MAX_NEW_TOKENS,
}
"""What counts where a chat sets nothing else."""


class CheckpointGone(TalkbackError):
    """The chat asks for a checkpoint that does not answer its person any more."""

    code, status = "checkpoint_gone", 409


class Terms(Protocol):
    """What a session and a person's defaults have in common."""

    instructions: str
    sampling: dict[str, Any]
    tools: list[str]


def of_page(user: User | AnonymousUser, session: Session | None) -> Terms:
    """The settings of this chat; of one that begins, those of its person's new chats."""
    return session if session is not None else ChatDefaults.of(user)


def sampling_of(terms: Terms) -> Sampling:
    """How the next reply is drawn."""
    return Sampling(**{name: terms.sampling.get(name, usual) for name, usual in USUAL.items()})


def with_instructions(messages: Sequence[Message], instructions: str) -> list[dict[str, Any]]:
    """These messages behind these instructions, in place of those that stood there.

    >>> with_instructions([{"role": "system", "content": "Old."}, {"role": "user", "content": "Hi"}], "New.")
    [{'role': 'system', 'content': 'New.'}, {'role': 'user', 'content': 'Hi'}]
    """
    told = [{"role": "system", "content": instructions}] if instructions else []
    return [*told, *(dict(message) for message in messages if message["role"] != "system")]


def servable_to(user: User | AnonymousUser) -> QuerySet[Checkpoint]:
    """The checkpoints that a chat of this person may ask for, newest first: live ones, and those that were live and
    whose weights are still here."""
    return list_checkpoints(user).filter(let_go_at=None)  # type: ignore[arg-type]  # people of pages are signed in


def answering(user: User | AnonymousUser, session: Session | None) -> Checkpoint:
    """Who answers in this chat: the checkpoint that it asks for, else the live one of its person's line. Raises
    CheckpointGone."""
    if session is None or session.checkpoint_id is None:
        return Checkpoint.for_user(user)
    found = servable_to(user).filter(pk=session.checkpoint_id).first()
    if found is None:
        raise CheckpointGone(
            _("%(checkpoint)s does not answer you any more. Choose another one in this chat's settings.")
            % {"checkpoint": session.checkpoint}
        )
    return found
