"""A verdict is one finite number within its range; whatever else is found there never scores."""

from __future__ import annotations

import pytest

from environments.sandboxes.scores import Unreadable, read_verdict
from environments.sandboxes.trees import File, Tree


@pytest.mark.parametrize(
    ("text", "number"), [(b"1", 1.0), (b" 0.25\n", 0.25), (b"1e-1", 0.1), (b"-0", 0.0), (b".5", 0.5), (b"+1.", 1.0)]
)
def test_a_number_within_the_range_scores(text, number):
    assert read_verdict(Tree({"reward.txt": File(text)}), 0, 1) == number


@pytest.mark.parametrize(
    "text",
    [b"", b"nan", b"NaN", b"inf", b"-inf", b"1e999", b"1.5", b"-0.1", b"1 1", b"1\n0", b"1_0", b"0x1", b"True", b"one",
     "１".encode(), b"1\0", b"\xff", b"0" * 70_000],
)  # fmt: skip
def test_text_that_is_no_number_within_the_range_never_scores(text):
    with pytest.raises(Unreadable):
        read_verdict(Tree({"reward.txt": File(text)}), 0, 1)


@pytest.mark.parametrize(
    "text",
    [b"", b"1", b"[1]", b"{}", b'{"reward": null}', b'{"reward": true}', b'{"reward": "1"}', b'{"reward": NaN}',
     b'{"reward": Infinity}', b'{"reward": 1.01}', b'{"reward": 1e999}', b'{"reward": 0, "reward": 1}',
     b'{"reward": ' + b"9" * 400 + b"}", b"[" * 50_000],
)  # fmt: skip
def test_json_without_one_number_within_the_range_never_scores(text):
    with pytest.raises(Unreadable):
        read_verdict(Tree({"reward.json": File(text)}), 0, 1)


def test_json_may_say_more_than_the_reward():
    assert read_verdict(Tree({"reward.json": File(b'{"reward": -0.5, "passed": 3}')}), -1, 1) == -0.5


def test_two_verdicts_score_where_they_agree():
    text, same, other = File(b"1"), File(b'{"reward": 1.0}'), File(b'{"reward": 0}')
    assert read_verdict(Tree({"reward.txt": text, "reward.json": same}), 0, 1) == 1
    with pytest.raises(Unreadable, match="differ"):
        read_verdict(Tree({"reward.txt": text, "reward.json": other}), 0, 1)


def test_what_is_no_file_is_named():
    with pytest.raises(Unreadable, match=r"reward\.txt is no regular file"):
        read_verdict(Tree({}, left_out=("reward.txt",)), 0, 1)
    with pytest.raises(Unreadable, match="wrote no verdict"):
        read_verdict(Tree({}), 0, 1)
