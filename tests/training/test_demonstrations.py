"""A teacher is shown what the same person wrote instead of other replies of the batch."""

from __future__ import annotations

import doctest
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.models import Checkpoint
from gpu_workers.types import Example
from tests.ready_samples import HINTED, PROMPT, RESPONSE
from tests.rows import made_by
from training import batches, collation, demonstrations, learning, runs
from training.config import Recipe
from training.demonstrations import Said, shown
from training.models import Run, Sample
from training.next_run import forecast
from training.next_run.forecast import Lengths

OTHER, REWRITE = [1, 40, 41], [42, 43, 2]
RECIPE = Recipe(batch_size=3, w_sft=1, demonstrations=4)


@pytest.fixture
def hers(ready):
    """A READY sample of one person, in a conversation of its own unless told otherwise."""
    return lambda **fields: ready(**{"person": "7", "conversation": uuid.uuid4()} | fields)


def taught(recipe=RECIPE):
    return collation.examples(batches.ready(recipe), demonstrations=recipe.demonstrations)


def test_the_docstrings_hold():
    assert doctest.testmod(demonstrations).failed == 0


def test_the_teacher_reads_the_persons_other_rewrites_before_its_prompt(hers):
    hers(rewrite_ids=[50, 2])
    hers(prompt_ids=OTHER, rewrite_ids=REWRITE)
    hers(teacher_prompt_ids=None, reward=1.0)
    hers(reward=-1.0)

    mine, other, praised, blamed = taught()

    assert mine.teacher_prompt_ids == [*OTHER, *REWRITE, *PROMPT]  # without the hint, which holds its own rewrite
    assert other.teacher_prompt_ids == [*PROMPT, 50, 2, *OTHER]
    assert praised.teacher_prompt_ids is None  # no person said anything of it that could be taught
    assert sorted(blamed.teacher_prompt_ids) == sorted([*PROMPT, 50, 2, *OTHER, *REWRITE, *HINTED])
    assert blamed.teacher_prompt_ids[-len(HINTED) :] == HINTED
    assert [one.demonstrations for one in (mine, other, praised, blamed)] == [1, 1, 0, 2]
    assert (mine.prompt_ids, mine.response_ids) == (PROMPT, RESPONSE)  # the student reads what was served
    assert mine.rewrite == (PROMPT, [50, 2])


def test_no_person_is_taught_by_what_another_wrote_or_by_what_has_no_known_writer(hers):
    hers()
    hers(person="8", prompt_ids=OTHER, rewrite_ids=REWRITE)
    hers(person="", prompt_ids=OTHER, rewrite_ids=REWRITE)
    hers(person="")

    assert [one.demonstrations for one in taught()] == [0] * 4
    assert taught()[0].teacher_prompt_ids == HINTED


def test_the_answer_that_was_wanted_in_the_same_conversation_is_not_shown(hers):
    same = uuid.uuid4()
    hers(conversation=same, rewrite_ids=[50, 2])
    later = [*PROMPT, *RESPONSE, 60]
    hers(conversation=same, prompt_ids=later, teacher_prompt_ids=[*later, 61], rewrite_ids=[62, 2])

    first, second = taught()

    assert (first.teacher_prompt_ids, second.teacher_prompt_ids) == (HINTED, [*later, 61])


def test_a_rewrite_is_shown_whole_where_only_its_beginning_is_learned(hers):
    hers()
    hers(prompt_ids=OTHER, rewrite_ids=REWRITE)

    mine, other = collation.examples(batches.ready(RECIPE), max_tokens=1, demonstrations=1)

    assert other.rewrite == (OTHER, REWRITE[:2])
    assert mine.teacher_prompt_ids == [*OTHER, *REWRITE, *HINTED]


def test_without_the_knob_or_without_other_rewrites_the_hint_stands_alone(hers):
    hers()
    hers(prompt_ids=OTHER, rewrite_ids=REWRITE)

    assert collation.examples(batches.ready(RECIPE))[0].teacher_prompt_ids == HINTED
    assert collation.examples(batches.ready(RECIPE)[1:], demonstrations=4)[0].teacher_prompt_ids == HINTED


def example(prompt, *, hinted=True, rewrite=None):
    hint = [*prompt, 99] if hinted else None
    return Example(prompt, [7, 2], [-1.0, -1.0], teacher_prompt_ids=hint, rewrite=rewrite)


def said(at, prompt=(8,), rewrite=None):
    return Said("7", uuid.UUID(int=at), prompt, rewrite)


