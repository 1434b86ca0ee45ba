"""Patterns: whole texts, of known slots, that train and say nothing that examines."""

from __future__ import annotations

import random
import re

import pytest

from lab.curriculum import followups, patterns, phrasings
from lab.curriculum.phrasings import drawn
from tests.lab.curriculum.test_phrasings import plain

PARTS = phrasings.read("patterns")
KINDS = [(part, kind) for part in ("say", "why", "replies", "tools") for kind in PARTS[part]]
FILLED = {"do", "next", "again", "other", *phrasings.read("changes")["slots"], *phrasings.read("tools")["slots"]}


def examining():
    tables = [phrasings.read("changes"), phrasings.read("replies"), phrasings.read("tools")["failures"]]
    entries = [table for every in tables for name, table in every.items() if name not in ("slots", "tones")]
    return {
        plain(line) for table in [*entries, phrasings.read("tools")["unclear"]] for line in table["heldout"].split("\n")
    }


def test_one_of_each_choice_is_taken_and_a_bracket_that_is_meant_stays():
    texts = {drawn(r"(a|b(c|)) \(d\)", random.Random(seed)) for seed in range(40)}
    assert texts == {"a (d)", "b (d)", "bc (d)"}


@pytest.mark.parametrize(("part", "kind"), KINDS, ids=lambda one: one)
def test_what_a_pattern_comes_to_is_whole(part, kind):
    rng = random.Random(kind)
    for pattern in phrasings.patterns(part, kind):
        for _ in range(20):
            text = drawn(pattern, rng)
            assert text.strip()
            assert "|" not in text
            assert set(re.findall(r"\{([a-z]+)\}", text)) <= FILLED


def test_every_kind_of_change_that_trains_has_patterns_and_no_other_has():
    trained = {change.name for change in followups.kinds("changes", "train")}
    assert {*PARTS["say"], *PARTS["why"]} == trained


def test_no_request_of_patterns_says_what_a_held_out_line_says():
    kept, rng = examining(), random.Random(3)
    for kind in {*PARTS["say"], *PARTS["why"]}:
        for _ in range(100):
            wording = patterns.wished(kind, rng)
            assert wording is None or plain(wording.text) not in kept, wording
    for part in ("replies", "tools"):
        for kind in PARTS[part]:
            for _ in range(100):
                wording = patterns.patterned(part, kind, rng)
                assert wording is None or plain(wording.text) not in kept, wording


def test_a_wish_with_not_is_never_turned_into_its_contrary():
    rng = random.Random(5)
    said = [wording.text for _ in range(400) if (wording := patterns.wished("no_emojis", rng))]
    asked = [text for text in said if "not use" in text.lower() or "don't use" in text.lower()]
    assert asked
    assert not [text for text in asked if re.search(r"(?i)forgot|didn't|failed|missed|neglected|why", text)]
