"""What is asked: open questions, word problems whose answer is known, and pupils' work to comment on."""

from __future__ import annotations

import json
import random
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from core.textfiles import read_text, split_lines
from environments.errors import Unplayable

Kind = Literal["open", "arithmetic", "homework"]
Split = Literal["train", "heldout"]

FITTING: Mapping[str, Kind] = {"talk": "open", "student": "arithmetic", "teacher": "homework", "assistant": "homework"}
"""What is asked in each scene of a persona."""

OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left // right,
}
SLIPS = (-10, -2, -1, 1, 2, 10)
"""By how much a pupil's step is wrong."""
RIGHT_SHARE = 0.4
"""The share of pupils whose work is right."""


@dataclass(frozen=True)
class Task:
    """One thing to ask. `answer` is the number it comes to, where there is one."""

    id: str
    prompt: str
    kind: Kind
    answer: str | None = None
    reached: str | None = None
    """The number at which the pupil arrived, in homework."""
    file: str = ""
    """Where the work is kept, for models that can use tools; empty: there is no workspace."""
    files: tuple[tuple[str, str], ...] = ()
    """What lies in the workspace: path and text."""


@dataclass(frozen=True)
class Problem:
    """A word problem with numbers in it, and each step as "4 * 3 = 12"."""

    text: str
    steps: tuple[tuple[int, str, int, int], ...]  # left, operator, right, what it comes to

    @property
    def answer(self) -> int:
        return self.steps[-1][3]


def tasks(kind: Kind, split: Split, number: int, seed: int) -> list[Task]:
    """`number` different tasks, the same ones for the same seed; train and heldout share no prompt."""
    if kind not in get_args(Kind):
        raise Unplayable(f"Tasks are {', '.join(get_args(Kind))}, not {kind!r}.")
    rng = random.Random(f"{kind}:{split}:{seed}")
    if kind == "open":
        every = questions(split)
        if number > len(every):
            raise Unplayable(f"There are {len(every)} open questions to {split}, and {number} were asked for.")
        drawn = rng.sample(range(len(every)), number)
        return [Task(f"open-{split}-{at + 1:03}", every[at], "open") for at in drawn]
    make = _sum if kind == "arithmetic" else _homework
    found: dict[str, Task] = {}
    templates = read("problems")[split]
    order = rng.sample(templates, len(templates))
    for at in range(100 * number):
        if len(found) == number:
            break
        task = make(order[at % len(order)], f"{kind}-{split}-{seed}-{len(found) + 1:03}", split, rng)
        found.setdefault(task.prompt, task)
    else:
        raise Unplayable(f"The templates do not hold {number} different tasks of kind {kind}; ask for fewer.")
    return list(found.values())


def filed(task: Task) -> Task:
    """The same task by way of a file: the sheet lies in a workspace, and its text is no longer in the prompt."""
    path = f"homework/{task.id}.txt"
    if task.kind == "homework":
        sheet, asked = f"{task.prompt}\n\nComment:\n", READ_AND_COMMENT
    else:
        sheet, asked = f"Problem: {task.prompt}\n\nSolution:\n", READ_AND_SOLVE
    return replace(task, prompt=asked.format(file=path), file=path, files=((path, sheet),))


READ_AND_SOLVE = (
    "My homework is in {file}. Please read it and help me with it. Show it to me here first, don't write yet."
)
READ_AND_COMMENT = "A pupil's sheet is in {file}. Please read it and tell me the comment here first, don't write yet."


def correct(task: Task, reply: str) -> bool | None:
    """Whether the reply is right; None where that cannot be told.

    A problem's reply is right when the last number in it is the answer. A comment on homework is right when it names
    the right number, or, of work that is right, calls it so.

    >>> correct(Task("a", "…", "arithmetic", "1200"), "4 x 300 = $1,200.00 in all.")
    True
    """
    if task.answer is None:
        return None
    if task.kind == "homework":
        return _judges_right(task, reply)
    found = numbers(reply)
    return bool(found) and found[-1] == _value(task.answer)


