"""A teacher is shown what people wrote instead of other replies of the batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_workers.types import Example
from tests.training.conftest import HINTED, PROMPT, RESPONSE
from training import batches, demonstrations, forecast, learning, runs
from training.config import Recipe, RecipeInvalid, read
from training.demonstrations import shown
from training.forecast import Lengths

OTHER, REWRITE = [1, 40, 41], [42, 43, 2]


def example(prompt, *, hinted=True):
    return Example(prompt, [7, 2], [-1.0, -1.0], teacher_prompt_ids=[*prompt, 99] if hinted else None)


def test_the_teacher_reads_the_others_rewrites_before_its_prompt_and_never_its_own(ready):
    ready(rewrite_ids=[50, 2])
    ready(prompt_ids=OTHER, rewrite_ids=REWRITE)
    ready(teacher_prompt_ids=None, reward=1.0)

    ready(reward=-1.0)

    mine, other, praised, blamed = batches.collate(batches.ready(Recipe()), demonstrations=4)

    assert mine.teacher_prompt_ids == [*OTHER, *REWRITE, *PROMPT]  # without the hint, which holds its own rewrite
    assert other.teacher_prompt_ids == [*PROMPT, 50, 2, *OTHER]
    assert praised.teacher_prompt_ids is None  # nobody said anything of it that could be taught
    assert sorted(blamed.teacher_prompt_ids) == sorted([*PROMPT, 50, 2, *OTHER, *REWRITE, *HINTED])
    assert blamed.teacher_prompt_ids[-len(HINTED) :] == HINTED
    assert (mine.prompt_ids, mine.response_ids) == (PROMPT, RESPONSE)  # the student reads what was served
    assert mine.rewrite == (PROMPT, [50, 2])


def test_a_rewrite_is_shown_whole_where_only_its_beginning_is_learned(ready):
    ready()
    ready(prompt_ids=OTHER, rewrite_ids=REWRITE)

    mine, other = batches.collate(batches.ready(Recipe()), max_tokens=1, demonstrations=1)

    assert other.rewrite == (OTHER, REWRITE[:1])
    assert mine.teacher_prompt_ids == [*OTHER, *REWRITE, *HINTED]


def test_without_the_knob_or_without_rewrites_the_hint_stands_alone(ready):
    ready()
    ready(prompt_ids=OTHER, rewrite_ids=REWRITE)

    assert batches.collate(batches.ready(Recipe()))[0].teacher_prompt_ids == HINTED
    assert (
        batches.collate(batches.ready(Recipe())[1:], demonstrations=4)[0].teacher_prompt_ids == HINTED
    )  # its own alone


def test_those_with_the_shortest_prompts_are_shown_as_far_as_there_is_room(monkeypatch):
    # the teacher's prompt has 3 tokens, the reply 2: of 12, 7 are left
    monkeypatch.setattr(demonstrations, "MOST_TOKENS", 12)
    written = [None, ([3] * 4, [4] * 2), ([1], [2] * 9), ([5] * 2, [6] * 2), ([7] * 3, [8])]
    examples = [example([8, 9])] + [example([8], hinted=False)] * 4

    def before(count):
        return {tuple(shown(examples, written, count, seed=seed)[0].teacher_prompt_ids[:-3]) for seed in range(20)}

    assert before(1) == {(5, 5, 6, 6)}  # the shortest prompt's rewrite is too long
    assert before(2) == before(3) == {(5, 5, 6, 6)}  # and 3 tokens are left then: none fits


def test_the_seed_draws_in_which_order_they_are_shown():
    written = [None, ([1], [11]), ([2], [12]), ([3, 3, 3], [13])]
    examples = [example([8, 9])] + [example([8], hinted=False)] * 3

    seen = {tuple(shown(examples, written, 2, seed=seed)[0].teacher_prompt_ids) for seed in range(20)}

    assert seen == {(1, 11, 2, 12, 8, 9, 99), (2, 12, 1, 11, 8, 9, 99)}


@given(count=st.integers(0, 5), with_rewrite=st.lists(st.booleans(), min_size=1, max_size=8), seed=st.integers(0, 99))
def test_as_many_are_shown_as_there_are_and_the_same_ones_for_the_same_seed(count, with_rewrite, seed):
    examples = [example([100 + at]) for at in range(len(with_rewrite))]
    written = [([100 + at], [200 + at]) if has else None for at, has in enumerate(with_rewrite)]

    found = shown(examples, written, count, seed=seed)

    assert found == shown(examples, written, count, seed=seed)
    for at, one in enumerate(found):
        others = sum(with_rewrite) - with_rewrite[at]
        before = one.teacher_prompt_ids[:-2]
        assert one.teacher_prompt_ids[-2:] == [100 + at, 99]
        assert len(before) == 2 * min(count, others)
        assert 100 + at not in before
        assert [reply - prompt for prompt, reply in zip(before[::2], before[1::2], strict=True)] == [100] * (
            len(before) // 2
        )


def test_rewrites_that_are_not_one_an_example_are_refused():
    with pytest.raises(ValueError, match="1 rewrites, or places without one, for 2 examples"):
        shown([example([1]), example([2])], [None], 1, seed=0)


def test_a_run_shows_as_many_as_its_recipe_says(ready, home, monkeypatch):
    jobs = []

    def stop(job, *rest, **more):
        jobs.append(job)
        raise learning.NothingLearned("That is enough.")

    monkeypatch.setattr("training.runs.launch.learn", stop)
    ready()
    ready(prompt_ids=OTHER, rewrite_ids=REWRITE)
    recipe = Recipe(batch_size=2, demonstrations=1, w_sft=1)
    runs.train(batches.fill(recipe))

    (job,) = jobs
    assert [one.teacher_prompt_ids for one in job.examples] == [[*OTHER, *REWRITE, *HINTED], HINTED]


def test_a_forecast_counts_what_the_teacher_is_shown():
    samples = [Lengths(10, 5, 12), Lengths(10, 5, 12, 6), Lengths(10, 5, 0, 8)]
    # written: 16 and 18 tokens, 17 in the mean. Two are hinted, and read two such conversations more: 2 * 34 = 68
    plain = forecast.reads(samples, Recipe(w_sft=1), is_fresh=True)

    assert forecast.reads(samples, Recipe(w_sft=1, demonstrations=2), is_fresh=True) - plain == 68
    assert forecast.reads(samples, Recipe(w_sft=1, demonstrations=9), is_fresh=True) - plain == 68  # there are but two


@pytest.mark.parametrize("without", ["w_opd", "w_sft"])
def test_demonstrations_that_teach_nobody_are_refused(without):
    with pytest.raises(RecipeInvalid, match="they need w_opd and w_sft above 0"):
        read({"w_sft": 1.0, "demonstrations": 2, without: 0})
