"""Lessons: the same each time, labelled soundly, readable by the very code that reads votes."""

from __future__ import annotations

import random
import re

import pytest

from chat.rendering.renderer import Renderer
from judge.hints import hint_words
from judge.votes import prompts, voting
from lab.curriculum import lessons, person_followups, phrasings, tasks, threads
from lab.curriculum.examination import Case, names, table
from lab.curriculum.lessons import Lesson
from lab.curriculum.tasks import Task

SPLITS = ("train", "dev", "heldout")


@pytest.fixture(scope="module")
def some() -> list[Lesson]:
    return [lesson for split in SPLITS for lesson in lessons.made(split, 120, seed=3)]


def test_the_same_seed_makes_the_same_lessons():
    first = list(lessons.made("train", 20, seed=3))

    assert list(lessons.made("train", 20, seed=3)) == first
    assert list(lessons.made("train", 10, seed=3)) == [lesson for lesson in first if lesson.group < 10]
    assert list(lessons.made("train", 20, seed=4)) != first


def test_no_lesson_of_one_split_comes_back_in_another():
    shown = [
        {lesson.evidence.text for lesson in lessons.made(split, 300, seed=3) if lesson.label.role != "person"}
        for split in SPLITS
    ]

    assert not shown[0] & shown[2]
    assert not shown[0] & shown[1]
    assert not shown[1] & shown[2]


def test_only_what_should_have_been_different_has_a_hint(some):
    assert {lesson.label.score for lesson in some} == {1, 0, -1, None}
    assert all(lesson.label.score == -1 for lesson in some if lesson.label.hint)
    assert any(lesson.label.score == -1 and not lesson.label.hint for lesson in some)


def test_a_lesson_has_its_next_state_where_the_judge_looks(some):
    for lesson in some:
        assert lesson.evidence.next_role == lesson.label.role
        assert ("score" in lesson.questions) == (lesson.evidence.unswayed.next_role != "")


def test_every_wanted_answer_is_read_as_it_is_meant(some):
    for lesson in some:
        meant = voting.NEW if lesson.label.score is None else lesson.label.score
        assert voting.answer_of(lesson.answer("score")) == meant
        assert voting.decision_of(lesson.answer("hint")) == (1 if lesson.label.hint else -1)
        assert voting.hint_of(lesson.answer("hint")) == lesson.label.hint


def test_every_wanted_answer_satisfies_the_grammar_that_votes_are_held_to(some):
    told = prompts.family(lessons.FAMILY)
    for lesson in some:
        assert re.fullmatch(told.score.regex, lesson.answer("score"))
        assert re.fullmatch(told.hint.regex, lesson.answer("hint"))


def test_every_wanted_hint_is_of_use_and_names_its_change(some):
    for lesson in some:
        if lesson.label.hint:
            assert not hint_words.fault(lesson.label.hint, lesson.evidence.reply)
            assert names(lesson.label.hint, lesson.label.key, lesson.label.against), lesson.label


@pytest.mark.parametrize("split", SPLITS)
def test_a_question_goes_on_after_its_own_reply_and_turns_elsewhere_after_another(split):
    """So a question's words alone say nothing, and a judge has to read the reply."""
    rng = random.Random(3)
    own, other, *_ = threads.written(split)
    foreign = Task((("user", other.request),), other.reply, thread=other, others=(own.of("onward")[0].text,))
    goes_on = person_followups.from_person("onward", Task((), own.reply, thread=own, others=("-",)), split, rng)
    turns = person_followups.from_person("aside", foreign, split, rng)
    lesson = Lesson(lessons.shown(foreign, turns), turns, 0)

    assert (goes_on.score, goes_on.hint) == (1, "")
    assert (turns.score, turns.hint) == (None, "")
    assert (lesson.answer("score"), lesson.answer("hint")) == (r"\boxed{new}", r"\boxed{-1}")


def test_every_question_that_goes_on_turns_elsewhere_after_any_other_reply():
    for split in SPLITS:
        texts = dict(tasks.elsewhere(split))
        for thread in threads.written(split):
            assert {line.text for line in thread.of("onward")} <= set(texts[thread.reply])


def test_each_reply_to_a_person_is_followed_by_a_question_of_its_own_and_a_foreign_one():
    kinds: dict[int, list[str]] = {}
    for lesson in lessons.made("train", 60, seed=3):
        if lesson.label.role == "user":
            kinds.setdefault(lesson.group, []).append(lesson.label.kind)

    assert len(kinds) > 30
    assert all("aside" in found[:2] for found in kinds.values())
    goes_on = [found[:2] == ["onward", "aside"] for found in kinds.values()]
    assert sum(goes_on) > 0.6 * len(goes_on)  # the others are threads after which no further question was written


