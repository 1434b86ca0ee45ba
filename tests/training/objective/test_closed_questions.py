"""Beside its lesson a run is taught to tell right answers from wrong ones, of closed questions asked nowhere else."""

from __future__ import annotations

import math

import pytest
import torch

from gpu_workers.errors import NothingLearned
from gpu_workers.learner.learner import Learner
from gpu_workers.types import Example
from tests.ready_samples import PROMPT, RESPONSE
from tests.training.gradients import at_step, gradients
from training import batches, config, runs
from training.config import PRESETS, Recipe
from training.next_run import forecast
from training.objective import closed_questions, question_bank
from training.objective.closed_questions import AT_ONCE, TEMPERATURE, Question, Questions
from training.objective.updates import updates

RECIPE = Recipe(w_rl=1e-9, w_opd=0, w_closed=0.5, beta=0.0, lr=1e-2)
ASKED = [
    Question([1, 60, 61], [[90, 91, 92], [93, 94], [95, 91, 92, 96]]),
    Question([1, 62], [[97, 98], [98, 97]]),
]


@pytest.fixture
def known(monkeypatch):
    """So many closed questions that a run of three updates draws some of them alone."""
    all_of_them = [Question([1, 60, n], [[90, 91], [92, 93]]) for n in range(4 * AT_ONCE)]
    monkeypatch.setattr(question_bank, "known", lambda: all_of_them)
    return all_of_them


ORDINARY = Example([1, 70, 71], [72, 73, 2], [-60.0] * 3, kind="rehearsal")  # neither reward nor teacher


def reply() -> Example:
    return Example(PROMPT, RESPONSE, [-1.0] * len(RESPONSE), reward=1.0)


def by_autograd(learner: Learner) -> torch.Tensor:
    """The mean over the questions of −log softmax, over the answers' mean log-probs a token in units of the
    temperature, at the right answer; with its graph."""
    losses = []
    for one in ASKED:
        means = []
        for answer in one.answers:
            logits = learner.model(input_ids=torch.tensor([[*one.prompt, *answer]])).logits[0].log_softmax(-1)
            means.append(torch.stack([logits[len(one.prompt) - 1 + at, id] for at, id in enumerate(answer)]).mean())
        losses.append(-(torch.stack(means) / TEMPERATURE).log_softmax(0)[0])
    return torch.stack(losses).mean()


@pytest.mark.parametrize("micro_batch", [1, 4])
@pytest.mark.parametrize("beside", [[], [ORDINARY]])
def test_the_gradient_is_that_of_telling_right_from_wrong_whatever_is_rehearsed(
    tiny_model, micro_batch, beside, rounding, monkeypatch
):
    monkeypatch.setattr(config, "MAX_GRAD_NORM", 1e9)
    learner = Learner(tiny_model, dtype="float32", micro_batch=micro_batch, seed=3)
    views = [learner.score_example(one) for one in (reply(), *beside)]
    held = at_step(learner)

    (figures,) = updates(learner, views, RECIPE, questions=ASKED)

    by_hand = Learner(tiny_model, dtype="float32", seed=3)
    loss = by_autograd(by_hand)
    (0.5 * loss).backward()
    expected = gradients(by_hand)
    rounding.assert_gradients(held, expected)
    assert figures["closed_loss"] == pytest.approx(loss.item(), abs=rounding.logprob)
    assert figures["loss"] * len(views) == pytest.approx(
        0.5 * loss.item(), abs=rounding.logprob
    )  # `loss` is a mean over the views


def test_right_answers_become_the_likelier_ones(tiny_model):
    learner = Learner(tiny_model, dtype="float32", seed=3)
    wrong = [Question(one.prompt, one.answers[::-1]) for one in ASKED]  # one of the two orders is wrong at first

    for asked in (ASKED, wrong):
        *_, last = updates(
            learner, [learner.score_example(reply())], RECIPE.model_copy(update={"updates": 12}), questions=asked
        )
        assert last["closed_right"] == 1
        assert last["closed_loss"] < math.log(2)


