"""What a person wrote in place of a reply is learned by its own weight, beside all else."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpu_workers.learner.learner import Learner
from gpu_workers.types import Example
from tests.ready_samples import HINTED, PROMPT, RESPONSE
from tests.training.gradients import at_step, gradients
from training import batches, collation, config, runs
from training.config import Recipe
from training.next_run import forecast
from training.next_run.forecast import Lengths
from training.objective import edits
from training.objective import updates as objective
from training.objective.updates import described, updates

REWRITE = [11, 12, 13, 2]
RECIPE = Recipe(w_rl=0, w_opd=0, w_sft=2, batch_size=2, lr=1e-2, updates=3)


def rewritten(served: list[float], rewrite: list[int]) -> Example:
    return Example(PROMPT, RESPONSE, served, rewrite=(PROMPT, rewrite), decided=edits.decided(RESPONSE, rewrite))


def test_a_rewrite_goes_with_its_own_prompt_and_is_cut_as_a_reply_is(ready):
    sample = ready(rewards=[0, 0, 0, 1, 1], rewrite_ids=REWRITE, teacher_prompt_ids=None)

    (whole,) = collation.examples([sample])
    (cut,) = collation.examples([sample], max_tokens=2)

    assert whole.rewrite == (PROMPT, REWRITE)
    assert cut.prompt_ids == [*PROMPT, *RESPONSE[:3]]  # the marked words stand at the end
    assert cut.rewrite == (PROMPT, REWRITE)  # and of the rewrite the beginning is learned, twice as much
    (shorter,) = collation.examples([sample], max_tokens=1)
    assert shorter.rewrite == (PROMPT, REWRITE[:2])


def test_what_was_kept_of_a_reply_beyond_where_it_is_cut_is_nothing_new(ready):
    """A person who drops the first sentence of a long reply keeps what stood behind the cut, and did not write it."""
    sample = ready(rewrite_ids=RESPONSE[2:], teacher_prompt_ids=None)

    (cut,) = collation.examples([sample], max_tokens=2)

    assert cut.response_ids == RESPONSE[:2]
    assert cut.rewrite == (PROMPT, RESPONSE[2:5])
    assert cut.decided == [True, False, False]  # the first comes where the reply began; the others follow what they did


@pytest.mark.parametrize("decided", [[True], [True] * 5])
def test_marks_that_disagree_with_their_rewrite_are_refused(decided):
    with pytest.raises(ValueError, match="decided has"):
        Example(PROMPT, RESPONSE, [-1.0] * 5, rewrite=(PROMPT, REWRITE), decided=decided)


def test_a_rewrite_fills_a_batch_where_the_recipe_learns_from_it(ready):
    alone = ready(teacher_prompt_ids=None, rewrite_ids=REWRITE)

    assert list(batches.ready(RECIPE)) == [alone]
    assert not batches.ready(Recipe(w_sft=0)).exists()


@pytest.mark.parametrize("micro_batch", [1, 2, 3])
@pytest.mark.parametrize("weights", ["lora", "full"])
def test_its_gradient_is_the_batchs_mean_of_each_rewrites_mean(tiny_model, micro_batch, weights, rounding, monkeypatch):
    monkeypatch.setattr(config, "MAX_GRAD_NORM", 1e9)
    shape = {"lora": None} if weights == "full" else {}
    learner = Learner(tiny_model, dtype="float32", micro_batch=micro_batch, seed=3, **shape)
    old = learner.score(PROMPT, RESPONSE)
    examples = [
        Example(PROMPT, RESPONSE, old, rewrite=(PROMPT, REWRITE)),
        Example(PROMPT, RESPONSE, old),
        Example(PROMPT, RESPONSE, old, rewrite=([1, 9, 8], [30, 31])),
    ]
    views = [learner.score_example(example) for example in examples]
    held = at_step(learner)
    recipe = RECIPE.model_copy(update={"beta": 0.0, "weights": weights, "updates": 1})

    (figures,) = updates(learner, views, recipe)

    by_hand = Learner(tiny_model, dtype="float32", seed=3, **shape)
    means = []
    for prompt, answer in [(PROMPT, REWRITE), ([1, 9, 8], [30, 31])]:
        logits = by_hand.model(input_ids=torch.tensor([[*prompt, *answer]])).logits[0].log_softmax(-1)
        rows = range(len(prompt) - 1, len(prompt) + len(answer) - 1)
        means.append(-torch.stack([logits[row, id] for row, id in zip(rows, answer, strict=True)]).mean())
    (2 * sum(means) / 3).backward()  # w_sft is 2, and the batch has three replies, two of them rewritten
    expected = gradients(by_hand)
    rounding.assert_gradients(held, expected)
    assert figures["supervised_loss"] == pytest.approx(float(sum(means)) / 2, abs=rounding.logprob)
    assert figures["loss"] == pytest.approx(2 * float(sum(means)) / 3, abs=rounding.logprob)


def test_a_run_on_rewrites_alone_raises_them(ready, home, settings):
    ready(teacher_prompt_ids=None, rewrite_ids=REWRITE), ready(teacher_prompt_ids=None, rewrite_ids=[30, 31, 2])
    run = batches.fill(RECIPE)

    candidate = runs.train(run)

    run.refresh_from_db()
    losses = [figures["supervised_loss"] for figures in run.metrics]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] - 0.01
    assert {figures["replies_rewritten"] for figures in run.metrics} == {2}
    now = Learner(settings.MODEL, adapter_dir=candidate.folder, dtype="float32")
    after, before = now.score(PROMPT, REWRITE), now.score(PROMPT, REWRITE, adapter=False)
    assert sum(after) > sum(before)


def test_without_a_weight_a_rewrite_changes_nothing(tiny_model, served):
    moved = []
    for rewrite in (None, (PROMPT, REWRITE)):
        learner = Learner(tiny_model, dtype="float32", seed=3)
        example = Example(PROMPT, RESPONSE, served, teacher_prompt_ids=HINTED, rewrite=rewrite)
        (figures,) = updates(learner, [learner.score_example(example)], Recipe(distillation="vocabulary", lr=1e-2))
        assert "supervised_loss" not in figures
        moved.append(learner.score(PROMPT, RESPONSE))
    assert moved[0] == moved[1]


def test_it_is_foreseen():
    sample = Lengths(prompt=60, response=40, rewrite=300)

    # 100 read by the base, and there and back the reply's 100 and the rewrite's 60 + 256
    assert forecast.reads([sample], Recipe(w_opd=0, w_sft=1, max_tokens=128), is_fresh=True) == 100 + 3 * (100 + 316)
    assert forecast.reads([sample], Recipe(w_opd=0, max_tokens=128), is_fresh=True) == 100 + 3 * 100


def test_what_a_batch_holds_of_them_is_counted(tiny_model, served):
    learner = Learner(tiny_model, dtype="float32")
    examples = [Example(PROMPT, RESPONSE, served, rewrite=(PROMPT, REWRITE)), Example(PROMPT, RESPONSE, served)]

    assert described([learner.score_example(one) for one in examples], RECIPE)["replies_rewritten"] == 1


@pytest.mark.parametrize("pair", [([], [1]), ([1], [])])
def test_a_rewrite_of_nothing_is_refused(pair):
    with pytest.raises(ValueError, match="a rewrite needs"):
        Example(PROMPT, RESPONSE, [-1.0] * 5, rewrite=pair)


@pytest.mark.parametrize("micro_batch", [1, 2])
def test_what_people_let_stand_of_a_reply_counts_less_than_what_they_changed(
    tiny_model, micro_batch, rounding, monkeypatch
):
    monkeypatch.setattr(objective, "W_KEPT", 0.7)
    learner = Learner(tiny_model, dtype="float32", micro_batch=micro_batch, seed=3)
    shortened = [*RESPONSE[:3], RESPONSE[-1]]  # one token was taken out: only the last stands where it did not
    begun = [7, *RESPONSE]  # one was put in before all: it and the one after it are new there
    old = learner.score(PROMPT, RESPONSE)
    views = [learner.score_example(rewritten(old, rewrite)) for rewrite in (shortened, begun)]
    recipe = RECIPE.model_copy(update={"updates": 1})

    (figures,) = updates(learner, views, recipe)

    # Three tokens were decided on, and 3 + 4 let stand: each of these counts 0.7 · 3 / 7.
    by_hand = Learner(tiny_model, dtype="float32", seed=3)
    first, second = by_hand.score(PROMPT, shortened), by_hand.score(PROMPT, begun)
    expected = [
        (0.3 * sum(first[:3]) + first[3]) / (3 * 0.3 + 1),
        (sum(second[:2]) + 0.3 * sum(second[2:])) / (2 + 4 * 0.3),
    ]
    assert figures["supervised_loss"] == pytest.approx(-sum(expected) / 2, abs=rounding.logprob)


def test_a_rewrite_that_changed_nothing_is_learned_whole(tiny_model, rounding, monkeypatch):
    monkeypatch.setattr(objective, "W_KEPT", 0.0)
    learner = Learner(tiny_model, dtype="float32", seed=3)
    old = learner.score(PROMPT, RESPONSE)
    view = learner.score_example(rewritten(old, RESPONSE))

    (figures,) = updates(learner, [view], RECIPE.model_copy(update={"updates": 1}))

    assert figures["supervised_loss"] == pytest.approx(-sum(old) / len(old), abs=rounding.logprob)


@given(st.lists(st.integers(0, 4), max_size=12), st.lists(st.integers(0, 4), max_size=12))
def test_what_was_changed_is_a_mark_a_token_and_none_where_nothing_was(reply, rewrite):
    marks = edits.changed(reply, rewrite)

    assert len(marks) == len(rewrite)
    assert not any(edits.changed(rewrite, rewrite))
    for at, new in enumerate(marks):  # what is not new follows the same token as in the reply, or begins both
        pairs = list(zip([None, *reply], reply, strict=False))
        assert new or (rewrite[at - 1] if at else None, rewrite[at]) in pairs


@given(st.lists(st.integers(0, 4), max_size=12), st.lists(st.integers(0, 4), min_size=2, max_size=12))
def test_where_a_person_ended_what_they_let_go_on_there_elsewhere_is_their_decision_too(reply, rewrite):
    """So of all that follows that token, the end weighs as its share of the times is."""
    new, marks = edits.changed(reply, rewrite), edits.decided(reply, rewrite)

    behind = [at for at in range(1, len(rewrite)) if rewrite[at - 1] == rewrite[-2]]
    assert all(marks[at] for at in behind) or not new[-1]
    assert all(marks[at] == new[at] for at in range(len(rewrite)) if at not in behind or not new[-1])


def test_a_rewrite_that_changed_nothing_says_nothing_of_what_the_others_weigh(tiny_model, rounding, monkeypatch):
    monkeypatch.setattr(objective, "W_KEPT", 0.6)
    learner = Learner(tiny_model, dtype="float32", seed=3)
    old = learner.score(PROMPT, RESPONSE)
    rewrite = [*RESPONSE[:3], RESPONSE[-1]]  # one decided on, three let stand: each counts 0.6 / 3
    views = [learner.score_example(rewritten(old, one)) for one in (rewrite, RESPONSE)]

    (figures,) = updates(learner, views, RECIPE.model_copy(update={"updates": 1}))

    *kept, last = Learner(tiny_model, dtype="float32", seed=3).score(PROMPT, rewrite)
    expected = [(0.2 * sum(kept) + last) / 1.6, sum(old) / len(old)]
    assert figures["supervised_loss"] == pytest.approx(-sum(expected) / 2, abs=rounding.logprob)


def test_a_lone_change_in_a_long_reply_is_not_learned_as_if_nothing_stood_around_it(tiny_model, rounding, monkeypatch):
    """One token of 101 was changed: at W_KEPT 1 each other one would count a hundredth of it, and counts a tenth."""
    monkeypatch.setattr(objective, "W_KEPT", 1.0)
    learner = Learner(tiny_model, dtype="float32", seed=3)
    reply = [*RESPONSE[:4], *[7, 8] * 48, RESPONSE[-1]]
    rewrite = [*reply[:-1], 9]
    old = learner.score(PROMPT, reply)
    marks = [False] * 100 + [True]
    view = learner.score_example(Example(PROMPT, reply, old, rewrite=(PROMPT, rewrite), decided=marks))

    (figures,) = updates(learner, [view], RECIPE.model_copy(update={"updates": 1}))

    *kept, last = Learner(tiny_model, dtype="float32", seed=3).score(PROMPT, rewrite)
    assert figures["supervised_loss"] == pytest.approx(
        -(0.1 * sum(kept) + last) / (100 * 0.1 + 1), abs=rounding.logprob
    )


@pytest.mark.parametrize(("w_kept", "kept"), [(0.5, 1 / 6), (0.0, 0.0)])
def test_what_is_behind_as_much_as_is_learned_of_a_reply_comes_on_top(tiny_model, w_kept, kept, rounding, monkeypatch):
    """A long rewrite is learned to its end, and its beginning counts no less for it."""
    monkeypatch.setattr(objective, "W_KEPT", w_kept)
    learner = Learner(tiny_model, dtype="float32", seed=3)
    old = learner.score(PROMPT, RESPONSE[:2])
    rewrite, marks = [7, 8, 9, 10], [False, True, False, False]
    view = learner.score_example(Example(PROMPT, RESPONSE[:2], old, rewrite=(PROMPT, rewrite), decided=marks))

    (figures,) = updates(learner, [view], RECIPE.model_copy(update={"updates": 1, "max_tokens": 2}))

    # One was decided on and three let stand, each counting w_kept / 3 of it: with 0.5 that is 1/6, and the first two
    # count 1/6 + 1 together, by which all four are divided.
    first, second, *behind = Learner(tiny_model, dtype="float32", seed=3).score(PROMPT, rewrite)
    assert figures["supervised_loss"] == pytest.approx(
        -(kept * first + second + kept * sum(behind)) / (kept + 1), abs=rounding.logprob
    )


def test_an_end_that_was_written_anew_weighs_no_more_than_the_beginning(tiny_model, rounding, monkeypatch):
    """A person who appends to a long reply lets its beginning stand, and is not heard many times for it."""
    monkeypatch.setattr(objective, "W_KEPT", 0.4)
    learner = Learner(tiny_model, dtype="float32", seed=3)
    old = learner.score(PROMPT, RESPONSE[:2])
    rewrite, marks = [7, 8, 9, 10], [False, False, True, True]
    view = learner.score_example(Example(PROMPT, RESPONSE[:2], old, rewrite=(PROMPT, rewrite), decided=marks))

    (figures,) = updates(learner, [view], RECIPE.model_copy(update={"updates": 1, "max_tokens": 2}))

    # Two were let stand, each at 0.4 of one that was written: the first two count 0.8 and the others 2, more than that.
    first, second, *behind = Learner(tiny_model, dtype="float32", seed=3).score(PROMPT, rewrite)
    assert figures["supervised_loss"] == pytest.approx(
        -(0.5 * (first + second) + 0.5 * sum(behind)), abs=rounding.logprob
    )


@pytest.mark.parametrize("weights", [[[1.0]], [[1.0] * 5], [[1.0, 1.0, 1.0, float("nan")]]])
def test_weights_that_disagree_with_their_answer_are_refused(tiny_model, weights):
    learner = Learner(tiny_model, dtype="float32")
    with pytest.raises(ValueError, match="weight"):
        learner.supervise([(PROMPT, REWRITE)], weights=weights)
