"""The gold follow-ups: enough of them, balanced, readable, and nowhere else."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from judge.calibration import gold
from judge.calibration.gold import GoldInvalid
from judge.hints import hint_words
from judge.votes import prompts, visible_rules


def test_there_are_enough_of_every_kind():
    items = gold.items()
    assert len(items) >= 460
    counts = Counter((item.role, item.score) for item in items)
    for role in gold.ROLES:
        least = min(counts[role, score] for score in (-1, 0, 1))
        assert least >= 4, role
        assert 3 * least >= max(counts[role, score] for score in (-1, 0, 1)) - 6, f"{role} is out of balance"


def test_ids_are_used_once_and_no_follow_up_is_told_twice():
    items = gold.items()
    assert len({item.id for item in items}) == len(items)
    assert len({(item.request, item.reply, item.next_state) for item in items}) == len(items)


def test_a_hint_is_wanted_only_after_a_bad_reply_and_says_what_it_is_about():
    for item in gold.items():
        assert bool(item.hint_about) == item.wants_hint, item.id
        assert not item.wants_hint or item.score == -1, item.id


def test_some_bad_replies_are_blamed_without_a_word_of_what_to_change():
    assert sum(item.score == -1 and not item.wants_hint for item in gold.items()) >= 5


def test_every_item_reads_as_the_role_it_has_and_no_rule_decides_it():
    for item in gold.items():
        seen = item.evidence
        assert seen.next_role == item.role, item.id
        assert visible_rules.decided(seen) is None, item.id
        assert "characters left out" not in seen.text, item.id


def test_no_gold_follow_up_stands_in_a_prompt():
    shown = {case.next_state for name in prompts.families() for case in prompts.family(name).case}
    assert shown
    assert not shown & {text for item in gold.items() for text in item.next_state}


def test_a_hint_names_the_change_when_it_holds_one_of_the_words():
    item = next(item for item in gold.items() if "emoji" in item.hint_about)
    assert item.is_named_in("Write it without EMOJI.")
    assert not item.is_named_in("Write it again.")


def test_a_digest_changes_with_the_item(tmp_path: Path):
    line = {"id": "a", "role": "user", "request": "q", "reply": "r", "next_state": "no", "score": -1}
    first = written(tmp_path, line)
    assert written(tmp_path, line | {"id": "b"}).digest == first.digest  # its name alone says nothing else
    assert written(tmp_path, line | {"score": 0}).digest != first.digest
    assert written(tmp_path, line | {"next_state": ["no"]}).digest == first.digest
    assert written(tmp_path, line | {"slice": "complaint", "language": "nl"}).digest == first.digest
    unclear = line | {"score": 0}
    assert written(tmp_path, unclear | {"new_topic": True}).digest != written(tmp_path, unclear).digest


def test_slice_language_and_new_topic_may_be_left_out(tmp_path: Path):
    plain = written(tmp_path, FINE)
    assert (plain.slice, plain.language, plain.new_topic) == ("", "en", False)
    full = written(tmp_path, FINE | {"score": 0, "slice": "subject", "language": "nl", "new_topic": True})
    assert (full.slice, full.language, full.new_topic) == ("subject", "nl", True)


def test_lines_end_at_line_feeds_alone_and_a_byte_order_mark_is_read(tmp_path: Path):
    file = tmp_path / "own.jsonl"
    line = json.dumps(FINE | {"reply": "one\u2028two\x85three"}, ensure_ascii=False)
    file.write_bytes(b"\xef\xbb\xbf" + line.encode() + b"\r\n" + json.dumps(FINE | {"id": "b"}).encode())
    first, second = gold.read(file)
    assert (first.reply, second.id) == ("one\u2028two\x85three", "b")


def written(folder: Path, *lines: dict) -> gold.Item:
    file = folder / "own.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return gold.read(file)[0]


FINE = {"id": "a", "role": "user", "request": "q", "reply": "r", "next_state": "no", "score": -1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"score": 2}, "line 2: score must be -1, 0 or 1"),
        ({"score": True}, "line 2: score must be"),
        ({"role": "robot"}, "role must be one of user, tool"),
        ({"request": ""}, "request must be a text"),
        ({"next_state": 3}, "next_state must be a text"),
        ({"next_state": []}, "next_state must be a text"),
        ({"hint_about": "brief"}, "hint_about must be a list of words"),
        ({"id": "a"}, "has the id a twice"),
        ({"slice": "two words"}, "line 2: slice must be one word"),
        ({"slice": 3}, "slice must be one word"),
        ({"language": "English"}, "language must be an ISO 639 code"),
        ({"language": None}, "language must be an ISO 639 code"),
        ({"new_topic": "yes"}, "new_topic must be true or false"),
        ({"new_topic": True}, "a new topic says nothing of the reply, so score must be 0"),
        ({"new_topic": True, "score": 0, "wants_hint": True}, "no hint is wanted"),
    ],
)
def test_a_file_that_cannot_be_read_says_where_and_why(tmp_path, change, said):
    with pytest.raises(GoldInvalid, match=said):
        written(tmp_path, FINE, FINE | {"id": "b"} | change)


@pytest.mark.parametrize(("text", "said"), [("", "holds no item"), ("{", "line 1 is no JSON"), ("[]", "is no object")])
def test_a_file_without_items(tmp_path, text, said):
    (tmp_path / "own.jsonl").write_text(text)
    with pytest.raises(GoldInvalid, match=said):
        gold.read(tmp_path / "own.jsonl")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(GoldInvalid, match="cannot be read"):
        gold.read(tmp_path / "none.jsonl")


def test_the_commands_own_spelling_of_the_role_is_read_too(tmp_path):
    line = {name: value for name, value in FINE.items() if name != "role"} | {"next_role": "tool"}
    assert written(tmp_path, line).role == "tool"


def test_no_hint_word_is_so_long_that_only_one_wording_names_it():
    for item in gold.items():
        assert all(len(word) <= 24 for word in item.hint_about), item.id
        assert not any(hint_words.is_rewrite(word) for word in item.hint_about)
