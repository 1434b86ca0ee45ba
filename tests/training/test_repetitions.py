"""What a reply says again is learned to be less likely, and nothing else of it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpu_workers.errors import NothingLearned
from gpu_workers.learner import Learner
from gpu_workers.types import Example
from tests.training.conftest import PROMPT
from tests.training.gradients import at_step, gradients
from training.collation import examples
from training.config import PRESETS, Recipe
from training.forecast import Lengths, lengths, reads
from training.models import Sample
from training.objective import updates
from training.repetitions import RUN, Repetitions, again, said_again

LOOP = [5, 6, 7, 8, 9, 10] * 2 + [2]
"""Its twelfth token is the first of which six in a row stood before; the thirteenth is its end."""
RECIPE = Recipe(w_rl=1e-9, w_opd=0, w_again=3, beta=0.0, lr=1e-2, max_grad_norm=1e9)


def reply(ids: list[int], **more: Any) -> Example:
    return Example(PROMPT, ids, [-1.0] * len(ids), **more)


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 8))
def test_a_token_is_said_again_where_as_many_stood_together_before(ids, run):
    runs = [tuple(ids[end - run : end]) if end >= run else None for end in range(1, len(ids) + 1)]

    assert again(ids, run) == [one is not None and one in runs[:at] for at, one in enumerate(runs)]


def test_its_gradient_is_that_of_unlikelihood(tiny_model, rounding):
    learner = Learner(tiny_model, dtype="float32", seed=3)
    held = at_step(learner)
    views = [learner.score_example(reply(ids)) for ids in (LOOP, [5, 6, 7, 2])]

    (figures,) = updates(learner, views, RECIPE)

    by_hand = Learner(tiny_model, dtype="float32", seed=3)
    logits = by_hand.model(input_ids=torch.tensor([[*PROMPT, *LOOP]])).logits[0].log_softmax(-1)
    p = logits[len(PROMPT) - 1 + 11, LOOP[11]].exp()
    loss = -torch.log1p(-p) / 13  # one token of thirteen
    (3 * loss / 2).backward()  # w_again is 3, and one reply of two says something again
    expected = gradients(by_hand)
    rounding.assert_gradients(held, expected)
    assert figures["repetition_loss"] == pytest.approx(loss.item(), abs=rounding.logprob)
    assert figures["loss"] == pytest.approx(1.5 * loss.item(), abs=rounding.logprob)


def test_what_is_said_again_becomes_less_likely(tiny_model):
    learner = Learner(tiny_model, dtype="float32", seed=3)
    learner.supervise([(PROMPT, LOOP)])
    learner.optim_step(1e-2)
    before = learner.score(PROMPT, LOOP)[11]
    view = learner.score_example(reply(LOOP))

    seen = list(updates(learner, [view], RECIPE.model_copy(update={"updates": 4})))

    assert learner.score(PROMPT, LOOP)[11] < before - 0.1
    losses = [figures["repetition_loss"] for figures in seen]
    assert losses == sorted(losses, reverse=True)


def test_as_much_of_a_reply_is_looked_at_as_of_a_rewrite():
    ids = [5, 6, 7, 8, 9, 10, 11, 12] * 2  # said again from the fourteenth token on, of which eight are learned
    sample = Sample(prompt_ids=PROMPT, response_ids=ids, sampled_logprobs=[-1.0] * 16, behaviour_logprobs=[-1.0] * 16)
    sample.mask = [1.0] * 16

    (example,) = examples([sample], max_tokens=8)

    assert list(example.response_ids) == ids[:8]
    found = said_again([example], weight=1.0)
    assert found is not None
    assert found.replies == [(PROMPT, ids)]


def test_what_is_not_to_be_learned_from_is_left_out():
    masked = reply(LOOP, mask=[0.0, *[1.0] * 12])
    rehearsed = reply(LOOP, kind="rehearsal")

    assert said_again([masked, rehearsed, reply([5, 6, 2])], weight=1.0) is None


def test_what_a_person_is_content_with_may_be_said_again():
    written = [5, 6, 7, 8, 9, 10] * 2  # the rewrite says it twice as well

    praised = [reply(LOOP, reward=1.0), reply(LOOP, rewards=[0.0] * 12 + [1.0])]
    assert said_again([*praised, reply(LOOP, rewrite=(PROMPT, written))], weight=1.0) is None

    left = [reply(LOOP, reward=-1.0), reply(LOOP), reply(LOOP, reward=1.0, rewrite=(PROMPT, written[:6]))]
    found = said_again([*praised, *left], weight=1.0)
    assert found is not None
    assert found.marks == [again(LOOP)] * 3
    assert found.scale == 3 / 5  # three of five replies


def test_without_a_weight_nothing_is_asked_of_it():
    assert said_again([reply(LOOP)], weight=0.0) is None
    assert not any(recipe.w_again for recipe in PRESETS.values())  # with refrains it does too little: decision 8


def test_a_log_prob_that_is_no_number_ends_the_run():
    class Broken:
        def logprobs(self, pairs):
            return [[math.nan]] * len(pairs)

    with pytest.raises(NothingLearned, match="not a number"):
        Repetitions([(PROMPT, LOOP)], [again(LOOP)], 1.0).pull(Broken())


def test_it_is_foreseen(ready):
    loop, once = Lengths(60, 40, repeats=True), Lengths(60, 40)
    alone, less = Recipe(updates=2, max_tokens=15), Recipe(updates=2, max_tokens=15, w_again=1)

    # twice in each of two updates 60 of the prompt and 30, as much as of a rewrite: read once, and there and back
    more = reads([loop, once], less, is_fresh=True) - reads([loop, once], alone, is_fresh=True)
    assert more == 2 * (1 + 3) * (60 + 30)
    samples = [ready(response_ids=LOOP, reward=-1.0), ready(response_ids=LOOP, reward=1.0), ready()]
    assert [one.repeats for one in lengths(samples)] == [True, False, False]


def test_fewer_than_a_run_say_nothing_again():
    assert not any(again([5] * RUN))
    assert again([5] * (RUN + 1))[-1]
