"""Nothing that a judge is measured on is in what it is trained on."""

from __future__ import annotations

import re
from pathlib import Path

import lab.curriculum.phrasings
from judge.calibration import gold
from lab.curriculum import lessons

FILES = Path(lab.curriculum.phrasings.__file__).parent

TELLING = 4
"""Words from which on a follow-up is one author's own: "thanks" and "ok" belong to all."""


def plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def followups() -> dict[str, str]:
    """The gold follow-ups that are telling, by what they say."""
    said = {plain(text): item.id for item in gold.items() for text in item.next_state}
    return {text: name for text, name in said.items() if len(text.split()) >= TELLING}


def test_no_gold_follow_up_is_a_line_of_the_curriculum():
    lines = {plain(line.partition(": ")[2] if re.match(r"[a-z]{2}: ", line) else line)
             for file in FILES.glob("*.toml") for line in file.read_text(encoding="utf-8").splitlines()}  # fmt: skip
    assert len(lines) > 300
    gold_ones = followups()
    assert len(gold_ones) > 100
    assert not {name for text, name in gold_ones.items() if text in lines}
    # Nor does one contain a whole wording of the curriculum, unless that is a mere word of thanks.
    wordings = [line for line in lines if len(line.split()) > TELLING]
    assert not {(name, line) for text, name in gold_ones.items() for line in wordings if f" {line} " in f" {text} "}


def test_no_lesson_asks_what_gold_asks_or_hears_what_gold_hears():
    heard, asked = set(), set()
    for lesson in lessons.made("train", groups=400, seed=11):
        heard |= {plain(text) for _, text in lesson.evidence.next_state} | {plain(lesson.evidence.output)}
        asked |= {(plain(text), plain(lesson.evidence.reply)) for _, text in lesson.evidence.request[-1:]}
    assert len(heard) > 500
    assert not heard & set(followups())
    assert not asked & {(plain(item.request), plain(item.reply)) for item in gold.items()}
