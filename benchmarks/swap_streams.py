"""Stream replies that never pause, and note what they went through."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

TOPICS = ("rain", "bees", "bridges", "bread", "tides", "clocks", "salt", "owls", "glass", "maps", "steam", "moss")

AFTERWARDS_S = 1.0
"""How long after a swap a gap still counts as its own."""


@dataclass
class Seen:
    """What the streams went through."""

    failures: list[str] = field(default_factory=list)
    replies: list[Any] = field(default_factory=list)
    gaps: list[tuple[float, float]] = field(default_factory=list)
    """(when it ended, its length), in seconds."""
    swaps: list[tuple[float, float]] = field(default_factory=list)
    warm: asyncio.Event = field(default_factory=asyncio.Event)
    """As many replies have ended as there are streams."""

    def split_gaps(self) -> tuple[list[float], list[float]]:
        """Gaps that touch a swap, and the others."""
        during: list[float] = []
        usual: list[float] = []
        for end, length in self.gaps:
            touched = any(begin <= end and end - length <= over + AFTERWARDS_S for begin, over in self.swaps)
            (during if touched else usual).append(length)
        return during, usual


async def talk(stream: int, streams: int, user: Any, engine: Any, seen: Seen, over: asyncio.Event, tokens: int) -> None:
    """One person who never stops asking."""
    from asgiref.sync import sync_to_async

    from chat.models import Session
    from chat.replying import replies
    from gpu_workers.types import Sampling

    sampling = Sampling(max_new_tokens=tokens, temperature=1.0, ignore_eos=True)
    asked = 0
    while not over.is_set():
        asked += 1
        said = [{"role": "user", "content": f"{stream}.{asked}: tell me about {TOPICS[(stream + asked) % 12]}."}]
        session = await Session.objects.acreate(user=user)
        last: float | None = None
        try:
            turn = await sync_to_async(open_turn)(session, said, sampling)
            async with aclosing(replies.reply(turn, engine)) as deltas:
                async for delta in deltas:
                    if delta.ids:
                        now = time.perf_counter()
                        if last is not None:
                            seen.gaps.append((now, now - last))
                        last = now
        except Exception as failure:  # whatever it is, a person would have seen it
            seen.failures.append(f"{type(failure).__name__}: {failure}")
            continue
        await turn.arefresh_from_db()
        if turn.status != "served" or len(turn.response_ids) != tokens:
            seen.failures.append(f"{turn.status}, {len(turn.response_ids)} tokens: {turn.error}")
        seen.replies.append(turn)
        if len(seen.replies) >= streams:
            seen.warm.set()


def open_turn(session: Any, messages: list[dict[str, Any]], sampling: Any) -> Any:
    """The turn that a page opens in this session; the checkpoint that is live now answers it."""
    from chat import asking
    from chat.requests import Ask, PageSession
    from checkpoints.models import Checkpoint

    ask = Ask(messages, sampling, Checkpoint.for_user(session.user_id), protocol="")
    (turn,) = asking.open_turns(PageSession(session.user, session), ask)
    return turn


async def first_token_s(began: float, number: int, user: Any, engine: Any) -> float:
    """Seconds since `began` until a new reply, by checkpoint `number`, shows its first token."""
    from asgiref.sync import sync_to_async

    from chat.models import Session
    from chat.replying import replies
    from gpu_workers.types import Sampling

    session = await Session.objects.acreate(user=user)
    said = [{"role": "user", "content": "Hello?"}]
    turn = await sync_to_async(open_turn)(session, said, Sampling(max_new_tokens=2, ignore_eos=True))
    writer = await sync_to_async(lambda: turn.checkpoint.number)()
    if writer != number:
        raise RuntimeError(f"checkpoint {writer} answers instead of {number}")
    async with aclosing(replies.reply(turn, engine)) as deltas:
        async for delta in deltas:
            if delta.ids:
                return time.perf_counter() - began
    raise RuntimeError("the reply ended without a token")