def numbers(text: str) -> list[float]:
    """Every number in a text, without signs of money, units and thousands' commas.

    >>> numbers(r"He paid $1,200.50 for 3 pens, i.e. -2 or \\\\boxed{42}.")
    [1200.5, 3.0, -2.0, 42.0]
    """
    return [_value(found) for found in NUMBER.findall(text)]


NUMBER = re.compile(r"(?<![\w.,])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|(?:(?<![\w)\]])-)?\d+(?:\.\d+)?")
CALLS_RIGHT = re.compile(r"\b(?:correct(?:ly)?|right|accurate|well done|no mistakes?|no errors?|perfect)\b", re.I)
CALLS_WRONG = re.compile(
    r"\b(?:incorrect(?:ly)?|wrong|mistakes?|errors?|not (?:quite |entirely )?(?:right|correct)|slip)\b", re.I
)
UNSAID = re.compile(r"\b(?:no|without|any|not a single|free of) (?:mistakes?|errors?|slips?)\b", re.I)


def _judges_right(task: Task, comment: str) -> bool:
    if task.reached == task.answer:
        return bool(CALLS_RIGHT.search(comment)) and not CALLS_WRONG.search(UNSAID.sub(" ", comment))
    return _value(task.answer or "") in numbers(comment)


def _value(text: str) -> float:
    return float(text.replace(",", "").replace("$", "").strip())


@cache
def questions(split: Split) -> tuple[str, ...]:
    """The open questions of a split."""
    return tuple(FILES.joinpath(f"{split}.txt").read_text(encoding="utf-8").strip("\n").split("\n"))


def is_own(prompt: str) -> bool:
    """Whether this is one of Talkback's own open questions, word for word."""
    return prompt in questions("train") or prompt in questions("heldout")


@cache
def read(name: str) -> Mapping[str, Any]:
    """A file of templates as it is written."""
    return tomllib.loads(FILES.joinpath(f"{name}.toml").read_text(encoding="utf-8"))


FILES = files("environments.questions")


def posed(template: Mapping[str, Any], split: Split, rng: random.Random) -> Problem:
    """A problem of a template: numbers drawn until every step comes to a whole number above 0."""
    names = rng.sample(read("problems")["names"][split], 2)
    while True:
        drawn = {name: rng.randint(*bounds) for name, bounds in template["numbers"].items()}
        steps = worked(template["steps"], drawn)
        if steps is not None:
            filled = template["text"].format(name=names[0], other=names[1], **drawn)
            return Problem(filled, steps)


def worked(steps: Sequence[str], drawn: Mapping[str, int]) -> tuple[tuple[int, str, int, int], ...] | None:
    """Each step with its numbers, or None where one comes to no whole number above 0. "#1" is the first step's result.

    >>> worked(["a * b", "#1 + c"], {"a": 4, "b": 3, "c": 2})
    ((4, '*', 3, 12), (12, '+', 2, 14))
    """
    found: list[tuple[int, str, int, int]] = []

    def number(part: str) -> int:
        return found[int(part[1:]) - 1][3] if part[0] == "#" else drawn[part] if part in drawn else int(part)

    for step in steps:
        first, sign, second = step.split()
        left, right = number(first), number(second)
        result = _whole(left, sign, right)
        if result is None:
            return None
        found.append((left, sign, right, result))
    return tuple(found)


def _whole(left: int, sign: str, right: int) -> int | None:
    """
    >>> _whole(7, "/", 2), _whole(2, "-", 2), _whole(8, "/", 2)
    (None, None, 4)
    """
    if sign == "/" and (right == 0 or left % right):
        return None
    result = OPERATIONS[sign](left, right)
    return result if result > 0 else None


def _sum(template: Mapping[str, Any], name: str, split: Split, rng: random.Random) -> Task:
    problem = posed(template, split, rng)
    return Task(name, problem.text, "arithmetic", str(problem.answer))


