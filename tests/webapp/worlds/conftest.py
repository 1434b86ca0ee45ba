"""Attempts at tasks, as a player and a judge would have left them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.utils import timezone

from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from episodes.models import Episode, Group
from judge.models import Judgement, Vote
from training.models import Sample

ASKED = [
    {"role": "system", "content": "You keep the till."},
    {"role": "user", "content": "What do a hat and a jar cost?"},
]


@dataclass
class Did:
    """One step: what was called, what came back, and its score, which a judge has given where `votes` are."""

    name: str = "price"
    arguments: Any = field(default_factory=lambda: {"item": "hat"})
    result: str = "7"
    score: float | None = 1.0
    votes: tuple[int, ...] = ()


ONCE = (Did(),)


@pytest.fixture
def make_group(talker):
    def make_group(name="night/1", *, user=talker, judged=False, **fields):
        about = {"world": "till", "task": "train-3-7", "split": "train", "checkpoint": Checkpoint.live()}
        at = timezone.now() if judged else None
        return Group.objects.create(user=user, name=name, judged_at=at, **(about | fields))

    return make_group


@pytest.fixture
def play():
    """An attempt that ended so, with these steps. In a group that was judged each step has its sample."""

    def play(group: Group, ending="solved", steps=ONCE, *, learns=True, **fields) -> Episode:
        outcome = {"solved": 1.0, "failed": -1.0, "gave_up": -1.0}.get(ending)
        status = "playing" if not ending else "void" if ending in Episode.UNSCORED else "scored"
        attempt = group.episodes.count()
        session = Session.objects.create(user=group.user, external_id=f"{group.pk} {attempt}", learns=learns)
        about = {"status": status, "ending": ending, "outcome": outcome, "lease_s": 600, "lease_until": timezone.now()}
        episode = Episode.objects.create(group=group, attempt=attempt, session=session, **(about | fields))
        said = list(ASKED)
        for position, did in enumerate(steps):
            written = did.arguments if isinstance(did.arguments, str) else json.dumps(did.arguments)
            call = {"id": f"c{position}", "type": "function", "function": {"name": did.name, "arguments": written}}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            back = [{"role": "tool", "tool_call_id": call["id"], "content": did.result}] if did.result else []
            turn = Turn.objects.create(
                session=session,
                position=position,
                status="judged",
                checkpoint=group.checkpoint,
                messages=list(said),
                message=message,
                next_state=back,
                prompt_ids=[5] * (10 + position),
                response_ids=[8, 9, 2],
                finish_reason="tool_calls",
            )
            said += [message, *back]
            _judge(turn, episode, position, did, is_judged=group.judged_at is not None)
        episode.save()
        return episode

    return play


def _judge(turn: Turn, episode: Episode, step: int, did: Did, *, is_judged: bool) -> None:
    if did.score is None:
        return
    if not is_judged:  # what the world said is all that is known
        episode.scores[turn.completion_id] = did.score
        return
    sample = Sample.objects.create(
        checkpoint=turn.checkpoint,
        prompt_ids=turn.prompt_ids,
        response_ids=turn.response_ids,
        behaviour_logprobs=[-1.0] * 3,
        reward=did.score,
        episode=episode,
        step=step,
    )
    source = "votes" if did.votes else "rule"
    Judgement.objects.create(turn=turn, reward=int(did.score), reward_from=source, sample=sample)
    for index, score in enumerate(did.votes):
        raw = f"The tool said so, number {index}."
        Vote.objects.create(
            turn=turn, question="score", index=index, judge="small", prompt_version="1", score=score, raw=raw
        )
