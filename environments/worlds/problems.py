"""Where questions with one right answer come from: a generator of reasoning-gym, or a file of JSON lines."""

from __future__ import annotations

import hashlib
import json
import random
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.textfiles import read_lines
from environments.errors import Unplayable
from environments.worlds.base import Split

HELD_OUT = 4
"""One question in so many is held out: a hash of its text says which, so that no text is in both splits."""
MANY = 100_000
"""Items of a generator that are drawn from."""
APART = 10**9
"""Between the seeds of both splits; an item's own seed is its split's and its number."""
TRIES = 50
"""Items looked at for each that is wanted, before a generator is said to have too few."""

ASKS = ("problem", "question", "prompt")
ANSWERS = ("answer", "solution")
WRAPPED = re.compile(
    r"\ASolve the following math problem step by step\. The last line of your response should be of the form Answer: "
    r"\$?\\?Answer.*?is the answer to the problem\.\s*(.*?)\s*"
    r"(?:Remember to put your answer on its own line after \"Answer:\"\.)?\s*\Z",
    re.S,
)
"""What DAPO's file says around each problem."""


@dataclass(frozen=True)
class Problem:
    id: str
    question: str
    answer: str


class Source(ABC):
    @abstractmethod
    def problems(self, split: Split, count: int, seed: int) -> list[Problem]:
        """Draw `count` different ones. Raises Unplayable where there are not so many."""


def split_of(question: str) -> Split:
    """Which split a question is of, on any machine."""
    return "heldout" if _hash(question)[0] % HELD_OUT == 0 else "train"


class ReasoningGym(Source):
    """One generator, by its name there. Its own splits: seeds far apart, and the hash of each question."""

    def __init__(self, name: str) -> None:
        try:
            from reasoning_gym.dataset import ProceduralDataset
            from reasoning_gym.factory import DATASETS, create_dataset
        except ImportError as error:
            raise Unplayable(
                "These tasks are made by reasoning-gym: `python3 -m installation install worlds`."
            ) from error
        offered = sorted(key for key, (kind, _) in DATASETS.items() if _has_one_answer(kind, ProceduralDataset))
        if name not in offered:
            why = "has several right answers, and its own code would have to run what a model wrote"
            known = f"{name} {why}" if name in DATASETS else f"There is no {name!r}"
            raise Unplayable(f"interpreter:reasoning-gym/{name}: {known}. There are {', '.join(offered)}.")
        self._name = name
        self._sets: Mapping[Split, Any] = {
            "train": create_dataset(name, seed=0, size=MANY),
            "heldout": create_dataset(name, seed=APART, size=MANY),
        }

    def problems(self, split: Split, count: int, seed: int) -> list[Problem]:
        found: dict[str, Problem] = {}
        numbers = random.Random(f"{self._name} {split} {seed}").sample(range(MANY), min(MANY, TRIES * count))
        for number in numbers:
            if len(found) == count:
                break
            item = self._sets[split][number]
            question = str(item["question"])
            if split_of(question) == split:
                found.setdefault(question, Problem(f"{self._name}-{split}-{number}", question, str(item["answer"])))
        if len(found) < count:
            raise Unplayable(f"reasoning-gym's {self._name} has {len(found)} different {split} tasks, not {count}.")
        return list(found.values())


class File(Source):
    """A file of JSON lines, in the form of DAPO, AIME or one's own. The same question again is the same task."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            lines = read_lines(file)
        except UnicodeDecodeError as error:
            raise Unplayable(f"{file} is no text in UTF-8 ({error.reason}).") from error
        self._splits: dict[Split, dict[str, Problem]] = {"train": {}, "heldout": {}}
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    split, problem = read_line(line)
                    self._add(split, problem)
                except ValueError as error:
                    raise Unplayable(f"{file}, line {number}: {error}.") from error
        if not any(self._splits.values()):
            raise Unplayable(f"{file} has no tasks.")

    def _add(self, split: Split, problem: Problem) -> None:
        other: Split = "train" if split == "heldout" else "heldout"
        if problem.id in self._splits[other]:
            raise ValueError(f"this question is also in {other}")
        if self._splits[split].setdefault(problem.id, problem).answer != problem.answer:
            raise ValueError("an earlier line has another answer to this question")

    def problems(self, split: Split, count: int, seed: int) -> list[Problem]:
        known = list(self._splits[split].values())
        if count > len(known):
            raise Unplayable(f"{self._file} has {len(known)} {split} tasks, and {count} were asked for.")
        return random.Random(f"{split} {seed}").sample(known, count)


def read_line(line: str) -> tuple[Split, Problem]:
    """One line's split and problem. Raises ValueError with what is wrong."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON ({error})") from error
    if not isinstance(said, dict):
        raise ValueError("it is no JSON object")
    fields = {str(name).lower(): value for name, value in said.items()}
    question, answer = _question(fields), _answer(fields)
    split = fields.get("split", split_of(question))
    if split not in ("train", "heldout"):
        raise ValueError(f"split is train or heldout, and not {split!r}")
    return split, Problem(f"q-{_hash(question).hex()[:16]}", question, answer)


def _question(fields: Mapping[str, Any]) -> str:
    for name in ASKS:
        said = fields.get(name)
        if isinstance(said, list):  # a conversation: its last message asks
            said = said[-1].get("content") if said and isinstance(said[-1], dict) else None
        if isinstance(said, str) and said.strip():
            wrapped = WRAPPED.match(said)
            return (wrapped[1] if wrapped else said).strip()
    raise ValueError(f"it asks nothing: {', '.join(ASKS[:-1])} or {ASKS[-1]} holds the question as text")


def _answer(fields: Mapping[str, Any]) -> str:
    model = fields.get("reward_model")
    said = model.get("ground_truth") if isinstance(model, dict) else None
    for name in ANSWERS:
        said = fields.get(name) if said is None else said
    if isinstance(said, int | float) and not isinstance(said, bool):
        said = str(said)
    if not isinstance(said, str) or not said.strip():
        raise ValueError("it has no answer: answer, solution or reward_model.ground_truth holds it")
    boxed = re.findall(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", said)
    return (boxed[-1] if boxed else said.rpartition("####")[2]).strip()


def _has_one_answer(kind: type, base: type) -> bool:
    return getattr(kind, "score_answer", None) is base.score_answer  # type: ignore[attr-defined]  # the package has no types


def _hash(question: str) -> bytes:
    return hashlib.sha256(" ".join(question.split()).encode()).digest()
