"""What a tool or an environment gives back: a result, a failure, or nothing that one can read anything from."""

from __future__ import annotations

import random
from dataclasses import replace

from lab.curriculum import phrasings
from lab.curriculum.followups import Followup, draw_fillers, kinds, wanted_by
from lab.curriculum.patterns import PATTERNED, patterned
from lab.curriculum.person_followups import threaded
from lab.curriculum.phrasings import Split
from lab.curriculum.tasks import Task, filled

WRAPPED = ("Observation:\n{result}", "{result}", "[output]\n{result}", "stdout:\n{result}")
"""How an environment words what a tool would say plainly."""


def from_tool(kind: str, role: str, task: Task, split: Split, rng: random.Random) -> Followup:
    """A tool's or an environment's result: kind is result, failure or unclear."""
    tables = phrasings.read("tools")
    slots = draw_fillers(tables["slots"], split, rng) | task.slots
    if kind == "result" and task.thread:
        label = replace(threaded(task.thread, "builds", split, rng), kind="result")
    elif kind == "result":
        label = Followup(rng.choice(task.results), role, 1, "result")
    elif kind == "unclear":
        wording = rng.choice(phrasings.wordings(tables["unclear"], split))
        if split == "train" and rng.random() < PATTERNED:
            wording = patterned("tools", "unclear", rng) or wording
        label = Followup(wording.text, role, 0, "silent")
    else:
        change = rng.choice([*kinds("failures", split), *(one for one in kinds("failures", split) if not one.hint)] * 2)
        if rng.random() < 0.25:
            change = next(one for one in kinds("failures", split) if not one.hint)
        wording = rng.choice(change.wordings)
        if split == "train" and rng.random() < PATTERNED:
            wording = patterned("tools", change.name, rng) or wording
        if "{file}" in change.hint and change.name == "meant":
            slots["file"] = rng.choice(phrasings.fillers(tables["slots"], split)["file"])
        label = Followup(filled(wording.text, slots), role, -1, f"failure:{change.name}")
        label = replace(label, **wanted_by(change, slots))
    return as_role(label, role, rng)


def as_role(label: Followup, role: str, rng: random.Random) -> Followup:
    """What a tool gave back, as this role says it."""
    text = rng.choice(WRAPPED).replace("{result}", label.text) if role == "environment" else label.text
    return replace(label, text=text, role=role)
