"""Continue a reply that was cut at its length limit: on its own row, with the weights that began it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext

from chat import branches, sessions, turns
from chat.models import Turn
from chat.rendering.model_output import Reader
from chat.rendering.renderer import Renderer
from chat.replying import writers
from chat.replying.resuming import PART, Decode, is_exact, whole_part
from core.errors import TalkbackError
from core.prepared import update
from gpu_workers.types import Sampling


class NotContinued(TalkbackError):
    """This reply cannot be gone on from; the sentence says what to do instead."""

    code, status = "not_continued", 409


@dataclass(frozen=True)
class Begun:
    """What an earlier request said of a reply that is being continued."""

    ids: list[int]
    logprobs: list[float]
    text: str
    """The ids as text, up to the last whole character."""
    version: str
    """The weights that said it, as their engine calls them."""

    @classmethod
    def of(cls, turn: Turn) -> Begun | None:
        """None where this reply begins with this request. Raises ValueError where the lengths disagree."""
        if not turn.is_continued:
            return None
        if len(turn.response_ids) != len(turn.logprobs):
            raise ValueError(f"{len(turn.response_ids)} ids and {len(turn.logprobs)} log-probs of turn {turn.pk}")
        _, text = whole_part(decoder(turn), turn.response_ids)
        return cls(turn.response_ids, turn.logprobs, text, turn.weight_version)


def decoder(turn: Turn) -> Decode:
    """How the ids of this reply become text, as its engine writes it."""
    controls = not turn.sampling.get("skip_special_tokens", True)
    return partial(Renderer.for_model(settings.MODEL).decode, controls=controls)


def reopen_cut(turn: Turn, longest: int) -> Turn:
    """Have a cut reply be gone on from, by at most `longest` tokens. What it said so far stays on its row as it is, and
    stands again, as a cut reply, where the rest does not come. Raises NotContinued and turns.TurnUnfinished.
    """
    with transaction.atomic():
        session = sessions.locked(turn.session_id)
        turns.check_answered(session)
        rows = session.turns.select_for_update(of=("self",)).select_related("checkpoint")
        held = rows.filter(pk=turn.pk).first()
        if held is None:
            raise NotContinued(gettext("This reply was deleted."))
        held.session = session
        check_continuable(held)
        window = Renderer.for_model(settings.MODEL).context_length
        room = min(longest, window - len(held.prompt_ids) - len(held.response_ids))
        if room < 1:
            raise NotContinued(
                gettext("The conversation fills the model's window: nothing more fits. Start a new chat.")
            )
        before = len(held.response_ids)
        held.move(
            Turn.Status.ANSWERING,
            finish_reason="",
            error="",
            writer=writers.name(),
            sampling=held.sampling | {"max_new_tokens": before + room},
            asked=held.asked | {"continued": [*held.asked.get("continued", []), before]},
        )
        update(type(session), {"pk": session.pk}, {"active_at": held.moved_at, "head": held.pk})
        return held


def check_continuable(turn: Turn) -> None:
    """Raises NotContinued, with a sentence that says why."""
    if not branches.has_branches(turn.session):
        raise NotContinued(gettext("This chat comes through the API: ask there for more tokens (max_tokens)."))
    if not turn.is_cut:
        raise NotContinued(gettext("Only a reply that was cut off at its length limit can be continued."))
    if not turn.may_continue:
        raise NotContinued(
            gettext("Something was said of this reply already, or after it. Ask for the rest in a new message.")
        )
    sampling = Sampling(**turn.sampling | {name: tuple(turn.sampling[name]) for name in ("stop", "stop_token_ids")})
    _, text = whole_part(decoder(turn), turn.response_ids)
    reader = Reader.of(turn.tools, turn.asked)
    reader.feed(text)
    reader.end()
    if (
        turn.pictures
        or not is_exact(sampling)
        or (reader.message["content"] or "").rstrip(PART) != turn.text.rstrip(PART)
    ):
        raise NotContinued(gettext("This reply cannot be gone on from exactly where it ended. Try again instead."))
