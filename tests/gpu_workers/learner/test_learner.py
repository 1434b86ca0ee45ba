"""The learner against plain transformers, PEFT and autograd, on a model small enough to check every number."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

from gpu_workers.learner import learner as room
from gpu_workers.learner.learner import Learner
from gpu_workers.learner.policy import LoraShape
from gpu_workers.learner.scores import Scores
from tests.gpu_workers.learner.examples import HINTED, PROMPT, RESPONSE, batch, example, gradients
from training.config import Recipe
from training.objective import losses
from training.objective.updates import TOP_K, divergence, objective, updates

RECIPE = Recipe(distillation="vocabulary", lr=1e-2)


def by_hand(learner, views, recipe):
    """The same gradient by full logits, one sequence at a time, and nothing but autograd."""
    learner.optimizer.zero_grad()
    for view in views:
        e = view.example
        ids = torch.tensor([[*e.prompt_ids, *e.response_ids]])
        logs = learner.causal(input_ids=ids).logits[:, len(e.prompt_ids) - 1 : -1].log_softmax(-1)  # (1, T, V)
        target = e.teacher_prompt_ids or e.prompt_ids
        hinted = torch.tensor([[*target, *e.response_ids]])
        with torch.no_grad(), learner._as_base() as base:
            q = base(input_ids=hinted).logits[:, len(target) - 1 : -1].log_softmax(-1)
        teacher = q.gather(-1, torch.tensor([e.response_ids])[..., None]).squeeze(-1)
        apart = losses.divergence(logs, q, k=TOP_K if recipe.distillation == "topk" else None)
        scores = Scores(
            logprobs=logs.gather(-1, torch.tensor([e.response_ids])[..., None]).squeeze(-1),
            distance=apart if recipe.distillation != "token" else torch.zeros_like(apart),
            behaviour_logprobs=torch.tensor([e.behaviour_logprobs]),
            start_logprobs=view.start_logprobs[None],
            reference_logprobs=view.reference_logprobs[None],
            teacher_logprobs=teacher,
            mask=torch.tensor([e.mask or [1.0] * len(e.response_ids)], dtype=torch.float32),
            reward=torch.tensor([e.reward]),
            has_teacher=torch.tensor([float(e.has_teacher)]),
            weight=torch.tensor([e.weight]),
        )
        (objective(recipe)(scores)[0] / len(views)).backward()
    found = gradients(learner)
    learner.optimizer.zero_grad()
    return found


def test_log_probs_are_plain_transformers(learner, tiny_model, rounding):
    plain = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    logits = plain(input_ids=torch.tensor([PROMPT + RESPONSE])).logits[0, len(PROMPT) - 1 : -1]
    expected = logits.log_softmax(-1).gather(-1, torch.tensor(RESPONSE)[:, None]).squeeze(-1)

    assert learner.score(PROMPT, RESPONSE) == pytest.approx(expected.tolist(), abs=rounding.logprob)


def test_a_fresh_adapter_is_the_base_to_the_last_bit(learner):
    assert learner.score(PROMPT, RESPONSE) == learner.score(PROMPT, RESPONSE, adapter=False)


def test_the_teacher_scores_the_served_reply_after_the_hinted_prompt(learner, rounding):
    view = learner.score_example(example(learner, hint=HINTED))

    assert view.teacher_logprobs.tolist() == pytest.approx(
        learner.score(HINTED, RESPONSE, adapter=False), abs=rounding.logprob
    )
    assert view.teacher_distance > 0


def test_the_teacher_may_be_the_policy_as_it_is(learner, rounding):
    list(updates(learner, batch(learner), RECIPE))

    view = learner.score_example(example(learner, hint=HINTED), teacher="policy")

    assert view.teacher_logprobs.tolist() == pytest.approx(learner.score(HINTED, RESPONSE), abs=rounding.logprob)
    assert view.teacher_logprobs.tolist() != pytest.approx(learner.score(HINTED, RESPONSE, adapter=False), abs=1e-3)


@pytest.mark.parametrize("teacher", ["base", "policy"])
@pytest.mark.parametrize("micro_batch", [1, 2, 8])
def test_what_is_seen_of_many_at_once_is_what_is_seen_of_each(learner, teacher, micro_batch, rounding):
    list(updates(learner, batch(learner), RECIPE))  # the policy is the base no more
    learner.micro_batch = micro_batch
    examples = [view.example for view in batch(learner)] + [example(learner, [1, 9], [11, 12, 2], kind="rehearsal")]

    several = learner.score_examples(examples, teacher=teacher)

    for one, view in zip(examples, several, strict=True):
        alone = learner.score_example(one, teacher=teacher)
        assert view.example is one
        assert view.teacher_distance == pytest.approx(alone.teacher_distance, abs=rounding.logprob)
        for name in ("reference_logprobs", "start_logprobs", "teacher_logprobs", "target_hidden"):
            expected, found = getattr(alone, name), getattr(view, name)
            assert (found is None) == (expected is None)
            if expected is not None:
                torch.testing.assert_close(found, expected, atol=rounding.logprob, rtol=0)


@pytest.mark.parametrize(
    ("device", "branches", "passes", "long"),
    [
        ("cpu", True, [10], 1),
        ("cpu", False, [2, 2, 2, 2, 2], 1),
        ("cuda", True, [10], 6),  # 6 x 304 positions, of 2048
        ("cuda", False, [4, 4, 2], 4),  # twice the micro-batch
    ],
)
def test_of_what_is_only_read_more_goes_at_once_than_of_what_is_learned_from(learner, device, branches, passes, long):
    learner.device = torch.device(device)
    learner.micro_batch = 2
    learner.branches = branches  # without is the last resort where there is little memory
    pairs = [([*PROMPT, at], RESPONSE) for at in range(60, 70)]  # short: 90 positions are one pass wherever

    assert [len(part) for part in learner._together(pairs, is_read=True)] == passes
    rows = [([at], [at] * 303) for at in range(9)]
    assert max(len(part) for part in learner._together(rows, is_read=True)) == long


def test_what_is_short_is_read_in_one_pass(learner, monkeypatch):
    examples = [example(learner, [*PROMPT, at], hint=[*HINTED, at]) for at in (60, 61, 62, 63, 64)]
    passes = []
    read = learner._scored
    monkeypatch.setattr(learner, "_scored", lambda causal, pairs: passes.append(len(pairs)) or read(causal, pairs))

    learner.score_examples(examples)
    learner.logprobs([([*PROMPT, at], RESPONSE) for at in (60, 61, 62, 63, 64)])

    assert passes == [10, 5]  # five replies, each by itself and by its teacher; and five answers


@pytest.mark.parametrize("kind", ["token", "topk", "vocabulary"])
@pytest.mark.parametrize("shape", [LoraShape(), None], ids=["lora", "full"])
def test_the_head_in_pieces_gives_the_gradient_of_full_logits(tiny_model, shape, kind, rounding):
    learner = Learner(tiny_model, dtype="float32", lora=shape, piece=2, micro_batch=2)
    recipe = Recipe(distillation=kind, lr=1e-2, weights="lora" if shape else "full")
    views = batch(learner)
    list(updates(learner, views, recipe))  # away from the start, where an adapter's half of gradients is zero

    expected = by_hand(learner, views, recipe)
    learner.forward_backward(views, objective(recipe), divergence=divergence(recipe))

    found = gradients(learner)
    assert found.keys() == expected.keys()
    rounding.assert_gradients(found, expected)


def test_micro_batches_and_padding_change_nothing_but_rounding(tiny_model, rounding):
    seen = []
    for micro_batch, piece in ((1, 64), (2, 1), (3, 4)):
        learner = Learner(tiny_model, dtype="float32", micro_batch=micro_batch, piece=piece, seed=3)
        figures = learner.forward_backward(batch(learner), objective(RECIPE), divergence=divergence(RECIPE))
        seen.append((figures["loss"], gradients(learner)))

    (loss, first), *others = seen
    for other_loss, other in others:
        assert other_loss == pytest.approx(loss, abs=rounding.logprob)
        rounding.assert_gradients(other, first)


def test_masked_tokens_teach_nothing(learner, rounding):
    masks = ([1, 1, 0, 0, 0], [1, 1, 1, 1, 1])
    found = []
    for mask in masks:
        learner.forward_backward([learner.score_example(example(learner, reward=1.0, mask=mask))], objective(RECIPE))
        found.append(gradients(learner))
        learner.optimizer.zero_grad()
    shorter = example(learner, response=RESPONSE[:2], reward=1.0)
    learner.forward_backward([learner.score_example(shorter)], objective(RECIPE))

    only_two = gradients(learner)
    assert any(not torch.allclose(found[1][name], only_two[name], atol=1e-7) for name in only_two)
    rounding.assert_gradients(found[0], only_two)


def test_progress_counts_the_views(learner):
    told = []

    learner.forward_backward(batch(learner), objective(RECIPE), progress=told.append)

    assert told == [1, 2, 3]


def test_what_a_prompt_and_the_hinted_one_begin_with_is_read_once(learner, monkeypatch, rounding):
    e = example(learner, hint=HINTED, reward=1.0)
    read = []
    body = learner.causal.get_decoder()
    passed = body.forward

    def counted(*args, input_ids, **kwargs):
        read.append(tuple(input_ids.shape))
        return passed(*args, input_ids=input_ids, **kwargs)

    monkeypatch.setattr(body, "forward", counted)
    view = learner.score_example(e)

    assert read == [(1, len(HINTED) + 2 * len(RESPONSE))]  # the hinted prompt begins with all of the other
    assert view.reference_logprobs.tolist() == pytest.approx(
        learner.score(PROMPT, RESPONSE, adapter=False), abs=rounding.logprob
    )
    assert view.teacher_logprobs.tolist() == pytest.approx(
        learner.score(HINTED, RESPONSE, adapter=False), abs=rounding.logprob
    )


def test_a_cpu_takes_fewer_at_once_where_more_would_bring_nothing(learner, monkeypatch, rounding):
    learner.micro_batch = 3
    views = batch(learner)
    learner.forward_backward(views, objective(RECIPE), divergence=divergence(RECIPE))
    whole = gradients(learner)
    learner.optimizer.zero_grad()
    told: list[int] = []
    longest = max(len(view.example.prompt_ids) + len(view.example.response_ids) for view in views)
    monkeypatch.setattr(learner, "at_once", 2 * longest)

    learner.forward_backward(views, objective(RECIPE), divergence=divergence(RECIPE), progress=told.append)

    assert told == [2, 3]  # two fit, and the third goes alone
    rounding.assert_gradients(gradients(learner), whole)


def test_a_view_starts_from_the_policy_where_it_has_moved_and_from_the_base_where_it_has_not(
    learner, monkeypatch, rounding
):
    e = example(learner, hint=HINTED)
    read = []
    scored = room.Learner._scored
    monkeypatch.setattr(
        room.Learner, "_scored", lambda self, causal, pairs: read.append(len(pairs)) or scored(self, causal, pairs)
    )
    fresh = learner.score_example(e)
    looks_at_the_base = list(read)
    list(updates(learner, [fresh], Recipe(lr=1e-2)))
    read.clear()
    moved = learner.score_example(e)

    assert looks_at_the_base == [2]  # the plain prompt and the hinted one: the policy is the base, and is not asked
    assert read == [2, 1]  # and then the policy's own look at the plain prompt
    assert fresh.start_logprobs.tolist() == fresh.reference_logprobs.tolist()
    assert moved.start_logprobs.tolist() == pytest.approx(learner.score(PROMPT, RESPONSE), abs=rounding.logprob)
    assert moved.start_logprobs.tolist() != pytest.approx(moved.reference_logprobs.tolist(), abs=1e-3)


def test_views_without_a_distribution_teach_none(learner):
    view = learner.score_example(example(learner, hint=HINTED), with_distribution=False)

    with pytest.raises(ValueError, match="a distribution is to be learned"):
        learner.forward_backward([view], objective(RECIPE), divergence=divergence(RECIPE))


def test_a_reply_of_which_nothing_is_learned_weighs_nothing_beside_others(learner, rounding):
    second = [*PROMPT, *RESPONSE, 50, 51, 52]
    heard = [learner.score_example(example(learner, second, [60, 61, 2], reward=1.0))]
    heard += [learner.score_example(example(learner, reward=-1.0, mask=[0] * 5))]
    found = []
    for views in (heard, [heard[1], heard[0]]):
        figures = learner.forward_backward(views, objective(RECIPE))
        found.append((figures["advantage_max"], figures["advantage_min"], figures["computed"], gradients(learner)))
        learner.optimizer.zero_grad()
    learner.forward_backward(heard[:1], objective(RECIPE), scale=0.5)  # alone, and one of two

    assert found[0][:3] == found[1][:3] == (1.0, 1.0, 15)  # one row, and the padding has no advantage
    rounding.assert_gradients(found[0][3], gradients(learner))
