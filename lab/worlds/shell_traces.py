"""Traces of shell tasks: made-up attempts by an expert who is wrong on purpose in some steps.

What commands print is worked out here, since twelve thousand sandboxes would take an hour. A test holds it to what
bash prints.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from environments.sandboxes.sandbox import Result
from environments.sandboxes.shell import shown
from environments.worlds.base import Message
from environments.worlds.harbor.world import MOST_SHOWN, SYSTEM, TOOLS
from lab.worlds.shell_tasks import HORIZON, OF_SPLIT, SAYS, Chore, ShellTask, draw
from lab.worlds.traces import Trace

WRONG = 0.35
"""Share of steps that are wrong."""


@dataclass
class Files:
    """A folder, as far as these commands go."""

    holds: dict[str, str]
    """What each file holds."""
    folders: dict[str, set[str]] = field(default_factory=dict)
    """Names in each folder."""

    def run(self, chore: Chore) -> str:
        """Do it, and return what is printed: nothing, or one line on why it failed."""
        verb, name, to = chore.verb, chore.names[0], chore.names[-1]
        if verb == "mkdir":
            if name in self.holds or name in self.folders:
                return f"mkdir: cannot create directory '{name}': File exists"
            self.folders[name] = set()
            return ""
        if name not in self.holds and name not in self.folders:
            doing = "remove" if verb == "rm" else "stat"
            return f"{verb}: cannot {doing} '{name}': No such file or directory"
        if verb == "rm":
            return self._remove(name)
        return self._bring(verb, name, to)

    def _remove(self, name: str) -> str:
        if name in self.folders:
            return f"rm: cannot remove '{name}': Is a directory"
        del self.holds[name]
        return ""

    def _bring(self, verb: str, name: str, to: str) -> str:
        """Copy or move a file. The expert does neither to a folder, nor to a file and itself."""
        text = self.holds[name]
        if to in self.folders:
            self.folders[to].add(name)
        else:
            self.holds[to] = text
        if verb == "mv":
            del self.holds[name]
        return ""


def shell_traces(count: int, seed: int, *, wrong: float = WRONG) -> list[Trace]:
    """Make `count` traces; the same seed makes the same ones. Their tasks have names of both splits, since a word must
    have been seen to be said: none with two names or more is ever played."""
    return [_trace(number, random.Random(f"shell trace {seed} {number}"), wrong) for number in range(count)]


def _trace(number: int, chance: random.Random, wrong: float) -> Trace:
    every = [name for names in OF_SPLIT.values() for name in names]
    while True:
        task = draw(every, chance)
        names = {name for chore in task.chores for name in chore.names}
        if len(names) == 1 or not any(names <= set(of_split) for of_split in OF_SPLIT.values()):
            break
    files = Files({name: name for name in task.files})
    messages: list[Message] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": task.instruction},
    ]
    left = list(task.chores)
    scores: list[float] = []
    for step in range(HORIZON):
        right = left[0] if left else None
        does = _slip(task, files, right, chance) if chance.random() < wrong else right
        call = _call(f"call_{number}_{step}", does)
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        said = "Done." if does is None else _shown(files.run(does))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})
        scores.append(1.0 if does == right else -1.0)
        if does is None:
            break
        left = [one for one in left if one != does and all(name in files.holds for name in one.found)]
    return Trace(messages, [dict(tool) for tool in TOOLS], tuple(scores), not left and set(scores) == {1.0})


def _slip(task: ShellTask, files: Files, right: Chore | None, chance: random.Random) -> Chore | None:
    """A mistake: to be done too early, or another command on names of the task. Never the right step."""
    names = tuple(dict.fromkeys((*(name for chore in task.chores for name in chore.names), task.bystander)))
    while True:
        if chance.random() < 0.25:
            does = None
        else:
            verb = chance.choice(tuple(SAYS))
            does = Chore(verb, tuple(chance.sample(names, SAYS[verb].count("{}"))))
        moves_folder = does is not None and does.verb in ("cp", "mv") and does.names[0] in files.folders
        if does != right and not moves_folder:
            return does


def _call(id: str, does: Chore | None) -> dict[str, Any]:
    name, given = ("done", {}) if does is None else ("bash", {"command": does.command})
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}


def _shown(printed: str) -> str:
    return shown(Result(1 if printed else 0, f"{printed}\n".encode() if printed else b"", b""), MOST_SHOWN, 0)
