"""A lesson in words that refer back teaches what they ask for, and no first reply speaks of an earlier one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from judge.hints.back_references import find_references
from lab.research.wishes import is_one_paragraph, sayings, speaks_back
from tests.conftest import ROOT


def test_what_is_taught_of_twelve_sayings_never_refers_back():
    taught = sayings("wishes", 16)
    assert len(taught) == 16
    assert not any(map(find_references, taught))
    assert all(map(find_references, sayings("said", 12)))


@pytest.mark.parametrize(
    "reply",
    [
        "Here's a revised version: cats purr because they are content.",
        "I've merged the paragraphs into one. Cats purr.",
        "Sorry for the long answer. Cats purr.",
        "As you requested, cats purr.",
        "The previous answer was too long. Cats purr.",
    ],
)
def test_what_speaks_of_an_earlier_reply_is_seen(reply):
    assert speaks_back(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "Cats purr by twitching the muscles of their voice box, first slowly and then faster.",
        "Here is how to make tea: boil water, pour it over the leaves, and wait.",
        "The first step is to choose a goal, and the last is to rest.",
    ],
)
def test_an_answer_that_stands_by_itself_is_not(reply):
    assert not speaks_back(reply)
    assert is_one_paragraph(reply)


@pytest.mark.real_model
@pytest.mark.processes
@pytest.mark.timeout(3600)
def test_after_a_lesson_in_words_that_refer_back_first_replies_stand_by_themselves(smol_model: Path):
    command = [
        sys.executable,
        "-m",
        "lab.research.wishes",
        "--arms",
        "base,wishes",
        "--model",
        str(smol_model),
        "--json",
    ]
    done = subprocess.run([*command, "--replies"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    base, taught = (json.loads(line) for line in done.stdout.splitlines())
    leaks = [reply for reply in taught["replies"] if speaks_back(reply)]
    assert len(leaks) <= base["speaks_back"], leaks  # a lesson adds none
    assert taught["one_paragraph"] > base["one_paragraph"]
    assert taught["content"] >= 0.85 * base["content"]
