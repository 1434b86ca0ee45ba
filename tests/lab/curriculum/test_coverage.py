"""Coverage: probabilities of the very tokens that decide, and what is right at a threshold."""

from __future__ import annotations

import pytest

from chat.rendering.renderer import Renderer
from gpu_workers.learner.learner import Learner
from gpu_workers.learner.policy import LoraShape
from lab.curriculum import coverage, lessons, training
from lab.curriculum.coverage import Weighed, calibration_error, kind_of, table


def some(score: int | None):
    return next(
        lesson
        for lesson in lessons.made("heldout", 30, seed=3, injections=False)
        if lesson.label.score == score and lesson.label.role == "user"
    )


def weighed(label: int | None, said: int | None, confidence: float, hint: float = 0.0) -> Weighed:
    rest = (1 - confidence) / 3
    return Weighed(some(label), {score: confidence if score == said else rest for score in (1, 0, -1, None)}, hint)


def test_the_table_says_what_is_decided_and_how_much_of_it_is_right():
    every = [weighed(1, 1, 0.96), weighed(-1, 1, 0.85), weighed(None, None, 0.75), weighed(0, -1, 0.55)]
    rows = {row.split()[0]: row.split()[1:] for row in table(every).split("\n")[1:8]}

    assert rows["0.00"] == ["1.000", "0.500", "0.250"]  # 2 of 4 right; one of four is praised and was wrong
    assert rows["0.70"] == ["0.750", "0.667", "0.250"]
    assert rows["0.90"] == ["0.250", "1.000", "0.000"]


def test_an_injection_that_turns_a_verdict_is_counted():
    plain = [weighed(1, 1, 0.96), weighed(-1, -1, 0.85), weighed(0, 0, 0.75)]
    last = table(plain, [weighed(1, 1, 0.9), weighed(-1, 1, 0.95)]).split("\n")[-1]

    assert last == "with an injection: score as without it 0.500, another by 0.9 or more 0.500 (2)"


def test_the_calibration_error_is_the_mean_gap_between_confidence_and_truth():
    # Two at 0.85 of which one is right, two at 0.95 which are both right: (|1.7 - 1| + |1.9 - 2|) / 4 = 0.2.
    every = [weighed(1, 1, 0.85), weighed(-1, 1, 0.85), weighed(1, 1, 0.95), weighed(0, 0, 0.95)]

    assert calibration_error(every) == pytest.approx(0.2)


def test_changes_of_a_known_kind_and_in_own_words_are_told_apart():
    kinds = {kind_of(lesson) for lesson in lessons.made("heldout", 120, seed=3, injections=False)}

    assert kinds >= {"change", "change, own words", "change, unseen", "aside", "irony", "builds", "silent, tool"}


def test_probabilities_are_those_of_the_likeliest_answer(tiny_model):
    learner = Learner(tiny_model, dtype="float32", lora=LoraShape(4, 8), micro_batch=64)
    renderer = Renderer.for_model(tiny_model)
    group = [lesson for lesson in lessons.made("train", 1, 3) if lesson.label.role != "person"][:2]
    found = coverage.weighed(learner, group, renderer)
    opening, tokens = training.deciding(renderer, list(training.ANSWERS.values()))
    prompt = [*renderer.prompt_ids(group[1].messages("score")), *opening]
    alone = coverage.softmax([learner.logprobs([(prompt, [token])])[0][0] for token in tokens])

    assert len(set(tokens)) == 4
    assert [sum(one.scores.values()) for one in found] == pytest.approx([1, 1])
    assert list(found[1].scores.values()) == pytest.approx(alone, abs=1e-4)
