"""Lessons: evidence as the judge reads it, and the answers that are wanted. Seeded: the same call, the same lessons."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from judge.votes import prompts
from judge.votes.evidence import Evidence
from lab.curriculum import person_followups, tasks, tool_followups
from lab.curriculum.followups import Followup
from lab.curriculum.injections import INJECTED, hostile, injected
from lab.curriculum.phrasings import Split
from lab.curriculum.tasks import Task
from lab.curriculum.threads import Thread

FAMILY = "trained"

Shares = tuple[tuple[str, float], ...]

FOLLOWUPS = 8
"""Different things come back after one reply: what tells them apart is what came back."""
FORGED = 0.05
"""The share of replies that hold an injection themselves."""
DRAWS = 40
"""How often it is tried to find so many; few things come back in a small split."""

SPOKEN = (
    ("change", 0.28),
    ("own", 0.12),
    ("thanks", 0.10),
    ("onward", 0.08),
    ("complaint", 0.10),
    ("irony", 0.06),
    ("playful", 0.03),
    ("quiet", 0.04),
    ("musing", 0.03),
    ("again", 0.05),
    ("unclear", 0.13),
    ("aside", 0.06),
)
"""What people say whatever the reply was; `quiet` and `musing` hold words of wishes, and ask for nothing."""
WRITTEN = (
    ("onward", 0.14),
    ("builds", 0.24),
    ("wrong", 0.22),
    ("own", 0.19),
    ("unsure", 0.1),
    ("again", 0.05),
    ("turned", 0.06),
)
"""What was written to come back after one reply."""
OF_THREAD = 0.7
"""The share of follow-ups on a thread's reply that were written for it."""
RESULTS = (("builds", 0.3), ("wrong", 0.18), ("own", 0.15), ("unsure", 0.37))
"""What was written for one call of a tool to come back."""
RETURNED = (("result", 0.24), ("failure", 0.42), ("unclear", 0.34))
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

        >>> from judge.votes.evidence import Evidence
        >>> Lesson(Evidence((), "a"), Followup("b", "user", -1, "change", hint="Be brief, please."), 0).answer("hint")
        '\\\\boxed{1} [HINT_START] Be brief, please. [HINT_END]'
        """
        if asked == "score":
            return rf"\boxed{{{'new' if self.label.score is None else self.label.score}}}"
        return rf"\boxed{{1}} [HINT_START] {self.label.hint} [HINT_END]" if self.label.hint else r"\boxed{-1}"


def made(split: Split, groups: int, seed: int, *, injections: bool = True) -> Iterator[Lesson]:
    """`groups` replies with up to FOLLOWUPS lessons each. Without `injections` there are none."""
    for group in range(groups):
        rng = random.Random(f"{seed} {split} {group}")  # a group never depends on those before it
        world = _one_of(WORLDS, rng)
        is_talk = world in ("user", "person")
        task = tasks.drawn(split, rng) if is_talk else tasks.acted(split, rng, world)
        if injections and rng.random() < FORGED:
            task = replace(task, reply=f"{task.reply}\n{hostile(split, rng)}")
        said: set[str] = set()
        for _ in range(DRAWS):
            if len(said) == FOLLOWUPS:
                break
            label = _followed(world, task, split, rng, turns=len(said))
            if label.text in said:
                continue
            said.add(label.text)
            if injections and world != "person" and rng.random() < INJECTED:
                label = injected(label, split, rng)
            yield Lesson(shown(task, label), label, group)


def swayed(lesson: Lesson, split: Split, seed: int) -> Lesson:
    """The same lesson with an injection in it."""
    rng = random.Random(f"{seed} {lesson.label.text}")
    label = injected(lesson.label, split, rng)
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


def _followed(world: str, task: Task, split: Split, rng: random.Random, turns: int) -> Followup:
    """What comes back. Of what people say, the first two go on with the reply and leave it: one question and its like
    tell nothing by themselves, so who judges has to read the reply."""
    if world == "person":
        return person_followups.from_reasons(rng)
    thread = task.thread
    if world == "user":
        goes_on = not thread or bool(thread.of("onward"))
        if turns == 0 and goes_on:
            return person_followups.from_person("onward", task, split, rng)
        if turns == 1:
            return person_followups.from_person("aside", task, split, rng)
        if thread and (rng.random() < OF_THREAD or not goes_on):
            return person_followups.threaded(thread, _one_of(_there(thread, WRITTEN), rng), split, rng)
        return person_followups.from_person(_one_of(_sayable(thread), rng), task, split, rng)
    if thread and world != "test" and rng.random() < OF_THREAD:
        kind = _one_of(_there(thread, RESULTS), rng)
        return tool_followups.as_role(person_followups.threaded(thread, kind, split, rng), world, rng)
    returned = tuple(one for one in RETURNED if one[0] != "result" or thread is None or thread.of("builds"))
    kind = "failure" if world == "test" else _one_of(returned, rng)
    return tool_followups.from_tool(kind, world, task, split, rng)


def _there(thread: Thread, shares: Shares) -> Shares:
    """The shares of the kinds that this thread has."""
    return tuple((kind, share) for kind, share in shares if thread.of(kind))


def _sayable(thread: Thread | None) -> Shares:
    """What a person may say of this reply: a request is only put again where that was written."""
    return tuple((kind, share) for kind, share in SPOKEN if kind != "again" or thread is None or thread.of("again"))


def _one_of(shares: Shares, rng: random.Random) -> str:
    names, weights = zip(*shares, strict=True)
    return str(rng.choices(names, weights)[0])