def test_those_with_the_shortest_prompts_are_shown_as_far_as_there_is_room(monkeypatch):
    # the teacher's prompt has 3 tokens, the reply 2: of 12, 7 are left
    monkeypatch.setattr(demonstrations, "MOST_TOKENS", 12)
    written = [([3] * 4, [4] * 2), ([1], [2] * 9), ([5] * 2, [6] * 2), ([7] * 3, [8])]
    places = [said(0), *(said(at, *one) for at, one in enumerate(written, 1))]
    examples = [example([8, 9])] + [example([8], hinted=False)] * 4

    def before(count):
        return {tuple(shown(examples, places, count, seed=seed)[0].teacher_prompt_ids[:-3]) for seed in range(20)}

    assert before(1) == {(5, 5, 6, 6)}  # the rewrite of the shortest prompt is too long
    assert before(2) == before(3) == {(5, 5, 6, 6)}  # and 3 tokens are left then: none fits


def test_the_seed_draws_in_which_order_they_are_shown():
    places = [said(0), said(1, [1], [11]), said(2, [2], [12]), said(3, [3, 3, 3], [13])]
    examples = [example([8, 9])] + [example([8], hinted=False)] * 3

    seen = {tuple(shown(examples, places, 2, seed=seed)[0].teacher_prompt_ids) for seed in range(20)}

    assert seen == {(1, 11, 2, 12, 8, 9, 99), (2, 12, 1, 11, 8, 9, 99)}


def test_a_hint_of_votes_alone_gives_way_to_what_the_person_wrote_and_no_other_does():
    examples = [example([8, 9]), example([8], hinted=False)]
    theirs = said(1, [1], [11])

    for is_voted, asked in ((True, [8, 9]), (False, [8, 9, 99])):
        found = shown(examples, [said(0)._replace(is_voted=is_voted), theirs], 4, seed=0)
        assert found[0].teacher_prompt_ids == [1, 11, *asked]
    (alone,) = shown(examples[:1], [said(0)._replace(is_voted=True)], 4, seed=0)
    assert alone.teacher_prompt_ids == [8, 9, 99]  # no person wrote anything: then it is all there is


def test_a_run_knows_which_hints_are_of_votes_alone(hers):
    hers(voted_hint=True)
    hers(prompt_ids=OTHER, rewrite_ids=REWRITE)

    assert taught()[0].teacher_prompt_ids == [*OTHER, *REWRITE, *PROMPT]


@given(
    count=st.integers(0, 5),
    rows=st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.integers(0, 3)), min_size=1, max_size=8),
    seed=st.integers(0, 99),
)
def test_as_many_are_shown_as_there_are_and_the_same_ones_for_the_same_seed(count, rows, seed):
    examples = [
        example([100 + at], rewrite=([100 + at], [200 + at]) if has else None) for at, (has, *_) in enumerate(rows)
    ]
    places = [
        Said(person, uuid.UUID(int=conversation), [100 + at], [200 + at] if has else None)
        for at, (has, person, conversation) in enumerate(rows)
    ]

    found = shown(examples, places, count, seed=seed)

    assert found == shown(examples, places, count, seed=seed)
    for at, (one, (has, person, conversation)) in enumerate(zip(found, rows, strict=True)):
        others = {
            100 + place
            for place, (wrote, who, where) in enumerate(rows)
            if wrote and who == person and where != conversation
        }
        number = min(count, len(others))
        before, asked = one.teacher_prompt_ids[: 2 * number], one.teacher_prompt_ids[2 * number :]
        assert asked == ([100 + at] if has and number else [100 + at, 99])
        assert {*before[::2]} <= others
        assert len({*before[::2]}) == number == one.demonstrations
        assert before[1::2] == [prompt + 100 for prompt in before[::2]]


def test_places_that_are_not_one_an_example_are_refused():
    with pytest.raises(ValueError, match="2 examples come from 1 places"):
        shown([example([1]), example([2])], [said(0)], 1, seed=0)


@pytest.fixture
def jobs(monkeypatch, home):
    """What runs would have learned from, in order."""
    found = []

    def learn(job, *rest, **more):
        found.append(job)
        raise learning.NothingLearned("That is enough.")

    monkeypatch.setattr("training.runs.launch.learn", learn)
    return found


def test_a_run_shows_as_many_as_its_recipe_says(hers, jobs):
    hers()
    for at in range(2):
        hers(prompt_ids=[*OTHER, at], rewrite_ids=REWRITE)

    runs.train(batches.fill(RECIPE.model_copy(update={"demonstrations": 1})))

    assert [one.demonstrations for one in jobs[0].examples] == [1, 1, 1]
    assert jobs[0].examples[0].teacher_prompt_ids[3:] in ([0, *REWRITE, *HINTED], [1, *REWRITE, *HINTED])


