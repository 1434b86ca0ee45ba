"""Hints and rewards for the review desk: of every source, with votes, heat maps, conflicts and a person's thumbs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from judge.hints.sources import FROM
from judge.models import Hint, Judgement, Vote
from judge.votes.voting import outcome

CASES = (
    (
        "user",
        "What is the capital of Australia?",
        "Sydney is the capital of Australia, a large and lively city.",
        "No, it is Canberra. Check before you answer.",
        "Canberra is Australia’s capital; check such facts before answering.",
    ),
    (
        "user",
        "Explain recursion.",
        "Recursion is when a function calls itself, over and over, until it stops, and so on.",
        "Shorter please, with an example.",
        "Answer in two sentences, and show one small example in code.",
    ),
    (
        "user",
        "Write a commit message for this fix.",
        "I have fixed the bug. It was hard, but now everything is fine!",
        "Use the imperative, no chatter.",
        "Write commit messages in the imperative, one line, without chatter.",
    ),
    (
        "tool",
        "List the files that changed today.",
        "I think main.py and perhaps utils.py changed today.",
        "app/models.py\napp/views.py\nREADME.md",
        "Name exactly the files the tool listed, and do not guess others.",
    ),
    (
        "tool",
        "Run the migration.",
        "Done, the migration ran.",
        "error: relation “users” already exists",
        "Say that the migration failed and quote the error, instead of saying that it is done.",
    ),
    (
        "web",
        "Summarise this page about tea.",
        "The page is about tea and its long history in Asia and elsewhere.",
        "Tea: brew green tea at 75 °C, never with boiling water.",
        "Mention that green tea is brewed at 75 °C and not with boiling water.",
    ),
    (
        "file",
        "What does the config set the port to?",
        "The port is usually 8000 in such projects.",
        "port = 9250  # changed in March",
        "Read the port from the file: it is 9250, and say where it stands.",
    ),
    (
        "test",
        "Make the sort stable.",
        "def sort(xs):\n    return sorted(xs, key=lambda x: x[0])[::-1]",
        "FAILED test_sort_is_stable: [b, a] != [a, b]",
        "Keep equal items in their order: do not reverse the sorted list.",
    ),
    (
        "environment",
        "Open the settings and turn on dark mode.",
        "click(120, 40)",
        "Nothing happened: no element at (120, 40).",
        "Look for the element by its label before clicking, and try again when nothing happened.",
    ),
    (
        "person",
        "Suggest a name for our cat.",
        "Here are twenty-five names you might like: Whiskers, Tom, Felix, Luna …",
        "",
        "Suggest three names at most, and say in a word why.",
    ),
)
"""(source, asked, answered, what came back, the hint)."""


WAITS = {"user": "The votes of this judge teach nothing by themselves.", "person": ""}


def make_hint(
    user: User,
    text: str = "Answer in one sentence.",
    *,
    source: str = "user",
    status: str = "waiting",
    asked: str = "What is the capital of France?",
    answered: str = "Paris, of course, the lovely city of light.",
    came_back: str = "Shorter, please.",
    confidence: float | None = 0.67,
    seed: int = 0,
    scores: Sequence[int | None] = (-1, -1, 0),
    **fields: Any,
) -> Hint:
    """A judged turn of this person's with one hint on it, measured, and the votes that brought it."""
    session = Session.objects.create(user=user, title=asked[:40])
    role = "tool" if source == "tool" else "user"
    turn = Turn.objects.create(
        session=session,
        position=0,
        status="judged",
        checkpoint=Checkpoint.live(),
        messages=[{"role": "user", "content": asked}],
        text=answered,
        response_ids=[8, 9, 2],
        finish_reason="stop",
        next_state=[{"role": role, "content": came_back}] if came_back else [],
    )
    came_to = outcome(scores)
    Judgement.objects.create(
        turn=turn,
        reward=came_to.reward,
        reward_from="votes" if came_to.reward is not None else "",
        confidence=came_to.confidence,
        evidence=f"The request, user:\n| {asked}\nThe reply:\n| {answered}\nWhat came back, {role}:\n| {came_back}",
    )
    for index, score in enumerate(scores):
        failure = "unreadable: no boxed score" if score is None else ""
        Vote.objects.create(
            turn=turn, question="score", index=index, judge="adapter", prompt_version="trained-1", score=score,
            failure=failure, raw=rf"The person corrects it. \boxed{{{score}}}", seconds=0.4 + index / 10, tokens=31,
        )  # fmt: skip
        Vote.objects.create(
            turn=turn, question="hint", index=index, judge="adapter", prompt_version="trained-1", failure=failure,
            score=None if score is None else 1 if index < 2 else -1, hint=text if index < 2 and not failure else "",
            raw=rf"\boxed{{1}} [HINT_START]{text}[HINT_END]", seconds=0.9 + index / 10, tokens=44,
        )  # fmt: skip
    chance = random.Random(seed)
    tokens = [f" {word}" if place else word for place, word in enumerate(answered.split())]
    old = [-chance.uniform(0.05, 1.5) for _ in tokens]
    changes = [chance.choice((0, 0, 0.05, 0.2, -0.3, -0.8, 1.2, -2.4)) for _ in tokens]
    fields = {
        "proposed": text,
        "text": text,
        "confidence": confidence,
        "gain": round(chance.uniform(-0.05, 0.9), 2),
        "teacher": {
            "tokens": tokens,
            "old_logprobs": old,
            "logprobs": [a + b for a, b in zip(old, changes, strict=True)],
        },
        "waits_because": WAITS.get(source, f"What comes from {FROM[source]} waits for a person."),
        **fields,
    }
    return Hint.objects.create(turn=turn, source=source, status=status, **fields)


def fill(people: Sequence[User], count: int = 40, reviewer: User | None = None) -> list[Hint]:
    """A realistic queue, the oldest first."""
    now = timezone.now()
    made = []
    for number in range(count):
        source, asked, answered, came_back, text = CASES[number % len(CASES)]
        again = number // len(CASES)
        text = (
            text if not again else f"{text.rstrip('.')}, {('please', 'from now on', 'as a rule', 'always')[again % 4]}."
        )
        made.append(
            make_hint(
                people[number % len(people)], text, source=source, asked=asked, answered=answered, came_back=came_back,
                confidence=(0.67, 1.0, 0.6, 0.8)[number % 4] if source != "person" else 1.0, seed=number,
                created_at=now - timedelta(minutes=17 * (count - number)),
                scores=((-1, -1, 0), (1, -1, 0), (1, 1, 1), (0, None, -1))[number % 4],
            )
        )  # fmt: skip
    return made


def crowd(like: Hint, count: int) -> None:
    """As many more hints that wait, each on a tied turn of its own, written at once, without a signal."""
    like = Hint.objects.select_related("turn").get(pk=like.pk)
    turns = [
        Turn(session_id=like.turn.session_id, position=number, status="judged", checkpoint_id=like.turn.checkpoint_id,
             messages=like.turn.messages, text=like.turn.text, response_ids=[8, 9, 2], finish_reason="stop")
        for number in range(1, count + 1)
    ]  # fmt: skip
    Turn.objects.bulk_create(turns)
    tie = {"reward": 0, "reward_from": "votes", "confidence": 1 / 3}
    Judgement.objects.bulk_create([Judgement(turn=turn, **tie) for turn in turns])
    hints = [Hint(turn=turn, source="user", proposed=f"Hint {n}.", text=f"Hint {n}.") for n, turn in enumerate(turns)]
    Hint.objects.bulk_create(hints)
