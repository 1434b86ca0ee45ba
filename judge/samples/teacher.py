"""The hinted prompt, and what it would raise or lower in the very reply that was served."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext_noop

from chat import clients
from chat.models import Turn
from chat.rendering.renderer import MessagesRefused, Renderer
from checkpoints.loading import ensure_loaded
from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import AdapterInvalid, AdapterMissing, EngineRefused, EngineUnavailable
from gpu_workers.types import Scored, Top
from judge.hints import back_references, choice, hint_words
from judge.hints.choice import Measured
from judge.votes.judges import PRIORITY


class Unreadable(TalkbackError):
    """The reply cannot be scored as it was served any more; the turn is judged, and does not teach."""

    code, status = "unreadable", 422
    """`code` is the reason that the ledger counts: the name of a `judge.samples.sample_rows.Reason` in lower case."""


class WeightsGone(Unreadable):
    """The checkpoint that served it can no longer be asked."""

    code = "weights_gone"


class TooLong(Unreadable):
    """With the hint the prompt leaves no room for the reply."""

    code = "too_long"


class RefersBack(Unreadable):
    """The hint speaks of an earlier reply: under it a teacher would speak of one that was never there."""

    code = "wish_waits"


class LaidOutAnew(Unreadable):
    """The same messages give other tokens than those that were served."""

    code = "laid_out_anew"


class NotScored(Unreadable):
    """The engine refuses these tokens."""

    code = "not_scored"


@dataclass(frozen=True)
class HintedReply:
    """The served reply under one hint, as the teacher is shown it."""

    hint: str
    prompt_ids: tuple[int, ...]
    logprobs: tuple[float, ...]  # T = 1, under the hinted prompt, one a response id
    top: Top = ()  # the likeliest tokens at each place, where there is a choice
    better: tuple[float, ...] = ()  # T = 1, of the better reply under the hinted prompt, where one is known


@dataclass(frozen=True)
class Reading:
    """The served reply at T = 1: as it was meant, and under each hint."""

    behaviour_logprobs: tuple[float, ...]  # under the prompt and the checkpoint that served it, one a response id
    hinted: tuple[HintedReply, ...] = ()
    top: Top = ()  # what it would have said itself: the likeliest tokens at each place, where there is a choice
    better: tuple[float, ...] = ()  # of the better reply under the plain prompt, where one is known
    unshown: Mapping[str, Unreadable] = field(default_factory=dict)
    """Hints that no teacher may be shown, and why: they leave no room for the reply, or speak of an earlier one."""

    def under(self, hint: str) -> HintedReply:
        """The reply under this hint. Raises KeyError for one that was not read."""
        for reply in self.hinted:
            if reply.hint == hint:
                return reply
        raise KeyError(hint)

    def gain(self, reply: HintedReply, reward: int | None) -> float:
        """Nats a token by which it moves the teacher in the wanted direction."""
        return hint_words.gain(self.behaviour_logprobs, reply.logprobs, reward)

    def measured(self, reply: HintedReply, reward: int | None) -> Measured:
        """All that a choice among wordings goes by."""
        return Measured(
            gain=self.gain(reply, reward),
            raises=hint_words.gain(self.better, reply.better, 1) if self.better else None,
            overlap=choice.overlap(self.top, reply.top) if self.top and reply.top else None,
        )


def hinted_prompt(turn: Turn, hint: str, renderer: Renderer) -> tuple[int, ...]:
    """Token ids of the served prompt with the hint in its place.

    Raises Unreadable when the messages no longer give the prompt that was served: then the hint would not be the
    only difference between student and teacher; and RefersBack where the hint speaks of an earlier reply.
    """
    if back := back_references.find_references(hint_words.guidance_in(hint)):
        raise RefersBack(back_references.refusal(back))
    tools = None if turn.asked.get("tool_choice") == "none" else turn.tools or None
    opened = turn.asked.get("opened", "")
    try:
        if renderer.prompt_ids(turn.messages, tools, opened) != list(turn.prompt_ids):
            raise LaidOutAnew(gettext_noop("The model's chat template lays this conversation out differently now."))
        prompt_ids = renderer.prompt_ids(
            hint_words.placed(turn.messages, hint, clients.places_of_said(turn.messages, turn.client)), tools, opened
        )
    except MessagesRefused as error:
        raise LaidOutAnew(str(error)) from error
    room = renderer.context_length - len(turn.response_ids)
    if len(prompt_ids) > room:
        raise TooLong(f"With the hint the prompt has {len(prompt_ids)} tokens; there is room for {room}.")
    return tuple(prompt_ids)


def read(
    turn: Turn,
    wanted: Sequence[str],
    engine: Engine,
    renderer: Renderer,
    *,
    by: str,
    top: int = 0,
    better_ids: Sequence[int] = (),
) -> Reading:
    """Score the served ids under the plain prompt and under each hint, at T = 1.

    The plain prompt is read by the checkpoint that served; the hinted ones by the base or by that same checkpoint,
    as the recipe's `teacher` (`by`) says. A hint that does not fit is not read, and `unshown`. Where there is a choice
    to make, the `top` likeliest tokens are asked for at each place, and `better_ids`, a better reply, is scored in the
    same ways, where all prompts leave room for it: n hints take n + 1 scores, or 2n + 2 with a better reply. Raises
    Unreadable when those weights or that prompt cannot be had any more, EngineUnavailable when no engine answers,
    ValueError when lengths disagree.
    """
    if turn.checkpoint.kind == Checkpoint.Kind.FULL and turn.checkpoint.status != Checkpoint.Status.LIVE:
        raise WeightsGone(f"{turn.checkpoint} is no longer served: full weights are swapped in place.")
    prompts: dict[str, tuple[int, ...]] = {}
    unshown: dict[str, Unreadable] = {}
    for hint in wanted:
        try:
            prompts[hint] = hinted_prompt(turn, hint, renderer)
        except (TooLong, RefersBack) as error:
            unshown[hint] = error
    serving = turn.checkpoint.adapter or None
    teaching = None if by == "base" else serving

    asked = [(tuple(turn.prompt_ids), serving), *((ids, teaching) for ids in prompts.values())]
    replies = [tuple(turn.response_ids)]
    if better_ids and max(len(ids) for ids, _ in asked) + len(better_ids) <= renderer.context_length:
        replies.append(tuple(better_ids))

    async def scored() -> list[Scored]:
        try:
            return await asyncio.gather(
                *(_score(turn.checkpoint, engine, ids, replies[0], adapter, top) for ids, adapter in asked),
                *(
                    _score(turn.checkpoint, engine, ids, reply, adapter)
                    for reply in replies[1:]
                    for ids, adapter in asked
                ),
            )
        finally:
            await engine.aclose()

    try:
        answers = asyncio.run(scored())
    except AdapterInvalid as error:
        raise WeightsGone(f"The weights that served it are gone: {error}") from error
    except EngineRefused as error:
        raise NotScored(f"The engine would not score it: {error}") from error
    (plain, *hinted), (wished, *raised) = answers[: len(asked)], answers[len(asked) :] or [NOTHING] * len(asked)
    for answer in (plain, *hinted):
        if len(answer.logprobs) != len(turn.response_ids):
            raise ValueError(f"{len(answer.logprobs)} log-probs for {len(turn.response_ids)} response tokens")
    return Reading(
        plain.logprobs,
        tuple(
            HintedReply(hint, prompt, answer.logprobs, answer.top, better.logprobs)
            for (hint, prompt), answer, better in zip(prompts.items(), hinted, raised, strict=True)
        ),
        top=plain.top,
        better=wished.logprobs,
        unshown=unshown,
    )


NOTHING = Scored((), ())


def heat_map(
    turn: Turn, reading: Reading, reply: HintedReply, renderer: Renderer, *, choice: str = ""
) -> dict[str, Any]:
    """What a reviewer sees: each token of the reply with its log-prob as served and under the hint; and the `choice`,
    why it is this wording where there were several."""
    said = {"choice": choice} if choice else {}
    return said | {
        "tokens": [renderer.decode([token]) for token in turn.response_ids],
        "old_logprobs": list(reading.behaviour_logprobs),
        "logprobs": list(reply.logprobs),
    }


async def _score(
    checkpoint: Checkpoint,
    engine: Engine,
    prompt_ids: Sequence[int],
    response_ids: Sequence[int],
    adapter: str | None,
    top: int = 0,
) -> Scored:
    try:
        return await engine.score(prompt_ids, response_ids, adapter=adapter, priority=PRIORITY, top=top)
    except AdapterMissing:
        await ensure_loaded(checkpoint, engine)
    try:
        return await engine.score(prompt_ids, response_ids, adapter=adapter, priority=PRIORITY, top=top)
    except AdapterMissing as error:  # let go of again at once: that says nothing of the reply
        raise EngineUnavailable(str(error)) from error
