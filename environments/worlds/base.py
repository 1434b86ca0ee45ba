"""What a world is to its player: tasks, an attempt at one, what came of each call, and the outcome.

A world is a client of the public API like any other: it imports nothing of the application. It may block, since the
player gives each attempt a thread of its own.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from core.errors import TalkbackError
from environments.errors import Unplayable
from environments.worlds.checks import Checked

Split = Literal["train", "heldout"]
Ending = Literal["solved", "failed", "truncated", "gave_up", "infra_error", "cancelled"]
Message = Mapping[str, Any]


class WorldFailed(TalkbackError):
    """The world could not do its part, and the agent is not to blame: the attempt ends as infra_error."""

    code, status, retryable = "world_failed", 503, True


HELDOUT_ONE_IN = 5


def split_of(name: str) -> Split:
    """The split of a task that comes without one, by the hash of its name: one in five is held out."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    return "heldout" if number % HELDOUT_ONE_IN == 0 else "train"


@dataclass(frozen=True)
class Task:
    """One task of a world. Its id names it for ever: the same id is the same task on every machine."""

    world: str
    id: str
    split: Split
    data: Mapping[str, Any] = field(default_factory=dict)
    """What the world made it of."""


@dataclass(frozen=True)
class Call:
    """A tool call as a model wrote it."""

    id: str
    name: str
    arguments: str
    """JSON, as the model wrote it: it may be none."""

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Call:
        """Read one of an answer's `tool_calls`, as the API gives them."""
        function = said.get("function") or {}
        return cls(str(said.get("id", "")), str(function.get("name", "")), str(function.get("arguments") or ""))

    def read(self) -> dict[str, Any] | None:
        """Return its arguments; None where they are no JSON object.

        >>> Call("1", "add", '{"a": 1}').read(), Call("1", "add", "1 2").read()
        ({'a': 1}, None)
        """
        try:
            given = json.loads(self.arguments or "{}")
        except (ValueError, RecursionError):
            return None
        return given if isinstance(given, dict) else None


@dataclass(frozen=True)
class Seen:
    """What an agent sees of what it did."""

    text: str
    """The tool's result, or what is said to it."""
    score: float | None = None
    """-1 to 1: what the world, by a rule of its own, says of this step; None: nothing, and the judge is asked."""
    is_over: bool = False
    """The attempt ends here."""


@dataclass(frozen=True)
class Outcome:
    """What an attempt came to."""

    ending: Ending
    value: float | None
    """-1 to 1; None for infra_error and cancelled, which say nothing of the agent."""
    checks: Mapping[str, bool | float] = field(default_factory=dict)
    """What the value was made of, by name."""


class Attempt(ABC):
    """One try at a task, used once. All of it may raise WorldFailed, or what a sandbox raises."""

    opening: Sequence[Message]
    """The first messages."""
    tools: Sequence[Mapping[str, Any]]
    """In OpenAI's form."""

    @abstractmethod
    def act(self, call: Call) -> Seen:
        """Do what a call asks. A call that makes no sense is answered in words: it is the agent's step."""

    @abstractmethod
    def hear(self, text: str) -> Seen:
        """Take a reply that calls nothing."""

    def picture(self) -> bytes | None:
        """How it looks now, as PNG, for a model that sees; None where there is nothing to see."""
        return None

    @abstractmethod
    def outcome(self, *, is_truncated: bool) -> Outcome:
        """What it came to, once it is over, or was cut off at its horizon. Asked once."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what it holds; called always, and safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class World(ABC):
    """A kind of task."""

    name: str
    horizon: int
    """Replies at which an attempt is cut off."""
    parallel: int
    """Attempts at once that it is made for."""
    most: int | None = None
    """Attempts at once that it can hold; None: as many as are asked for."""
    is_seen: bool = False
    """Whether its attempts have pictures."""

    @abstractmethod
    def tasks(self, split: Split, count: int, seed: int) -> list[Task]:
        """Draw `count` different tasks of a split. No task, and nothing that would give one away, is in both splits.
        Raises Unplayable where there are not so many."""

    def check(self) -> Iterator[Checked]:
        """Find of each task whether it can be scored. Raises Unplayable where a world has none that may not."""
        raise Unplayable(f"The tasks of {self.name} are made by rule: there is none to check.")

    @abstractmethod
    def open(self, task: Task, seed: int) -> Attempt:
        """Begin an attempt; `seed` decides all that the world itself draws. Raises WorldFailed."""
