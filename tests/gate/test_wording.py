"""What changed, in plain words: one function, from the gate's findings."""

from __future__ import annotations

import pytest

from gate import agent_pairs, findings, general_pack, personal_part, wording
from gate.wording import Line
from training.config import Gate


def pair(live, candidate, fluency=(-1.4, -1.4)):
    return {
        "live": " ".join(["word"] * live),
        "candidate": " ".join(["word"] * candidate),
        "live_fluency": fluency[0],
        "candidate_fluency": fluency[1],
    }


def check(name, passed=True):
    return {"name": name, "passed": passed, "value": 0.0, "limit": 0.0, "sentence": ""}


def general(live, asked, lost=0, won=0):
    return general_pack.Outcome(live / asked, (live - lost + won) / asked, 0.0, tuple("x" * lost), won, asked)


def test_the_verdict_says_length_knowledge_and_fluency_in_three_sentences():
    # 44 of 85 words are 0.52; 28 of the 29 that live had right; 0.2 nats less fluent is a little.
    pairs = [pair(80, 40, (-1.3, -1.5)), pair(90, 48, (-1.3, -1.5))]
    said = wording.word_verdict([check("length"), check("general pack")], pairs, general(29, 30, lost=1))
    assert said.sentence == (
        "Replies are half as long: 44 words, were 85. 28 of 29 general questions still right. "
        "Reads a little less smoothly."
    )
    assert (said.passed, said.asked, said.is_passed) == (2, 2, True)
    assert [line.tone for line in said.lines] == ["same", "worse", "worse"]


@pytest.mark.parametrize(
    ("live", "candidate", "words"),
    [
        (100, 95, "about as long as before: 95 words, were 100"),
        (100, 25, "a quarter as long: 25 words, were 100"),
        (100, 35, "a third as long: 35 words, were 100"),
        (100, 70, "shorter: 70 words, were 100"),
        (100, 15, "less than a fifth as long: 15 words, were 100"),
        (100, 130, "longer: 130 words, were 100"),
        (100, 200, "twice as long: 200 words, were 100"),
        (100, 420, "4 times as long: 420 words, were 100"),
        (0, 5, "about as long as before: 5 words, were 0"),
    ],
)
def test_a_change_of_length_has_a_name(live, candidate, words):
    assert wording.word_verdict([], [pair(live, candidate)], None).lines[0].text == f"Replies are {words}."


@pytest.mark.parametrize(
    ("found", "words", "tone"),
    [
        (general(29, 29), "All 29 general questions still right.", "good"),
        (general(28, 29, lost=2, won=1), "26 of 28 general questions still right, and 1 more.", "worse"),
        (general(28, 29, won=1), "All 28 general questions still right, and 1 more.", "good"),
    ],
)
def test_of_general_questions_those_count_that_were_right_before(found, words, tone):
    assert wording.word_verdict([], [], found).lines == (Line(words, tone),)


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (-1.05, "Reads as smoothly as before."),
        (-1.4, "Reads a little less smoothly."),
        (-1.5, "Reads less smoothly."),
        (-0.5, "Reads more smoothly."),
    ],
)
def test_fluency_is_said_by_how_far_it_fell(after, words):
    assert wording.word_verdict([], [pair(5, 5, (-1.0, after))], None).lines[1].text == words


def test_what_failed_is_said_in_words_and_marked_bad():
    checks = [check("length", False), check("variety", False), check("lesson shown", False), check("of_old", False)]
    said = wording.word_verdict(checks, [pair(100, 4)], None)
    assert [line.tone for line in said.lines] == ["bad", "bad", "bad", "bad", "good"]  # it reads as before
    assert said.lines[0] == Line("Replies are less than a tenth as long: 4 words, were 100.", "bad")
    assert [line for line in said.lines if line.tone == "bad"][1:] == [
        Line("What it was taught does not show on questions that it never saw.", "bad"),
        Line("Different questions get the same reply.", "bad"),
        Line("Of old: failed.", "bad"),
    ]
    assert (said.passed, said.asked, said.is_passed) == (0, 4, False)
    late = wording.word_verdict([check("variety", False)], [pair(10, 10)], None)
    assert [line.tone for line in late.lines] == ["bad", "same", "good"]  # what failed comes first


def test_a_lesson_that_shows_is_said():
    said = wording.word_verdict([check("lesson shown")], [], None)
    assert said.lines == (Line("What it was taught shows on questions that it never saw.", "good"),)


def test_no_sentence_of_the_verdict_speaks_in_nats():
    checks = [check(name, False) for name in wording.CHECKS]
    said = wording.word_verdict(checks, [pair(80, 40, (-1.3, -1.9))], general(29, 30, lost=9)).sentence
    assert not any(word in said for word in ("nats", "token", "log-prob", "−", "entropy", "KL"))


def test_every_check_of_the_exam_has_its_meaning():
    pairs = [
        {
            "id": str(number), "prompt": "?", "live": "One two.", "candidate": f"Two {number}.", "live_tokens": 3,
            "candidate_tokens": 3, "live_repeated": 0.0, "candidate_repeated": 0.0, "live_fluency": -1.0,
            "candidate_fluency": -1.0, "live_pull": 0.1, "candidate_pull": 0.1,
        }
        for number in range(3)
    ]  # fmt: skip
    items = [general_pack.Row("a", "m", general_pack.Scores(-1, (-2,)), general_pack.Scores(-1, (-2,)))]
    taught = [personal_part.Row(str(number), 1, "hint", 0.1, 0.4 + number / 100, 0.0, True) for number in range(6)]
    limits = Gate()
    found = [
        *findings.collapsed(pairs, limits), *findings.kept_up(items, limits),
        *findings.preferred(pairs, ["Be brief."]), *findings.pleased(taught, limits),
    ]  # fmt: skip
    names = {one.name for one in found} | {"applied", "new", "answered", "rated replies"}
    names |= {"gap", "copied", "entropy", "kl to base"}  # the meter's, where it has a limit
    names |= {agent_pairs.SOLVED, agent_pairs.TRUNCATED, agent_pairs.CALLS}
    assert names == set(wording.CHECKS)
    assert all(one.title and one.asks and one.failed for one in wording.CHECKS.values())


@pytest.mark.parametrize(
    ("checks", "line"),
    [
        ([(True, 0.1)], Line("Agents solve no fewer held-out tasks.", "good")),
        ([(True, 0.1), (False, -0.1)], Line("Agents solve fewer held-out tasks.", "bad")),
        (
            [(True, 0.1), (True, 0.0)],
            Line("Whether agents solve as many tasks is not known: too little was played.", "worse"),
        ),
    ],
)
def test_the_verdict_says_whether_agents_solve_as_many_tasks(checks, line):
    of_worlds = [check("tasks solved", passed) | {"value": value} for passed, value in checks]
    assert wording.word_verdict(of_worlds, [], None).lines == (line,)
