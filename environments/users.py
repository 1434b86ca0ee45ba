"""Who answers a reply: a scripted person, or a model that plays one. Detectors decide what is accepted, in both."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Protocol

from environments import phrasings
from environments.personas import Persona, parts
from environments.tasks import Task
from environments.wishes import WISHES


@dataclass(frozen=True)
class Said:
    """What somebody says of a reply. `asked` is the one wish that a complaint is about; without one, they are done."""

    text: str
    accepts: bool
    asked: str | None


class User(Protocol):
    """Somebody who talks. One user plays one session at a time: `opening` begins it."""

    def opening(self, task: Task) -> str: ...

    async def hear(self, reply: str, *, finished: bool) -> Said: ...


class ScriptedUser:
    """Says natural lines from the files, the same ones for the same seed, task and turn, whatever was played before.

    Names one unmet wish at a time: the first, from a place that the task decides, that was not named yet in this
    session; when all unmet ones were named, the same anew in other words. After `patience` complaints they give up.
    """

    def __init__(self, persona: Persona, seed: int, *, split: phrasings.Split | None = None, patience: int = 2) -> None:
        """`split`: whose phrasings; None: the persona's own."""
        self.persona, self.seed, self.patience = persona, seed, patience
        self.split: phrasings.Split = split or persona.split
        self._begin("")

    def opening(self, task: Task) -> str:
        self._begin(task.id)
        wording = self._drawn("openings", task.kind)
        return wording.format(prompt=task.prompt)

    async def hear(self, reply: str, *, finished: bool) -> Said:
        wish = self._unmet(reply, finished)
        if wish is None:
            return Said(self._drawn("closings", "accepts"), accepts=True, asked=None)
        if len(self._asked) >= self.patience:
            return Said(self._drawn("closings", "gives_up"), accepts=False, asked=None)
        self._asked.append(wish)
        return Said(self._complaint(wish, reply), accepts=False, asked=wish)

    def _begin(self, session: str) -> None:
        self._session, self._asked, self._said = session, list[str](), set[str]()

    def _unmet(self, reply: str, finished: bool) -> str | None:
        obeyed = parts(self.persona, reply, finished=finished)
        start = self._rng("order").randrange(len(obeyed))
        order = [*obeyed][start:] + [*obeyed][:start]
        unmet = [name for name in order if not obeyed[name]]
        return min(unmet, key=self._asked.count, default=None)

    def _complaint(self, name: str, reply: str) -> str:
        fault = WISHES[name].fault
        return self._drawn("complaints", fault(reply) if fault else name)

    def _drawn(self, file: str, kind: str) -> str:
        every = [line for line in phrasings.lines(file, kind, self.split) if line not in self._said]
        line = self._rng(f"{file}:{kind}:{len(self._said)}").choice(every)
        self._said.add(line)
        return line

    def _rng(self, what: str) -> random.Random:
        return random.Random(f"{self.persona.name}:{self.seed}:{self._session}:{what}")