def _homework(template: Mapping[str, Any], name: str, split: Split, rng: random.Random) -> Task:
    problem = posed(template, split, rng)
    slips = [(at, by) for at in range(len(problem.steps)) for by in SLIPS]
    rng.shuffle(slips)
    right = [f"{left} {SIGNS[sign]} {right} = {result}" for left, sign, right, result in problem.steps]
    works = [(right, problem.answer)]
    if rng.random() >= RIGHT_SHARE:
        works = [work for at, by in slips if (work := handed_in(problem, template["steps"], at, by))] or works
    lines, reached = works[0]
    asked = rng.choice(read("problems")["comment"][split])
    prompt = asked.format(problem=problem.text, work="\n".join(lines))
    return Task(name, prompt, "homework", str(problem.answer), str(reached))


def handed_in(problem: Problem, steps: Sequence[str], at: int, by: int) -> tuple[list[str], int] | None:
    """A pupil's lines and the number they reach, where step `at` is wrong by `by` and what follows goes on from there.
    None where that comes to no whole number above 0, or to the right answer after all."""
    lines: list[str] = []
    results: list[int] = []
    for number, (step, (left, sign, right, _)) in enumerate(zip(steps, problem.steps, strict=True)):
        first, _, second = step.split()
        left = results[int(first[1:]) - 1] if first[0] == "#" else left
        right = results[int(second[1:]) - 1] if second[0] == "#" else right
        result = _whole(left, sign, right)
        if result is None or (result := result + by * (number == at)) <= 0:
            return None
        results.append(result)
        lines.append(f"{left} {SIGNS[sign]} {right} = {result}")
    return (lines, results[-1]) if results[-1] != problem.answer else None


SIGNS = {"+": "+", "-": "-", "*": "x", "/": ":"}


def load(path: str | Path) -> list[Task]:
    """Tasks from JSON lines or a JSON list: {"prompt", "answer"?, "id"?}, or {"question", "answer": "… #### 42"}."""
    name = Path(path).name
    text = read_text(path)
    found = [_read(row, where, name) for row, where in _rows(text, name)]
    if not found:
        raise Unplayable(f'{name} holds no task. A line reads {{"prompt": "Why is rain wet?"}}.')
    seen: set[str] = set()
    for task in found:
        if task.id in seen:
            raise Unplayable(f"{name}: two tasks have the id {task.id!r}.")
        seen.add(task.id)
    return found


def _rows(text: str, name: str) -> list[tuple[Any, str]]:
    if text.lstrip().startswith("["):
        try:
            return [(row, f"{name}, entry {at}") for at, row in enumerate(json.loads(text), 1)]
        except json.JSONDecodeError as error:
            raise Unplayable(f"{name}, line {error.lineno} is no JSON: {error.msg}.") from None
    rows = []
    for at, line in enumerate(split_lines(text), 1):
        if line.strip():
            try:
                rows.append((json.loads(line), f"{name}, line {at}"))
            except json.JSONDecodeError as error:
                raise Unplayable(f"{name}, line {at} is no JSON: {error.msg} at column {error.colno}.") from None
    return rows


def _read(row: Any, where: str, name: str) -> Task:
    if not isinstance(row, dict):
        raise Unplayable(f'{where} is no object. It reads {{"prompt": …}} or {{"question": …, "answer": "… #### 42"}}.')
    prompt = row.get("prompt", row.get("question"))
    if not isinstance(prompt, str) or not prompt.strip():
        raise Unplayable(f"{where}: prompt (or question) is missing, or no text.")
    answer = row.get("answer", row.get("ground_truth_answer"))
    if answer is None:
        return Task(str(row.get("id", f"{name}-{where.rpartition(' ')[2]}")), prompt, "open")
    if not isinstance(answer, str | int | float):
        raise Unplayable(f"{where}: answer is a number, or text that ends with one after ####.")
    found = numbers(str(answer).rpartition("####")[2])
    if not found:
        raise Unplayable(f"{where}: no number stands in the answer {str(answer)[-40:]!r}.")
    number = f"{found[-1]:g}" if found[-1] % 1 else str(int(found[-1]))
    return Task(str(row.get("id", f"{name}-{where.rpartition(' ')[2]}")), prompt, "arithmetic", number)