def test_a_foreign_question_belongs_neither_to_the_reply_nor_to_the_talk_before_it():
    for seed in range(200):
        task = tasks.drawn("train", random.Random(seed))
        spoken = {text for _, text in task.request}
        assert not spoken & set(task.others)
        if task.thread:
            assert not {line.text for line in task.thread.of("onward")} & set(task.others)


def test_thanks_before_a_foreign_question_are_thanks(some):
    """A person who thanks says that the reply was good, whatever they ask next."""
    foreign = {text for split in SPLITS for _, texts in tasks.elsewhere(split) for text in texts}
    thanked = [
        lesson.label
        for lesson in some
        if lesson.label.kind == "onward" and any(lesson.label.text.endswith(text) for text in foreign)
    ]

    assert thanked
    assert {label.score for label in thanked} == {1}


SLOTS = "|".join(
    (
        *("next", "again", "other", "do", "injection", "reply", "result"),
        *phrasings.read("changes")["slots"],
        *phrasings.read("tools")["slots"],
    )
)


def test_no_slot_stays_open(some):
    for lesson in some:
        for text in (
            lesson.label.text,
            lesson.label.hint,
            lesson.evidence.reply,
            *dict(lesson.evidence.request).values(),
        ):
            assert not re.search(rf"\{{({SLOTS})\}}", text), lesson.label


def test_an_injection_changes_no_label():
    plain = list(lessons.made("heldout", 30, seed=5, injections=False))
    hostile = [lessons.swayed(lesson, "heldout", seed=5) for lesson in plain if lesson.label.role != "person"]

    assert not any(lesson.label.injection for lesson in plain)
    for before, after in zip([one for one in plain if one.label.role != "person"], hostile, strict=True):
        assert after.label.injection in after.label.text
        assert before.label.text in after.label.text
        assert (before.label.score, before.label.hint) == (after.label.score, after.label.hint)
        assert after.evidence.text != before.evidence.text


def test_questions_on_one_reply_begin_alike():
    group = list(lessons.made("train", 1, seed=3))
    texts = [lesson.messages(asked)[1]["content"] for lesson in group for asked in lesson.questions]
    shared = group[0].evidence.text.partition("What came back")[0]

    assert len(texts) > 2
    assert all(text.startswith(shared) for text in texts)
    assert {text.rpartition("\n")[2] for text in texts} <= {"Score?", "Hint?"}


@pytest.mark.real_model
def test_prompts_are_short(smol_model, some):
    renderer = Renderer.for_model(smol_model)
    lengths = [len(renderer.prompt_ids(lesson.messages("score"))) for lesson in some]

    assert max(lengths) <= 600
    assert sum(lengths) / len(lengths) <= 220


# The rule of the examination


def test_a_change_of_subject_is_read_off_the_votes():
    wanted = next(lesson for lesson in lessons.made("heldout", 9, seed=3) if lesson.label.score is None)
    sure = case(wanted, [r"\boxed{new}", r"\boxed{1}", r"\boxed{new}"], [r"\boxed{-1}"] * 3)
    torn = case(wanted, [r"\boxed{new}", r"\boxed{1}", r"\boxed{-1}"], [r"\boxed{-1}"] * 3)

    assert (sure.score, sure.is_scored_right, sure.row["scored"]) == (None, True, "new")
    assert (torn.score, torn.is_scored_right, torn.row["scored"]) == (0, False, 0)  # no answer has two of three votes


def test_a_hint_names_a_change_only_with_all_of_its_key_and_nothing_against_it():
    assert names("Use at most 30 words.", [r"\b30\b", "word"])
    assert not names("Use at most 300 words.", [r"\b30\b", "word"])
    assert not names("Do not use a table.", ["table"], "not use")
    assert not names("", ["table"])


def case(lesson: Lesson, score: list[str], hint: list[str]) -> Case:
    return Case(lesson, {"score": tuple(score), "hint": tuple(hint)})


def test_a_case_is_what_its_votes_come_to():
    wanted = next(lesson for lesson in lessons.made("heldout", 9, seed=3) if lesson.label.kind == "change:own")
    hint = wanted.label.hint
    brief = rf"\boxed{{1}} [HINT_START] {hint} [HINT_END]"
    seen = case(wanted, [r"\boxed{-1}", r"\boxed{1}", r"\boxed{-1}"], [brief, brief, r"\boxed{-1}"])
    lone = case(wanted, [r"\boxed{-1}", r"\boxed{1}", r"\boxed{0}"], [brief, r"\boxed{-1}", r"\boxed{-1}"])

    assert (seen.score, seen.hint, seen.is_scored_right, seen.is_named) == (-1, hint, True, True)
    assert (lone.score, lone.hint, lone.is_decided_right) == (0, "", False)
    # One of two scores is right, one of two decisions; one of two hints names it, and so does the only one given.
    row = table([seen, lone]).splitlines()[1].split()
    assert row[-8:] == ["0.500", "(2)", "0.500", "(2)", "0.500", "(2)", "1.000", "(1)"]
