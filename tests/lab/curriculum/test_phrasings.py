"""What trains and what examines have no line, no filler and no trick in common."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

import pytest

from lab.curriculum import phrasings

ALIKE = 0.9
"""Two wordings this close are one wording."""


def plain(line: str) -> str:
    """Capitals, blanks and full stops make no other wording; a sign before a number and C# do."""
    return re.sub(r"[^\w#+\-]+|_", " ", line.casefold()).strip() or line


def tables():
    """(name, table) of everything that has lines in more than one split."""
    for name, table in phrasings.read("changes").items():
        if name != "slots":
            yield f"changes.{name}", table
    for name, table in phrasings.read("replies").items():
        if name != "tones":
            yield f"replies.{name}", table
    tools = phrasings.read("tools")
    yield "tools.actions", tools["actions"]
    yield "tools.unclear", tools["unclear"]
    for name, table in tools["failures"].items():
        yield f"failures.{name}", table
    tasks = phrasings.read("tasks")
    yield "tasks", tasks
    yield "faults", tasks["faults"]
    yield "injections", phrasings.read("injections")
    yield "wishes", phrasings.read("wishes")


@pytest.mark.parametrize(("name", "table"), [pytest.param(*one, id=one[0]) for one in tables()])
def test_no_line_trains_and_examines(name, table):
    train, dev, heldout = (
        {plain(line) for line in phrasings.lines(table, split)} for split in ("train", "dev", "heldout")
    )

    assert heldout
    assert not train & heldout
    assert not dev & heldout
    assert not train & dev


def test_no_follow_up_of_any_kind_examines_what_another_trains():
    """A wording may not come back under another name either."""
    spoken = [table for name, table in tables() if name.startswith(("changes.", "replies."))]
    train, heldout = (
        {plain(wording.text) for table in spoken for part in splits for wording in phrasings.wordings(table, part)}
        for splits in (("train", "dev"), ("heldout",))
    )

    # "{next}", "{again}" and "{other}" are filled from tasks, which are disjoint themselves.
    assert not {line for line in train & heldout if line not in ("next", "again", "other")}


@pytest.mark.parametrize(
    ("name", "table"), [pytest.param(*one, id=one[0]) for one in tables() if one[0].startswith("changes.")]
)
def test_a_held_out_wording_is_more_than_a_retouched_one(name, table):
    slots = re.compile(r"\{\w+\}")
    train = [plain(slots.sub("", wording.text)) for wording in phrasings.wordings(table, "train")]
    train += [plain(slots.sub("", wording.text)) for wording in phrasings.wordings(table, "dev")]
    for wording in phrasings.wordings(table, "heldout"):
        for other in train:
            assert SequenceMatcher(None, plain(slots.sub("", wording.text)), other).ratio() < ALIKE, (wording, other)


@pytest.mark.parametrize("file", ["changes", "tools"])
def test_no_filler_trains_and_examines(file):
    for name, table in phrasings.read(file)["slots"].items():
        train, heldout = set(map(plain, table["train"])), set(map(plain, table["heldout"]))
        assert heldout, name
        assert not train & heldout, name


def test_no_tone_trains_and_examines():
    for name, table in phrasings.read("replies")["tones"].items():
        for side in ("before", "after"):
            assert not set(table[f"train_{side}"]) & set(table[f"heldout_{side}"]), name


def test_each_score_has_many_wordings():
    found = {score: {"train": 0, "heldout": 0} for score in (1, 0, -1)}
    for name, table in tables():
        score = table.get("score") if name.startswith("replies.") else -1 if name.startswith("changes.") else None
        if score is not None:
            for split in ("train", "heldout"):
                found[score][split] += len(phrasings.wordings(table, split))

    assert all(counts["train"] >= 50 and counts["heldout"] >= 25 for counts in found.values()), found


def test_there_are_many_kinds_of_change_and_some_never_train():
    heldout = phrasings.changes(phrasings.read("changes"), "heldout")
    train = {kind.name for kind in phrasings.changes(phrasings.read("changes"), "train")}

    assert len(train) >= 40
    assert {kind.name for kind in heldout if not kind.is_unseen} == train
    assert sum(kind.is_unseen for kind in heldout) >= 8
    assert all(len(kind.wordings) >= 4 for kind in phrasings.changes(phrasings.read("changes"), "train"))


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_every_task_has_a_next_and_another_wording(split):
    for line in phrasings.lines(phrasings.read("tasks"), split):
        request, _, onward, again = line.split(" || ")
        assert plain(again) != plain(request)
        assert plain(onward) != plain(request)
    for line in phrasings.lines(phrasings.read("tools")["actions"], split):
        assert len(line.split(" || ")) == 4
