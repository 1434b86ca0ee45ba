"""Answers are compared exactly: as text, as numbers, as mathematics, and as DAPO has it."""

from __future__ import annotations

from time import monotonic

import pytest

from environments.errors import Unplayable
from environments.worlds import answers
from environments.worlds.answers import is_right

pytest.importorskip("math_verify", reason="math-verify is not installed: make test-tools brings it")

NESTED = "(" * 400
TOWER = "9^{9^{9^{9^{9}}}}"


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        ("34", "34"),
        ("34", " 34.0 "),
        ("1,024", "1024"),
        ("0.5", "1/2"),
        ("0.5", r"\frac{1}{2}"),
        (r"\frac{1}{2}", r"$\dfrac12$"),
        (r"\sqrt{8}", r"2\sqrt{2}"),
        ("x+1", "1+x"),
        ("yes", "yes"),
        ("[[1, 2], [3, 4]]", "[[1,2],[3,4]]"),
    ],
)
def test_equal_answers_are_right(gold, said):
    assert is_right(gold, said)


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        ("34", "35"),
        ("34", ""),
        ("0.5", "1/0"),
        (r"\sqrt{8}", "3"),
        ("yes", "yes yes"),
        ("34", "٣٤"),
        ("34", "the answer is 34 or 35"),
    ],
)
def test_other_answers_are_wrong(gold, said):
    assert not is_right(gold, said)


@pytest.mark.parametrize("check", ["math", "strings"])
@pytest.mark.parametrize(
    "said",
    [
        *("", "\0", "\\", "$", "$$$", "{}{", "\\boxed{", "\\frac{1}", NESTED, "1/" * 300, "\ud800", "x" * 100_000),
        *("9" * 900, "1e999999999", "-" * 500, "__import__('os').system('touch /tmp/hacked')", "lambda: 0"),
        *("\\text{" * 150, "=" * 900, "\\sum_{n=1}^{\\infty}" * 20),
    ],
)
def test_hostile_text_is_wrong_and_raises_nothing(said, check):
    assert not is_right("34", said, check)


def test_what_keeps_a_parser_busy_ends_with_its_time(monkeypatch):
    monkeypatch.setattr(answers, "CHECK_S", 5.0)
    began = monotonic()
    assert not is_right("x", TOWER)
    assert monotonic() - began < 5 + 10


def test_a_child_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(answers, "CHECK_S", 0.5)
    monkeypatch.setattr(answers, "CHILD", "while True: pass")
    assert not is_right("x", "y")


def test_no_answer_is_run(tmp_path):
    there = tmp_path / "hacked"
    for said in (
        f"__import__('pathlib').Path('{there}').touch()",
        f"open('{there}','w')",
        f"$exec(\"open('{there}','w')\")$",
    ):
        assert not is_right("x", said)
    assert not there.exists()


def test_a_comparison_sees_no_key(monkeypatch):
    monkeypatch.setenv("TALKBACK_KEY", "sk-secret-4711")
    monkeypatch.setattr(answers, "CHILD", "import os; print('right' if 'TALKBACK_KEY' in os.environ else 'wrong')")
    assert not is_right("x", "y")


@pytest.mark.parametrize(
    ("gold", "said", "is_equal"),
    [
        ("34", r"x = \boxed{34}", True),
        (r"\frac{1}{2}", r"\frac12", True),
        ("1024", "1,024 dollars", True),
        ("34", "34.0", False),  # the same number, and another text
        ("0.5", "1/2", False),
    ],
)
def test_strings_are_compared_as_dapo_has_it(gold, said, is_equal):
    assert is_right(gold, said, "strings") is is_equal


def test_what_is_not_installed_is_said_in_a_sentence(monkeypatch):
    monkeypatch.setattr(answers.importlib.util, "find_spec", lambda name: None)
    answers.require("strings")
    with pytest.raises(Unplayable, match="python3 -m installation install worlds"):
        answers.require("math")
