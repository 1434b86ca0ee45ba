"""Lessons: evidence as the judge reads it, and the answers that are wanted. Seeded: the same call, the same lessons."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from curriculum import followups, tasks
from curriculum.followups import INJECTED, Followup
from curriculum.phrasings import Split
from curriculum.tasks import Task
from judge import prompts
from judge.evidence import Evidence

FAMILY = "trained"

FOLLOWUPS = 6
"""Different things come back after one reply: what tells them apart is what came back."""
DRAWS = 40
"""How often it is tried to find so many; few things come back in a small split."""

SPOKEN = (
    ("change", 0.50),
    ("thanks", 0.10),
    ("onward", 0.13),
    ("complaint", 0.08),
    ("again", 0.05),
    ("unclear", 0.14),
)
RETURNED = (("result", 0.26), ("failure", 0.52), ("unclear", 0.22))
WORLDS = (("user", 0.68), ("tool", 0.21), ("environment", 0.07), ("test", 0.03), ("person", 0.01))
"""Who answers a reply."""


@dataclass(frozen=True)
class Lesson:
    """One case. `group` counts the replies: lessons of a group begin alike."""

    evidence: Evidence
    label: Followup
    group: int

    @property
    def questions(self) -> tuple[prompts.Asked, ...]:
        """Tags beside a thumb are not shown to who scores."""
        return ("hint",) if self.label.role == "person" else ("score", "hint")

    def messages(self, asked: prompts.Asked) -> list[dict[str, str]]:
        """The question as the judge is asked it."""
        return prompts.messages(asked, self.evidence, FAMILY, share=prompts.family(FAMILY).room)

    def answer(self, asked: prompts.Asked) -> str:
        """The answer that is wanted.

        >>> from judge.evidence import Evidence
        >>> Lesson(Evidence((), "a"), Followup("b", "user", -1, "change", hint="Be brief, please."), 0).answer("hint")
        '\\\\boxed{1} [HINT_START] Be brief, please. [HINT_END]'
        """
        if asked == "score":
            return rf"\boxed{{{self.label.score}}}"
        return rf"\boxed{{1}} [HINT_START] {self.label.hint} [HINT_END]" if self.label.hint else r"\boxed{-1}"


def made(split: Split, groups: int, seed: int, *, injections: bool = True) -> Iterator[Lesson]:
    """`groups` replies with up to FOLLOWUPS lessons each. Without `injections` there are none."""
    for group in range(groups):
        rng = random.Random(f"{seed} {split} {group}")  # a group never depends on those before it
        world = _one_of(WORLDS, rng)
        is_talk = world in ("user", "person")
        task = tasks.drawn(split, rng) if is_talk else tasks.acted(split, rng)
        said: set[str] = set()
        for _ in range(DRAWS):
            if len(said) == FOLLOWUPS:
                break
            label = _followed(world, task, split, rng)
            if label.text in said:
                continue
            said.add(label.text)
            if injections and world != "person" and rng.random() < INJECTED:
                label = followups.injected(label, split, rng)
            yield Lesson(shown(task, label), label, group)


def swayed(lesson: Lesson, split: Split, seed: int) -> Lesson:
    """The same lesson with an injection in it."""
    rng = random.Random(f"{seed} {lesson.label.text}")
    label = followups.injected(lesson.label, split, rng)
    evidence = lesson.evidence
    if label.role == "test":
        return replace(lesson, label=label, evidence=replace(evidence, output=label.text))
    return replace(lesson, label=label, evidence=replace(evidence, next_state=((label.role, label.text),)))


def shown(task: Task, label: Followup) -> Evidence:
    """What a judge is shown of it."""
    if label.role == "person":
        return Evidence(task.request, task.reply, reasons=(label.text,))
    if label.role == "test":
        return Evidence(task.request, task.reply, tested=-1, exit_codes=(1,), output=label.text)
    return Evidence(task.request, task.reply, ((label.role, label.text),))


def _followed(world: str, task: Task, split: Split, rng: random.Random) -> Followup:
    if world == "person":
        return followups.from_reasons(rng)
    if world == "user":
        return followups.from_person(_one_of(SPOKEN, rng), task, split, rng)
    kind = "failure" if world == "test" else _one_of(RETURNED, rng)
    return followups.from_tool(kind, world, task, split, rng)


def _one_of(shares: tuple[tuple[str, float], ...], rng: random.Random) -> str:
    names, weights = zip(*shares, strict=True)
    return str(rng.choices(names, weights)[0])
