"""The gold set has enough follow-ups of each slice and language, and its labels obey the rules of labelling."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from judge.calibration import gold
from judge.votes import visible_rules

DOCS = Path(__file__).parents[3] / "docs" / "explanation" / "calibration.md"

LEAST = {
    "subject": 40,
    "onward": 40,
    "thanks": 25,
    "sarcasm": 25,
    "complaint": 20,
    "change": 90,
    "again": 15,
    "correction": 20,
    "unclear": 20,
    "clarify": 20,
    "advance": 20,
    "nothing": 15,
    "silent": 15,
    "timeout": 15,
    "exit": 20,
    "useless": 15,
    "fault": 10,
    "environment": 15,
    "test": 15,
}
"""What docs/explanation/calibration.md says of the slices."""

SCORES = {
    "subject": {0},
    "onward": {1},
    "thanks": {1},
    "sarcasm": {-1, 1},
    "complaint": {-1},
    "change": {-1},
    "again": {-1},
    "correction": {-1},
    "unclear": {0},
    "clarify": {-1, 0, 1},
    "advance": {1},
    "nothing": {0},
    "silent": {-1, 0, 1},
    "timeout": {-1, 0},
    "exit": {-1, 0, 1},
    "useless": {-1, 0},
    "fault": {-1},
    "environment": {-1, 0, 1},
    "test": {-1, 0, 1},
}
"""The labels that each slice has, all of which occur."""

TOOLS = {"advance", "nothing", "silent", "timeout", "exit", "useless", "fault"}


def counted(of) -> Counter:
    return Counter(of(item) for item in gold.items())


def test_gold_holds_at_least_460_items_in_known_slices():
    assert len(gold.items()) >= 460
    assert set(counted(lambda item: item.slice)) == set(LEAST) == set(SCORES)


@pytest.mark.parametrize("name", LEAST)
def test_gold_slice_is_large_enough_and_has_its_labels(name):
    scores = [item.score for item in gold.items() if item.slice == name]
    assert len(scores) >= LEAST[name]
    assert set(scores) == SCORES[name]


def test_gold_labels_are_a_mix():
    """About 35 % +1, 40 % -1 and 25 % 0; 5 points off are allowed."""
    scores, total = counted(lambda item: item.score), len(gold.items())
    for score, share in ((1, 0.35), (-1, 0.40), (0, 0.25)):
        assert abs(scores[score] / total - share) <= 0.05, score


def test_gold_has_five_languages_with_fifteen_items_beside_english():
    languages = counted(lambda item: item.language)
    assert sum(number >= 15 for code, number in languages.items() if code != "en") >= 5
    assert {"de", "fr", "es", "nl", "pt", "it", "pl", "tr", "ja", "zh", "hi", "ar"} <= set(languages)
    assert languages["en"] >= 250


def test_gold_slices_have_the_roles_that_their_names_say():
    for item in gold.items():
        role = "tool" if item.slice in TOOLS else item.slice if item.slice in ("environment", "test") else "user"
        assert item.role == role, item.id


def test_gold_new_topic_is_the_slice_of_changed_subjects():
    for item in gold.items():
        assert item.new_topic == (item.slice == "subject"), item.id


def test_gold_change_requests_all_say_what_to_change():
    assert all(item.wants_hint for item in gold.items() if item.slice == "change")
    assert sum(item.wants_hint for item in gold.items() if item.role == "user") >= 90


def test_gold_complaints_and_silence_name_no_change():
    assert not [item.id for item in gold.items() if item.slice in ("complaint", "silent") and item.wants_hint]


def test_gold_silent_slice_came_back_empty():
    said = {text for item in gold.items() if item.slice == "silent" for text in item.next_state}
    assert "" in said
    assert all(len(text) <= 40 for text in said)


def test_gold_exit_slice_has_exit_codes_of_every_kind():
    said = "\n".join(text for item in gold.items() if item.slice == "exit" for text in item.next_state)
    for code in (1, 2, 124, 126, 127, 130, 137, 139, 255):
        assert str(code) in said, code


def test_gold_repeats_no_text():
    """The same words in two items would count one mistake of a judge twice. Empty output is the same everywhere."""
    for texts in (
        [item.reply for item in gold.items() if len(item.reply) > 40],
        [" ".join(item.next_state).casefold() for item in gold.items() if len(" ".join(item.next_state)) > 12],
    ):
        assert [text for text, number in Counter(texts).items() if number > 1] == []


GENERIC = (
    "Answer the request as the person asked.",
    "Be careful and do better work this time.",
    "Give a helpful reply to what was said.",
    "Read the instructions and reply with what they say.",
)


def test_gold_hint_words_do_not_fit_a_hint_that_names_nothing():
    found = {(item.id, word) for item in gold.items() for word in item.hint_about for said in GENERIC
             if word.casefold() in said.casefold()}  # fmt: skip
    assert found == set()


def test_gold_hint_words_stand_in_what_the_person_said():
    """A hint that is a span of the message names the change too."""
    for item in gold.items():
        if item.role == "user" and item.wants_hint:
            assert item.is_named_in(" ".join(item.next_state)), item.id


def test_gold_follow_ups_of_tools_are_decided_by_no_rule_so_that_judges_are_measured():
    assert all(visible_rules.decided(item.evidence) is None for item in gold.items() if item.slice == "exit")


def test_gold_is_described_in_the_docs_as_it_is():
    text, items = DOCS.read_text(encoding="utf-8"), gold.items()
    assert f"`judge/calibration/gold.jsonl`: {len(items)} follow-ups" in text
    assert (len({item.slice for item in items}), len({item.language for item in items})) == (19, 14)
    assert "nineteen slices and fourteen languages" in text
    assert all(f"`{name}`" in text for name in LEAST)