def test_what_was_written_in_earlier_runs_is_shown_as_far_as_it_is_learned_again(hers, home, jobs):
    hers(rewrite_ids=REWRITE, teacher_prompt_ids=None, conversation=uuid.uuid4())
    first = batches.learn_now(RECIPE)
    first.samples.update(status=Sample.Status.TRAINED)
    Run.objects.filter(pk=first.pk).update(status=Run.Status.FINISHED)
    live = made_by(first, Checkpoint.objects.create(number=1, parent=Checkpoint.live(), adapter="one", path="one"))
    Checkpoint.objects.filter(number=0).update(status="retired")
    Checkpoint.objects.filter(pk=live.pk).update(status="live")

    for replays, before in ((0, []), (1, [*PROMPT, *REWRITE])):
        hers()
        runs.train(batches.learn_now(RECIPE.model_copy(update={"replay": replays})))
        assert jobs[-1].examples[0].teacher_prompt_ids == [*before, *HINTED]
    first.samples.update(drop_reason="withdrawn")
    hers()
    runs.train(batches.learn_now(RECIPE.model_copy(update={"replay": 1})))
    assert jobs[-1].examples[0].teacher_prompt_ids == HINTED


def test_of_earlier_runs_too_no_teacher_is_shown_what_is_not_its_persons_or_was_wanted_in_the_same_conversation():
    mine = example([8, 9])
    earlier = [said(0, [1], [11]), said(1, [2], [12])._replace(person="8"), said(2, [3], [13]), said(3, [4])]

    (found,) = shown([mine], [said(0)], 4, seed=0, earlier=earlier)

    assert found.teacher_prompt_ids == [3, 13, 8, 9, 99]


def test_what_was_taken_back_while_the_run_waited_is_shown_to_no_teacher(hers, jobs):
    hers()
    withdrawn = hers(prompt_ids=[1, 80], rewrite_ids=[81, 2])
    hers(prompt_ids=[1, 70], rewrite_ids=[71, 2])
    run = batches.fill(RECIPE)
    Sample.objects.filter(pk=withdrawn.pk).update(drop_reason="withdrawn")

    runs.train(run)

    tokens = {token for one in jobs[0].examples for token in one.teacher_prompt_ids}
    assert 71 in tokens
    assert not tokens & {80, 81}


def test_a_run_that_is_repeated_without_a_sample_shows_nothing_of_it(hers, jobs):
    hers()
    gone = hers(prompt_ids=[1, 80], rewrite_ids=[81, 2])
    hers(prompt_ids=[1, 70], rewrite_ids=[71, 2])
    first = batches.fill(RECIPE)
    first.samples.update(status=Sample.Status.TRAINED)
    Run.objects.filter(pk=first.pk).update(status=Run.Status.FINISHED)
    Sample.objects.filter(pk=gone.pk).update(drop_reason="withdrawn", prompt_ids=[], response_ids=[], rewrite_ids=None)
    again = Run.objects.create(recipe=first.recipe, seed=first.seed, parent=first.parent, again=first)

    runs.train(again)

    tokens = {token for one in jobs[0].examples for token in one.teacher_prompt_ids}
    assert 71 in tokens
    assert not tokens & {80, 81}


def test_a_forecast_counts_what_the_teacher_is_shown():
    samples = [Lengths(10, 5, 12), Lengths(10, 5, 12, 6), Lengths(9, 5, 0, 8), Lengths(3000, 5, 0, 8)]
    plain = forecast.reads(samples, Recipe(w_sft=1), is_fresh=True)

    def more(count):
        return forecast.reads(samples, Recipe(w_sft=1, demonstrations=count), is_fresh=True) - plain

    # written: 16, 17 and 3008 tokens. The first is shown 17 and 16; the second, whose own is no other, 17; none 3008
    assert more(1) == 17 + 17
    assert more(2) == more(9) == 17 + 16 + 17


def test_a_forecast_counts_what_is_shown_of_earlier_runs():
    samples, again = [Lengths(10, 5, 12), Lengths(9, 5, 0, 8)], [Lengths(9, 5, 0, 8)] * 2

    def foreseen(count):
        return forecast.reads(samples, Recipe(w_sft=1, demonstrations=count), is_fresh=True, replayed=again)

    assert foreseen(4) - foreseen(0) == 3 * 17  # 17 tokens were written now, and twice as many before


@pytest.mark.parametrize("without", ["w_opd", "w_sft"])
def test_nothing_is_shown_where_no_loss_hears_the_teacher_or_rewrites_are_not_learned(hers, jobs, without):
    hers(reward=1.0)
    hers(prompt_ids=OTHER, reward=1.0, rewrite_ids=REWRITE)

    runs.train(batches.fill(RECIPE.model_copy(update={"batch_size": 2, without: 0.0})))

    assert [one.teacher_prompt_ids for one in jobs[0].examples] == [HINTED, HINTED]
