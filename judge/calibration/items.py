"""Follow-ups in a file, judged without a conversation: for people who bring their own gold set."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judge.votes import own_words, polling
from judge.votes.evidence import Evidence, asked, role_of, text_of
from judge.votes.polling import Ballot, Bench
from judge.votes.prompts import Asked
from judge.votes.voting import NEW

ROLES = ("user", "tool", "environment", "test", "person")


class LineInvalid(ValueError):
    """A line that is no item; the sentence says why."""


@dataclass(frozen=True)
class Item:
    id: str | int
    line: int
    seen: Evidence


@dataclass(frozen=True)
class Bad:
    """A line that could not be read."""

    line: int
    sentence: str


def items(lines: Iterable[str], done: Container[str | int] = ()) -> Iterator[Item | Bad]:
    """What each line holds; empty ones and those that are `done` are passed over. Never raises for a line."""
    first: dict[str | int, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            item = read(line, number)
        except LineInvalid as error:
            yield Bad(number, str(error))
            continue
        if item.id in first:
            yield Bad(number, f"the id {item.id!r} was used in line {first[item.id]} already")
            continue
        first[item.id] = number
        if item.id not in done:
            yield item


def read(line: str, number: int) -> Item:
    """One line. Raises LineInvalid."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LineInvalid(f"no JSON ({error})") from error
    if not isinstance(entry, dict):
        raise LineInvalid("no JSON object")
    if missing := [name for name in ("id", "request", "reply", "next_state") if name not in entry]:
        raise LineInvalid(f"it lacks {', '.join(missing)}")
    id_ = entry["id"]
    if isinstance(id_, bool) or not isinstance(id_, str | int):
        raise LineInvalid("the id is neither a text nor a number")
    role = entry.get("next_role", "")
    if role not in ("", *ROLES):
        raise LineInvalid(f"the next_role {role!r} is none of {', '.join(ROLES)}")
    reply = entry["reply"]
    if isinstance(reply, Mapping):
        reply = text_of(checked(reply))
    if not isinstance(reply, str):
        raise LineInvalid("the reply is neither a text nor a message")
    came = next_state(entry["next_state"], role)
    if not came:
        raise LineInvalid("nothing came back that could be judged")
    # A tool that gives nothing back says something of the call; a person who writes nothing says nothing.
    if all(speaker in ("user", "assistant") for speaker, _ in came) and not any(text.strip() for _, text in came):
        raise LineInvalid("the message that came back is empty")
    request = tuple(asked(messages(entry["request"], "user", "request")))
    if role == "person":
        return Item(id_, number, Evidence(request, reply, guidance="\n".join(text for _, text in came)))
    return Item(id_, number, Evidence(request, reply, came))


def next_state(said: object, role: str) -> tuple[tuple[str, str], ...]:
    """What came back, as (role, text). `next_role` speaks where a message says no role of its own, and tells a user's
    message from the environment's and a tool's from a test's."""
    came = []
    for message in messages(said, role or "user", "next_state"):
        own = role_of(message) if "role" in message else role or "user"
        if (role, own) in (("environment", "user"), ("test", "tool"), ("test", "user")) or role == "person":
            own = role
        came.append((own, text_of(message)))
    return tuple(came)


def messages(said: object, role: str, name: str) -> list[dict[str, Any]]:
    """A text, or a list of texts or messages, as messages. Raises LineInvalid."""
    if isinstance(said, str):
        said = [said]
    if isinstance(said, Mapping):
        said = [said]
    if not isinstance(said, list) or not all(isinstance(one, str | Mapping) for one in said):
        raise LineInvalid(f"the {name} is neither a text nor a list of messages")
    told = {"test": "tool", "person": "user"}.get(role, role)
    plain = {"role": "user", "name": "environment"} if told == "environment" else {"role": told}
    return [{**plain, "content": one} if isinstance(one, str) else checked(one) for one in said]


