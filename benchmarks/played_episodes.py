"""Rows of what agents played, as many as are asked for: groups of attempts at a till, some solved, with their steps,
scores and votes. Import it once Django is set up."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from episodes.models import Episode, Group
from judge.models import Judgement, Vote
from training.models import Run, Sample

ATTEMPTS = 8
ITEMS = ("apple", "bread", "candle", "drum", "egg", "fork", "glove", "hat", "ink", "jar", "kite", "lamp")
TOOLS = [
    {"type": "function", "function": {"name": name, "description": says}}
    for name, says in (
        ("price", "What one item costs."),
        ("add", "The sum of two numbers."),
        ("answer", "Say the sum."),
    )
]


@dataclass
class Rows:
    """What is written, in the order in which rows need one another."""

    sessions: list[Session] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    judgements: list[Judgement] = field(default_factory=list)
    votes: list[Vote] = field(default_factory=list)

    def write(self) -> None:
        for model, rows in (
            (Session, self.sessions),
            (Episode, self.episodes),
            (Turn, self.turns),
            (Sample, self.samples),
            (Judgement, self.judgements),
            (Vote, self.votes),
        ):
            rows = iter(rows)
            while some := list(islice(rows, 1000)):
                model.objects.bulk_create(some)  # type: ignore[attr-defined]


def seed(person: User, episodes: int, *, world: str = "till", seed: int = 1, judged: bool = True) -> list[Group]:
    """Write so many attempts of one person, eight a group, over four checkpoints, of which a run learned all but the
    last one's; the groups. Of 16 groups one is held out and one is short; in one attempt of twenty the world failed."""
    draw, live = random.Random(seed), Checkpoint.live()
    numbers = range(live.number + 1, live.number + 4)
    for number in numbers:
        Checkpoint.objects.get_or_create(number=number, defaults={"status": "retired", "parent": live})
    checkpoints = [live, *Checkpoint.objects.filter(number__in=numbers).order_by("number")]
    begun = timezone.now() - timedelta(seconds=episodes * 3)
    groups = []
    for n in range(-(-episodes // ATTEMPTS)):
        split = Group.Split.HELDOUT if n % 16 == 15 else Group.Split.TRAIN
        groups.append(
            Group(
                user=person,
                name=f"{world}-{seed}/{split}-{n}",
                world=world,
                task=f"{split}-3-{n % 400 if split == Group.Split.TRAIN else 1000 + n % 48}",
                split=split,
                attempts=ATTEMPTS,
                checkpoint=checkpoints[n * len(checkpoints) // max(1, -(-episodes // ATTEMPTS))],
                judged_at=timezone.now() if judged and split == Group.Split.TRAIN and n % 16 != 7 else None,
                created_at=begun + timedelta(seconds=24 * n),
            )
        )
    Group.objects.bulk_create(groups)
    run = Run.objects.create(
        status="finished", recipe={}, parent=live, agents={"baseline": "index", "groups": len(groups) * 3 // 4}
    )
    rows = Rows()
    for n in range(episodes):
        group = groups[n // ATTEMPTS]
        is_short = group.split == Group.Split.TRAIN and (n // ATTEMPTS) % 16 == 7
        learned_by = run if group.judged_at and group.checkpoint != checkpoints[-1] else None
        at = begun + timedelta(seconds=3 * n)
        _play(rows, group, n % ATTEMPTS, draw, at, is_short=is_short, judged=judged, learned_by=learned_by)
        if len(rows.turns) > 5000:
            rows.write()
            rows = Rows()
    rows.write()
    return groups


def _play(
    rows: Rows,
    group: Group,
    attempt: int,
    draw: random.Random,
    at: datetime,
    *,
    is_short: bool,
    judged: bool,
    learned_by: Run | None,
) -> None:
    """One attempt, with its conversation."""
    items = draw.sample(ITEMS, 3)
    prices = {item: draw.randint(1, 30) for item in items}
    is_lost = draw.random() < 0.7 - 0.1 * group.checkpoint.number
    is_void = is_short or draw.random() < 0.05
    calls: list[tuple[str, dict[str, Any], str, float]] = [
        ("price", {"item": item}, str(prices[item]), 1.0) for item in items
    ]
    calls.append(("add", {"a": prices[items[0]], "b": prices[items[1]]}, str(prices[items[0]] + prices[items[1]]), 1.0))
    if is_lost:
        wrong = draw.randrange(3)
        calls[wrong] = ("price", {"item": draw.choice(ITEMS)}, "Error: that is not on the list.", -1.0)
    total = sum(prices.values()) + is_lost
    calls.append(("answer", {"value": total}, "", -1.0 if is_lost else 1.0))
    session = Session(
        user=group.user,
        external_id=f"episode {group.pk} {attempt}",
        learns=group.split == Group.Split.TRAIN,
        created_at=at,
        active_at=at,
        closed_at=at + timedelta(seconds=20),
    )
    ending = "infra_error" if is_void else "failed" if is_lost else "solved"
    episode = Episode(
        group=group,
        attempt=attempt,
        session=session,
        status=Episode.Status.VOID if is_void else Episode.Status.LEARNED if learned_by else Episode.Status.SCORED,
        ending=ending,
        outcome=None if is_void else -1.0 if is_lost else 1.0,
        checks={} if is_void else {"right": not is_lost, "prices known": 0.67 if is_lost else 1.0},
        cost={} if is_void else {"tokens": 30.0 * len(calls), "seconds": 4.5},
        reason="Its player gave no sign of life for 600 s." if is_void else "",
        lease_s=600,
        lease_until=at,
        created_at=at,
        ended_at=at + timedelta(seconds=20),
    )
    rows.sessions.append(session)
    rows.episodes.append(episode)
    said: list[dict[str, Any]] = [
        {"role": "system", "content": "You keep the till. Use the tools, one call at a time."},
        {"role": "user", "content": f"What do these cost together: {', '.join(items)}?"},
    ]
    for position, (name, arguments, result, score) in enumerate(calls):
        call = {"id": f"call-{position}", "type": "function"}
        call |= {"function": {"name": name, "arguments": json.dumps(arguments)}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        back = [{"role": "tool", "tool_call_id": call["id"], "content": result}] if result else []
        turn = Turn(
            session=session,
            position=position,
            status=Turn.Status.JUDGED if judged else Turn.Status.OBSERVED,
            checkpoint=group.checkpoint,
            learns=session.learns,
            messages=list(said),
            tools=TOOLS,
            message=message,
            next_state=back,
            prompt_ids=list(range(60 + 30 * position)),
            response_ids=list(range(24)),
            finish_reason="tool_calls",
            created_at=at + timedelta(seconds=position),
            served_at=at + timedelta(seconds=position + 1),
        )
        rows.turns.append(turn)
        episode.scores[turn.completion_id] = score
        said += [message, *back]
        if judged and session.learns and not is_void:
            _judge(rows, turn, episode, position, score, learned_by)


def _judge(rows: Rows, turn: Turn, episode: Episode, step: int, score: float, learned_by: Run | None) -> None:
    """A step's sample, its verdict, and three votes on every third."""
    sample = Sample(
        checkpoint=turn.checkpoint,
        origin=turn.pk,
        prompt_ids=turn.prompt_ids,
        response_ids=turn.response_ids,
        behaviour_logprobs=[-0.5] * len(turn.response_ids),
        reward=score,
        episode=episode,
        step=step,
        status=Sample.Status.TRAINED if learned_by else Sample.Status.READY,
        run=learned_by,
        advantage=0.75 * score if learned_by else None,
    )
    rows.samples.append(sample)
    by = "votes" if step % 3 == 2 else "rule"
    rows.judgements.append(Judgement(turn=turn, reward=int(score), reward_from=by, confidence=0.9, sample=sample))
    if by == "votes":
        rows.votes += [
            Vote(
                turn=turn,
                question=Vote.Question.SCORE,
                index=index,
                judge="small",
                prompt_version="1",
                role="tool",
                raw=f"The call {'helped' if score > 0 else 'did not help'}. \\boxed{{{int(score)}}}",
                score=int(score),
            )
            for index in range(3)
        ]
