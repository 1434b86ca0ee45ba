"""What a person wrote in place of the base's first replies, to stand before each question of the few-shot arm.

A control for learning: no run and no weights, but rewrites of the very replies that every arm begins with, and their
tokens with every request (in-context learning; Brown et al. 2020, arXiv:2005.14165).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from environments.personas import Persona
from environments.users import User
from lab.evidence.compared_arms import SHOTS
from lab.evidence.plan import Plan, sessions
from lab.evidence.playing.probes import BASE, NAME, Answers
from lab.evidence.playing.turnstile import Rank, Turnstile


async def written(
    plan: Plan,
    seed: int,
    client: Answers,
    person: Callable[[Persona, int], User],
    turnstile: Turnstile,
    rank: Rank,
) -> tuple[list[dict[str, str]], int]:
    """`SHOTS` questions with the replies that the person would have had, as messages in turn, and how many of the
    base's replies they heard for it. They hear the first reply of each session, of those that every arm begins with;
    there are fewer where all sessions are through, and none of people who write nothing."""
    messages: list[dict[str, str]] = []
    heard = 0
    for number, task, session_seed in islice(sessions(plan, seed), plan.sizes.sessions if plan.sizes.writes else 0):
        if len(messages) == 2 * SHOTS:
            break
        user = person(plan.own(seed), session_seed)
        asked = {"role": "user", "content": user.opening(task)}
        async with turnstile.inside(rank):
            reply = await client.complete(
                [asked],
                model=f"{NAME}@{BASE}",
                seed=session_seed,
                max_tokens=plan.sizes.reply_tokens,
                temperature=plan.sizes.temperature,
                session=f"shots-{seed}-{number}",
                name=f"evidence-shots/{seed}/{number}",
            )
        said = await user.hear(reply.text, finished=reply.finish_reason == "stop")
        heard += 1
        if said.instead:
            messages += [asked, {"role": "assistant", "content": said.instead}]
    return messages, heard