def checked(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message whose parts have the shapes that are read here. Raises LineInvalid."""
    content, calls = message.get("content"), message.get("tool_calls") or []
    if content is not None and not isinstance(content, str | list):
        raise LineInvalid("a message's content is neither a text nor a list of parts")
    shapely = isinstance(calls, list) and all(
        isinstance(call, Mapping) and isinstance(call.get("function") or {}, Mapping) for call in calls
    )
    if not shapely:
        raise LineInvalid("a message's tool_calls are no list of calls")
    return dict(message)


async def judged(
    seated: Bench, found: Iterable[Item], *, at_once: int = 4, by_rules: bool = True
) -> AsyncGenerator[tuple[Item, dict[str, Any]], None]:
    """Each item with its verdict, in their order, `at_once` of them under way. Raises EngineUnavailable."""
    waiting: deque[tuple[Item, asyncio.Task[dict[str, Any]]]] = deque()
    source = iter(found)
    try:
        while True:
            while len(waiting) < at_once and (item := next(source, None)) is not None:
                waiting.append((item, asyncio.create_task(verdict(seated, item, by_rules=by_rules))))
            if not waiting:
                return
            item, task = waiting.popleft()
            try:
                yield item, await task
            finally:
                task.cancel()
    finally:
        for _, task in waiting:
            task.cancel()
        await asyncio.gather(*(task for _, task in waiting), return_exceptions=True)


async def verdict(seated: Bench, item: Item, *, by_rules: bool = True) -> dict[str, Any]:
    """`{id, score, confidence, decided, votes, hint}` of one item; `rule` where a visible rule decided the score, and
    `topic` where the subject changes. The score of what is not decided is what votes lean to."""
    seen = item.seen
    ruled = seen.reward if by_rules else None
    questions: list[Asked] = [] if ruled is not None else ["score"]
    if not seen.correction and (ruled is None or ruled < 0):
        questions.append("hint")
    ballots = await polling.polled(seated, seen, questions) if questions else []
    came_to = polling.finding(ballots, seated.measures)
    score = came_to.score
    is_decided = ruled is not None or score.reward is not None
    said: dict[str, Any] = {
        "id": item.id,
        "score": score.likeliest if ruled is None else ruled,
        "confidence": score.confidence if ruled is None else 1.0,
        "decided": is_decided,
        "votes": [shown(ballot) for ballot in ballots],
        "hint": seen.correction or (own_words.proposed(seen, came_to) if is_decided else ""),
    }
    if score.is_new and ruled is None:
        said["topic"] = NEW
    return said | ({"rule": seen.rule} if ruled is not None else {})


def is_judged(verdict: Mapping[str, Any]) -> bool:
    """False where too few votes could be read to say anything of the score."""
    return verdict["score"] is not None


def why_not_judged(verdict: Mapping[str, Any]) -> str:
    """What the first of its failed votes says."""
    return next((vote["failure"] for vote in verdict["votes"] if vote.get("failure")), "no vote could be read")


def shown(ballot: Ballot) -> dict[str, Any]:
    """A ballot in the file: what it says, or why it says nothing, and the judge's own words."""
    said: dict[str, Any] = {"question": ballot.question, "judge": ballot.judge, "score": ballot.score}
    if ballot.topic:
        said["topic"] = ballot.topic
    if ballot.probabilities:
        said["probabilities"] = {answer: round(p, 6) for answer, p in ballot.probabilities.items()}
    if ballot.question == "hint":
        said["hint"] = ballot.hint
    if ballot.failure:
        said["failure"] = ballot.failure
    return said | {"raw": ballot.raw, "seconds": round(ballot.seconds, 3)}


def ids_in(lines: Sequence[str]) -> set[str | int]:
    """The ids of verdicts that were written. Raises LineInvalid for a line that is none."""
    found = set()
    for number, line in enumerate(lines, 1):
        try:
            found.add(json.loads(line)["id"])
        except (ValueError, TypeError, KeyError) as error:
            raise LineInvalid(f"line {number} is no verdict") from error
    return found