def test_what_it_is_sure_of_pulls_next_to_nothing():
    class Sure:
        def logprobs(self, pairs):
            # Three tokens at −1, and two and four at −1.9: 0.9 nats, three temperatures, behind.
            return [[-1.0] * 3, [-1.9] * 2, [-1.9] * 4]

    pull, told = Questions(ASKED[:1], scale=2.0).pull(Sure())

    # p(right) = 1 / (1 + 2 e⁻³) = 0.909, and −log of it 0.095. What pulls is 1 − p = 0.0906 over 0.3 nats, a third of
    # it at each token, and half as much at each wrong answer.
    assert told["closed_loss"] == pytest.approx(0.0949, abs=1e-3)
    assert told["closed_right"] == 1
    assert pull.weights[0] == pytest.approx([0.0906 / 0.3 / 3] * 3, abs=1e-3)
    assert pull.weights[1] == pytest.approx([-0.0453 / 0.3 / 2] * 2, abs=1e-3)
    assert pull.scale == 2.0 * 3 / 1  # the mean over three pairs becomes that over one question


def test_an_answer_without_a_number_teaches_nothing():
    class Broken:
        def logprobs(self, pairs):
            return [[math.nan]] * len(pairs)

    with pytest.raises(NothingLearned, match="closed question is not a number"):
        Questions(ASKED, scale=1.0).pull(Broken())


@pytest.mark.parametrize(("prompt", "answers"), [([], [[1], [2]]), ([1], [[2]]), ([1], [[2], []])])
def test_a_question_without_a_prompt_or_with_nothing_to_choose_from_is_refused(prompt, answers):
    with pytest.raises(ValueError, match="a right answer and a wrong one"):
        Question(prompt, answers)


def test_a_seed_draws_the_same_none_twice_and_each_update_asks_others(known):
    recipe = RECIPE.model_copy(update={"updates": 3})
    first, again, other = (question_bank.draw(recipe, seed) for seed in (1, 1, 2))

    assert first == again != other
    asked = [closed_questions.of_update(first, update, 1.0).questions for update in (1, 2, 3)]
    assert [len(each) for each in asked] == [AT_ONCE] * 3
    assert len({tuple(one.prompt) for each in asked for one in each}) == 3 * AT_ONCE


def test_who_knows_fewer_than_a_run_asks_asks_these_again(known):
    del known[AT_ONCE + 4 :]
    recipe = RECIPE.model_copy(update={"updates": 3})
    drawn = question_bank.draw(recipe, seed=1)

    second = closed_questions.of_update(drawn, 2, 1.0)  # the four that are left, and twelve from the first again

    assert len(drawn) == AT_ONCE + 4
    assert list(second.questions) == [*drawn[AT_ONCE:], *drawn[:12]]


def test_a_run_says_how_many_it_had_right_and_what_they_cost(known, home, ready):
    ready(reward=1.0)
    recipe = Recipe(batch_size=1, w_closed=0.5, updates=2, max_gap=99)
    without = forecast.of_ready(recipe.model_copy(update={"w_closed": 0.0})).reads
    # Sixteen questions of two answers of 3 + 2 tokens: 160, once to compare and three times there and back, twice.
    assert forecast.of_ready(recipe).reads == without + 160 * 4 * 2
    run = batches.fill(recipe)

    assert runs.train(run) is not None

    run.refresh_from_db()
    assert [0 <= figures["closed_right"] <= 1 and figures["closed_loss"] > 0 for figures in run.metrics] == [True] * 2


def test_only_the_recipe_of_a_small_model_asks_any(known, home, ready):
    assert {name for name, recipe in PRESETS.items() if recipe.w_closed} == {"embedded"}
    ready(reward=1.0)
    run = batches.fill(Recipe(batch_size=1, max_gap=99))

    assert runs.train(run) is not None

    run.refresh_from_db()
    assert "closed_loss" not in run.metrics[0]


def test_questions_alone_teach_nothing(known, home, ready):
    ready(teacher_prompt_ids=None, reward=1.0)
    run = batches.learn_now(Recipe(batch_size=1, w_closed=0.5, max_gap=99))
    run.samples.update(reward=0.0)

    assert runs.train(run) is None

    run.refresh_from_db()
    assert "Every advantage is zero" in run.error


def test_nor_do_they_beside_a_reply_that_has_no_token_to_learn_from(known, home, ready):
    ready(mask=[0] * len(RESPONSE), reward=1.0)
    run = batches.learn_now(Recipe(batch_size=1, w_closed=0.5, max_gap=99))

    assert runs.train(run) is None

    run.refresh_from_db()
    assert "no token to learn from" in run.error
