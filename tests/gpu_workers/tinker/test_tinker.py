"""Two learners, one contract: what a run relies on holds for ours, and for Tinker's on a stand-in that computes.

Nothing here was ever asked of the service. Where the `tinker` package is installed, the stand-in's signatures and its
way with a custom loss are held to the package's own; elsewhere those tests are skipped.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from gpu_workers.errors import (
    NothingLearned,
)
from gpu_workers.tinker.tinker_learner import TinkerLearner
from tests.gpu_workers.tinker.examples import HINTED, PROMPT, RECIPE, RESPONSE, example, learned
from training.objective.closed_questions import Question, Questions
from training.objective.updates import objective


def test_there_is_one_log_prob_a_response_token(learner):
    for response in ([7], RESPONSE, RESPONSE * 5):
        assert len(learner.score(PROMPT, response)) == len(response)


def test_the_first_log_prob_is_the_first_tokens_own(learner, rounding):
    whole = learner.score(PROMPT, RESPONSE)

    assert whole[0] == pytest.approx(learner.score(PROMPT, RESPONSE[:1])[0], abs=rounding.logprob)
    assert whole[1] == pytest.approx(learner.score([*PROMPT, RESPONSE[0]], RESPONSE[1:2])[0], abs=rounding.logprob)
    assert all(math.isfinite(value) and value < 0 for value in whole)


def test_log_probs_are_at_temperature_one(learner):
    # Over all ids that can come next the probabilities of a softmax at T = 1 sum to 1; 64 of them are Tinker's table's,
    # and the tiny model has 512.
    ids = range(64 if isinstance(learner, TinkerLearner) else 512)
    assert sum(math.exp(value) for (value,) in learner.logprobs([(PROMPT, [id]) for id in ids])) == pytest.approx(1.0)


def test_a_fresh_policy_is_the_base(learner, rounding):
    assert learner.score(PROMPT, RESPONSE) == pytest.approx(
        learner.score(PROMPT, RESPONSE, adapter=False), abs=rounding.logprob
    )


def test_the_teacher_scores_the_same_reply_after_the_hinted_prompt(learner, rounding):
    view = learner.score_example(example(learner, hint=HINTED))

    assert view.teacher_logprobs.tolist() == pytest.approx(
        learner.score(HINTED, RESPONSE, adapter=False), abs=rounding.logprob
    )
    assert view.teacher_distance == pytest.approx(
        float((view.teacher_logprobs - view.start_logprobs).abs().mean()), abs=1e-6
    )
    assert view.teacher_distance > 0


def test_a_praised_reply_becomes_more_likely(learner):
    before, after = learned(learner, example(learner, reward=1.0))

    assert sum(after) > sum(before)


def test_a_blamed_reply_becomes_less_likely(learner):
    before, after = learned(learner, example(learner, reward=-1.0))

    assert sum(after) < sum(before)


def test_hinted_tokens_move_toward_the_teacher(learner):
    one = example(learner, hint=HINTED)
    taught = learner.score_example(one).teacher_logprobs.tolist()

    before, after = learned(learner, one, RECIPE.model_copy(update={"w_rl": 0.0, "updates": 1}))

    pulls = [t - b for t, b in zip(taught, before, strict=True)]
    moves = [a - b for a, b in zip(after, before, strict=True)]
    assert sum(pull * move for pull, move in zip(pulls, moves, strict=True)) > 0


def test_masked_tokens_do_not_learn(learner):
    only_last = example(learner, reward=1.0, mask=[0, 0, 0, 0, 1])
    whole = example(learner, reward=1.0)
    first = learner.score_example(only_last)
    learner.forward_backward([first], objective(RECIPE))
    figures = learner.forward_backward([learner.score_example(replace(whole, mask=[0, 0, 0, 0, 0]))], objective(RECIPE))

    assert figures["loss"] == 0.0  # a reply of which nothing counts has no signal


def test_the_loss_is_the_objectives(learner):
    # At the start every ratio is 1 and the anchor 0: the loss is minus the mean advantage. The praised reply says 1,
    # the blamed one -1 with half the weight: -(1 - 0.5) / 2 = -0.25.
    praised = example(learner, reward=1.0)
    blamed = replace(example(learner, [1, 9], [11, 12, 2], reward=-1.0), weight=0.5)

    figures = learner.forward_backward(
        [learner.score_example(praised), learner.score_example(blamed)], objective(RECIPE)
    )

    assert figures["loss"] == pytest.approx(-0.25, abs=1e-5)
    assert figures["ratio_mean"] == pytest.approx(1.0, abs=1e-5)
    assert figures["tokens"] == 8.0
    assert learner.has_gradient()


def test_a_batch_that_says_nothing_is_refused(learner):
    silent = learner.score_example(example(learner))
    learner.forward_backward([silent], objective(RECIPE))

    with pytest.raises(NothingLearned, match="zero everywhere"):
        learner.optim_step(1e-2)
    assert learner.steps == 0


def test_a_loss_that_is_no_number_changes_nothing(learner):
    broken = replace(learner.score_example(example(learner, reward=1.0)), start_logprobs=torch.full((5,), math.nan))

    with pytest.raises(NothingLearned, match="nan"):
        learner.forward_backward([broken], objective(RECIPE))


def test_a_rewrite_is_supervised_by_the_mean_of_its_tokens(learner, rounding):
    pairs = [(PROMPT, RESPONSE), ([1, 9], [11, 12, 2])]
    means = [sum(learner.score(*pair)) / len(pair[1]) for pair in pairs]

    figures = learner.supervise(pairs)
    learner.optim_step(1e-2)

    assert figures["loss"] == pytest.approx(-sum(means) / 2, abs=rounding.logprob)
    assert figures["tokens"] == 8.0
    assert sum(map(sum, learner.logprobs(pairs))) > sum(
        mean * len(pair[1]) for mean, pair in zip(means, pairs, strict=True)
    )


def test_right_answers_are_told_from_wrong_ones(learner):
    asked = Questions([Question(PROMPT, [[11, 12, 2], RESPONSE, [13]])], scale=1.0)
    view = learner.score_example(example(learner))

    pull, before = asked.pull(learner)
    learner.forward_backward([view], objective(RECIPE), answers=[pull])
    learner.optim_step(1e-2)

    assert asked.pull(learner)[1]["closed_loss"] < before["closed_loss"]


def test_a_saved_policy_goes_on_where_it_stopped(make, tmp_path, rounding):
    one = make()
    learned(one, example(one, reward=1.0), RECIPE.model_copy(update={"updates": 1}))
    one.save(tmp_path / "first")

    other = make(tmp_path / "first")

    assert other.steps == 1
    assert other.score(PROMPT, RESPONSE) == pytest.approx(one.score(PROMPT, RESPONSE), abs=rounding.logprob)
    for both in (one, other):  # the optimiser's memory too: the next step is the same
        both.forward_backward([both.score_example(example(both, reward=-1.0))], objective(RECIPE))
        both.optim_step(1e-2)
    assert other.score(PROMPT, RESPONSE) == pytest.approx(one.score(PROMPT, RESPONSE), abs=rounding.logprob)


def test_a_checkpoint_is_never_overwritten(make, tmp_path):
    one = make()
    one.save(tmp_path / "first")

    with pytest.raises(FileExistsError):
        one.save(tmp_path / "first")
