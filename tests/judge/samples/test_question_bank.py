"""Closed questions that runs learn from: no exam asks one of them, and a guess is no answer."""

from __future__ import annotations

import re

import pytest

from gate import general_pack
from judge.samples import base_answers, exam_questions
from lab.evidence.playing import probes
from tests.environments.test_tasks import plain
from training.config import PRESETS
from training.objective import question_bank

WORD = re.compile(r"[^\W_]+")


def words(text: str) -> frozenset[str]:
    return frozenset(WORD.findall(text.lower()))


def alike(one: str, other: str) -> float:
    """The share of two prompts' words that both have."""
    return len(words(one) & words(other)) / len(words(one) | words(other))


@pytest.fixture(scope="module")
def examined() -> list[str]:
    """What the gate asks, and what the evidence does."""
    return [*(item.prompt for item in general_pack.items()), *(item["prompt"] for item in probes.pack(10**6))]


def test_there_are_many_and_each_has_one_right_answer_and_two_that_differ():
    rows = question_bank.rows()

    assert len({plain(row.prompt) for row in rows}) == len(rows) >= 200
    assert all(len({row.right, *row.wrong}) == 3 for row in rows)


def test_none_is_asked_in_an_exam_or_rehearsed_or_worded_as_one_that_is(examined):
    rows = question_bank.rows()

    assert len(examined) > 300
    assert not {plain(row.prompt) for row in rows} & {plain(prompt) for prompt in [*examined, *base_answers.prompts()]}
    assert not [row.prompt for row in rows if exam_questions.includes(row.prompt)]
    # "What is the opposite of wet?" has five of seven words of "What is the opposite of hot?": 0.71.
    near = [(row.prompt, prompt) for row in rows for prompt in examined if alike(row.prompt, prompt) > 0.5]
    assert near == []


def test_no_right_answer_is_one_of_an_exam():
    said = {plain(row.right) for row in question_bank.rows()}
    asked = {plain(item.right) for item in general_pack.items()} | {plain(item["right"]) for item in probes.pack(10**6)}

    assert said & asked <= {""}  # signs alone, as of code


def test_runs_are_given_them_as_the_model_that_is_served_reads_them(renderer):
    known = question_bank.known()

    assert len(known) == len(question_bank.rows())
    row, first = question_bank.rows()[0], known[0]
    assert row.prompt in renderer.decode(first.prompt)
    assert first.prompt == renderer.prompt_ids([{"role": "user", "content": row.prompt}])
    assert list(first.answers) == [renderer.encode(answer) for answer in (row.right, *row.wrong)]
    drawn = question_bank.draw(PRESETS["embedded"], seed=1)
    assert len(drawn) == question_bank.AT_ONCE * PRESETS["embedded"].updates
    assert set(map(id, drawn)) <= set(map(id, known))


def test_the_right_one_of_what_a_question_names_is_named_first_by_chance():
    firsts = []
    for row in question_bank.rows():
        answers = [words(answer) for answer in (row.right, *row.wrong)]
        said = WORD.findall(row.prompt.lower())
        places = [
            [said.index(word) for word in answer if word in said and sum(word in one for one in answers) == 1]
            for answer in answers
        ]
        if places[0] and any(places[1:]):  # "Is gold a plant or a metal?" names both of its answers
            firsts.append(min(places[0]) < min(place for wrong in places[1:] for place in wrong))
    # Of three that are named a third would be, of two a half.
    assert len(firsts) > 40
    assert 0.3 < sum(firsts) / len(firsts) < 0.6


def test_yes_is_as_good_a_guess_as_no():
    said = [row.right.split()[0].strip(",").lower() for row in question_bank.rows()]

    assert 0.4 <= said.count("yes") / (said.count("yes") + said.count("no")) <= 0.6
