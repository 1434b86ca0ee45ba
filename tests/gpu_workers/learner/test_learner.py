"""The learner against plain transformers, PEFT and autograd, on a model small enough to check every number."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from gpu_workers.errors import AdapterInvalid, NothingLearned, OutOfMemory
from gpu_workers.learner import learner as room
from gpu_workers.learner import policy, policy_files
from gpu_workers.learner.learner import Learner
from gpu_workers.learner.policy import LoraShape
from gpu_workers.learner.scores import Scores
from gpu_workers.types import Example
from training.config import Recipe
from training.objective import losses, out_of_memory
from training.objective import updates as objectives
from training.objective.updates import TOP_K, divergence, objective, updates

PROMPT, HINTED, RESPONSE = [1, 5, 6, 40], [1, 5, 6, 40, 77, 78, 79], [7, 8, 9, 10, 2]
RECIPE = Recipe(distillation="vocabulary", lr=1e-2)


@pytest.fixture
def learner(tiny_model):
    return Learner(tiny_model, dtype="float32", piece=3)


def example(learner, prompt=PROMPT, response=RESPONSE, *, hint=None, reward=0.0, mask=(), kind="turn"):
    old = learner.score(prompt, response)
    return Example(prompt, response, old, mask=mask, teacher_prompt_ids=hint, reward=reward, kind=kind)


def batch(learner):
    """A corrected turn with a bad thumb, a praised one, and one that was only corrected; all of other lengths."""
    return [
        learner.score_example(example(learner, hint=HINTED, reward=-1.0)),
        learner.score_example(example(learner, [1, 9], [11, 12, 2], reward=1.0)),
        learner.score_example(
            example(learner, [1, 3, 3], [30, 31, 32, 33, 34, 35, 2], hint=[1, 3, 3, 8], mask=[0, 0, 1, 1, 1, 1, 1])
        ),
    ]


def gradients(learner):
    return {name: p.grad.clone() for name, p in learner.trainable() if p.grad is not None}


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


# Numbers


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


# What is not computed twice


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


# Where memory ends


@pytest.mark.parametrize(
    "failure",
    [
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: 9 bytes"),
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory."),
    ],
    ids=["cpu", "python", "cuda"],
)
def test_a_step_without_room_leaves_no_gradient_and_fits_in_smaller_parts(learner, failure, rounding):
    views, loss = batch(learner), objective(RECIPE)
    learner.micro_batch = 2
    taken = []

    def full(scores):
        taken.append(len(scores.weight))
        if len(taken) == 2:
            raise failure
        return loss(scores)

    with pytest.raises(OutOfMemory, match="micro-batch of 2"):
        learner.forward_backward(views, full)
    assert gradients(learner) == {}

    learner.micro_batch = 1
    found = learner.forward_backward(views, loss)["loss"]
    again = Learner(learner.causal.config._name_or_path, dtype="float32")
    assert found == pytest.approx(again.forward_backward(batch(again), loss)["loss"], abs=rounding.logprob)


def test_where_one_at_a_time_is_too_much_nothing_goes_together(learner):
    views = [
        learner.score_example(example(learner, [*PROMPT, *RESPONSE, 50], [60, 2], reward=1.0)),
        *batch(learner)[:1],
    ]
    learner.micro_batch = 2
    tried = []

    def full():
        tried.append((learner.micro_batch, learner.branches))
        if len(tried) < 3:
            raise OutOfMemory("No room.")
        return learner.forward_backward(views, objective(RECIPE))

    figures = out_of_memory.fitting(learner, full)

    assert tried == [(2, True), (1, True), (1, False)]
    assert figures["computed"] == 12 + 9  # though the second row begins the first


def test_the_machines_own_error_is_known(tiny_model):
    """A real one: the process may have 64 MiB more than it has, and 512 rows of a thousand tokens need more."""
    program = f"""
import resource, torch
from gpu_workers.errors import OutOfMemory
from gpu_workers.learner.learner import Learner
from gpu_workers.learner.policy import AT_ONCE
AT_ONCE[torch.float32] = 1 << 30  # as where a device wants many at once
learner = Learner({str(tiny_model)!r}, dtype="float32", micro_batch=512)
pairs = [([1, 5], [7 + n % 64] * 1000) for n in range(512)]
learner.supervise(pairs[:1])
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 64 * 2**20, resource.RLIM_INFINITY))
try:
    learner.logprobs(pairs)
except OutOfMemory as failure:
    print("known:", failure)
print("gradients:", learner.has_gradient())
learner.micro_batch = 1
print("smaller:", len(learner.logprobs(pairs[:1])))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert "known: No memory for a micro-batch of 512" in done.stdout, done.stderr
    assert "gradients: False" in done.stdout
    assert "smaller: 1" in done.stdout


# Signs


@pytest.mark.parametrize(("reward", "sign"), [(1.0, 1), (-1.0, -1)])
def test_a_praised_reply_gets_likelier_and_a_blamed_one_less(learner, reward, sign):
    e = example(learner, reward=reward)

    list(updates(learner, [learner.score_example(e)], Recipe(lr=1e-3, beta=0.0)))

    assert sign * (sum(learner.score(PROMPT, RESPONSE)) - sum(e.behaviour_logprobs)) > 0


@pytest.mark.parametrize("kind", ["token", "topk", "vocabulary"])
def test_hinted_tokens_move_toward_the_teacher(learner, kind):
    view = learner.score_example(example(learner, hint=HINTED))
    gap = view.teacher_logprobs - view.start_logprobs

    list(updates(learner, [view], Recipe(distillation=kind, lr=1e-3, beta=0.0, updates=3)))

    moved = torch.tensor(learner.score(PROMPT, RESPONSE)) - view.start_logprobs
    assert float((moved * gap).sum()) > 0
    largest = gap.abs().argmax()
    assert moved[largest].sign() == gap[largest].sign()


def test_a_reward_alone_leaves_what_it_does_not_say_as_it_is(learner, tiny_model, monkeypatch):
    seen = {}
    for trust in (0.0, 1.0):
        monkeypatch.setattr(objectives, "TRUST", trust)
        policy = Learner(tiny_model, dtype="float32", seed=1)
        view = policy.score_example(example(policy, reward=-1.0))
        figures = list(updates(policy, [view], Recipe(distillation="vocabulary", lr=3e-3, updates=8)))
        seen[trust] = figures[-1]["kl"]

    assert seen[1.0] < seen[0.0]


@pytest.mark.parametrize(
    ("signal", "stays"), [({"reward": 1.0}, True), ({"reward": -1.0}, True), ({"kind": "rehearsal"}, False)]
)
def test_without_a_teacher_the_policy_is_held_where_it_is_and_rehearsals_hold_it_to_the_base(learner, signal, stays):
    recipe = Recipe(distillation="vocabulary", lr=3e-3, updates=3)
    list(updates(learner, [learner.score_example(example(learner, hint=HINTED))], recipe))  # it was taught something

    (first, *_) = updates(learner, [learner.score_example(example(learner, **signal))], recipe)

    # What it is held to is what it is, before the first step, or else something that it has left.
    assert (first["distillation_loss"] < 1e-6) is stays


def test_a_run_ends_early_when_every_token_has_reached_its_clip(learner):
    view = learner.score_example(example(learner, reward=-1.0))

    figures = list(updates(learner, [view], Recipe(lr=1e-2, beta=0.0, updates=5)))

    assert len(figures) == 1  # one step of this size takes all five tokens beyond the clip


def test_the_anchor_pulls_back_to_the_base(learner):
    e = example(learner, reward=1.0)
    list(updates(learner, [learner.score_example(e)], Recipe(lr=1e-2, beta=0.0, updates=3)))
    drifted = learner.score_example(e)

    only_anchor = losses.kl_loss
    learner.forward_backward(
        [drifted], lambda scores: only_anchor(scores.logprobs, scores.reference_logprobs, scores.mask)
    )
    learner.optim_step(1e-3)

    before = (drifted.start_logprobs - drifted.reference_logprobs).abs().sum()
    after = (torch.tensor(learner.score(PROMPT, RESPONSE)) - drifted.reference_logprobs).abs().sum()
    assert after < before


@pytest.mark.real_model
@pytest.mark.parametrize(
    ("reward", "hint", "sign"), [(1.0, "", 1), (-1.0, "", -1), (0.0, " Answer in Spanish.", 0)], ids=str
)
def test_signs_on_the_real_small_model(smol_model, reward, hint, sign):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(smol_model / "tokenizer.json"))

    def prompt(text):
        return tokenizer.encode(f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n").ids

    question = "What is the capital of France?"
    response = tokenizer.encode("The capital of France is Paris.<|im_end|>").ids
    learner = Learner(smol_model)
    old = learner.score(prompt(question), response)
    e = Example(
        prompt(question), response, old, reward=reward, teacher_prompt_ids=prompt(question + hint) if hint else None
    )
    view = learner.score_example(e)

    list(updates(learner, [view], Recipe(distillation="vocabulary", lr=1e-3, updates=3)))

    moved = torch.tensor(learner.score(prompt(question), response)) - torch.tensor(old)
    if sign:
        assert sign * float(moved.sum()) > 0
    else:
        gap = view.teacher_logprobs - view.start_logprobs
        assert moved[gap.abs().argmax()].sign() == gap[gap.abs().argmax()].sign()
        assert float((moved * gap).sum()) > 0


# Alarms


def test_samples_without_a_signal_give_no_gradient_and_say_so(learner):
    learner.forward_backward([learner.score_example(example(learner))], objective(RECIPE))

    before = learner.adapter_norm()
    with pytest.raises(NothingLearned, match="gradient is zero everywhere"):
        learner.optim_step(1e-3)
    assert learner.adapter_norm() == before


def test_a_rate_too_small_to_change_a_weight_is_no_update(learner):
    learner.forward_backward(batch(learner), objective(RECIPE))

    with pytest.raises(NothingLearned, match="changed no weight"):
        learner.optim_step(0.0)


def test_with_a_large_epsilon_a_weight_moves_by_its_gradient_and_not_by_the_rate(learner, tiny_model):
    def moved(epsilon):
        learner = Learner(tiny_model, dtype="float32", piece=3)
        learner.forward_backward(batch(learner), objective(RECIPE))
        before = {name: p.detach().clone() for name, p in learner.trainable()}
        gradient = gradients(learner)
        figures = learner.optim_step(1e-2, weight_decay=0.0, max_grad_norm=1e9, epsilon=epsilon)
        return [(p.detach() - before[name], gradient[name]) for name, p in learner.trainable()], figures

    # Adam's first step is lr · g / (|g| + ε): the rate where ε is nothing, lr · g / ε where it is far above g.
    for step, gradient in moved(1e-8)[0]:
        sure = gradient.abs() > 1e-5
        assert torch.allclose(step[sure].abs(), torch.full_like(step[sure], 1e-2), rtol=1e-2)
    for step, gradient in moved(1e3)[0]:
        assert torch.allclose(step, -1e-5 * gradient, rtol=1e-2, atol=1e-9)


def test_a_loss_that_is_not_a_number_stops_before_anything_changes(learner):
    before = learner.score(PROMPT, RESPONSE)

    with pytest.raises(NothingLearned, match="loss of sample 3 is nan"):
        learner.forward_backward(batch(learner), lambda scores: (scores.logprobs.sum() * float("nan"), {}))
    assert learner.score(PROMPT, RESPONSE) == before


def test_a_gradient_that_is_not_a_number_is_thrown_away(learner):
    learner.forward_backward(batch(learner), objective(RECIPE))
    learner.trainable()[0][1].grad.fill_(float("nan"))
    before = learner.score(PROMPT, RESPONSE)

    with pytest.raises(NothingLearned, match="gradient is nan"):
        learner.optim_step(1e-3)
    assert learner.score(PROMPT, RESPONSE) == before
    assert gradients(learner) == {}


def test_nothing_at_all_is_refused(learner):
    with pytest.raises(ValueError, match="no samples"):
        learner.forward_backward([], objective(RECIPE))
    with pytest.raises(ValueError, match="prompt and a response"):
        learner.score(PROMPT, [])


# Files


def test_any_other_tool_can_load_the_adapter(learner, tiny_model, tmp_path, rounding):
    list(updates(learner, batch(learner), RECIPE))

    learner.save(tmp_path / "adapter")

    base = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    plain = PeftModel.from_pretrained(base, str(tmp_path / "adapter"))
    logits = plain(input_ids=torch.tensor([PROMPT + RESPONSE])).logits[0, len(PROMPT) - 1 : -1]
    expected = logits.log_softmax(-1).gather(-1, torch.tensor(RESPONSE)[:, None]).squeeze(-1)
    assert learner.score(PROMPT, RESPONSE) == pytest.approx(expected.tolist(), abs=rounding.logprob)
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["peft_type"]) == (16, 32, "LORA")


def test_a_checkpoint_holds_safetensors_and_json_only(learner, tmp_path):
    list(updates(learner, batch(learner), RECIPE))

    learner.save(tmp_path / "adapter")

    files = [path for path in (tmp_path / "adapter").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".safetensors", ".json"}
    assert [path.name for path in tmp_path.iterdir()] == ["adapter"]


@pytest.mark.parametrize("shape", [LoraShape(), None], ids=["lora", "full"])
def test_going_on_from_a_checkpoint_is_as_if_one_had_never_stopped(tiny_model, tmp_path, shape, rounding):
    def fresh(folder=None):
        return Learner(tiny_model, dtype="float32", lora=shape, adapter_dir=folder, seed=5)

    straight = fresh()
    views = batch(straight)
    recipe = Recipe(distillation="vocabulary", lr=1e-2, updates=2)
    list(updates(straight, views, recipe))
    straight.save(tmp_path / "half")
    list(updates(straight, views, recipe))

    resumed = fresh(tmp_path / "half")
    assert resumed.steps == 2
    list(updates(resumed, views, recipe))

    assert resumed.score(PROMPT, RESPONSE) == pytest.approx(straight.score(PROMPT, RESPONSE), abs=rounding.logprob)


def test_full_weights_are_written_as_a_model_and_keep_their_base(tiny_model, tmp_path, rounding):
    learner = Learner(tiny_model, lora=None)
    base = learner.score(PROMPT, RESPONSE)
    list(updates(learner, batch(learner), Recipe(lr=1e-3, weights="full")))

    learner.save(tmp_path / "full")

    assert learner.score(PROMPT, RESPONSE, adapter=False) == pytest.approx(base, abs=rounding.logprob)
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "full", dtype=torch.float32)
    logits = plain(input_ids=torch.tensor([PROMPT + RESPONSE])).logits[0, len(PROMPT) - 1 : -1]
    expected = logits.log_softmax(-1).gather(-1, torch.tensor(RESPONSE)[:, None]).squeeze(-1)
    assert learner.score(PROMPT, RESPONSE) == pytest.approx(expected.tolist(), abs=rounding.logprob)


def test_a_checkpoint_is_never_written_over(learner, tmp_path):
    learner.save(tmp_path / "adapter")

    with pytest.raises(FileExistsError):
        learner.save(tmp_path / "adapter")


def test_a_save_that_fails_leaves_nothing_behind(learner, tmp_path, monkeypatch):
    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(policy_files, "_flush", full)

    with pytest.raises(OSError, match="No space left"):
        learner.save(tmp_path / "adapter")
    assert list(tmp_path.iterdir()) == []


def test_an_adapter_that_cannot_be_read_is_named(tiny_model, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "adapter_config.json").write_text("{}")

    with pytest.raises(AdapterInvalid, match="broken"):
        Learner(tiny_model, adapter_dir=tmp_path / "broken")


def test_an_adapter_without_its_optimiser_state_is_not_half_resumed(learner, tiny_model, tmp_path):
    from safetensors.torch import load_file, save_file

    list(updates(learner, batch(learner), RECIPE))
    learner.save(tmp_path / "adapter")
    state = load_file(tmp_path / "adapter" / policy_files.OPTIMIZER_FILE)
    save_file(dict(list(state.items())[1:]), tmp_path / "adapter" / policy_files.OPTIMIZER_FILE)

    with pytest.raises(AdapterInvalid, match="optimiser state"):
        Learner(tiny_model, adapter_dir=tmp_path / "adapter")


def test_the_dtype_is_probed_or_told():
    cpu = torch.device("cpu")

    assert policy.chosen_dtype("auto", cpu) in (torch.float32, torch.bfloat16)
    assert policy.chosen_dtype("float32", cpu) is torch.float32
    with pytest.raises(ValueError, match="one of auto"):
        policy.chosen_dtype("int3", cpu)


def test_one_seed_one_result(tiny_model):
    seen = []
    for _ in range(2):
        learner = Learner(tiny_model, dtype="float32", seed=11)
        list(updates(learner, batch(learner), RECIPE))
        seen.append(learner.score(PROMPT, RESPONSE))

    assert seen[0] == seen[1]


def test_the_objective_needs_no_more_than_the_scores(learner):
    kinds = []
    record = partial(_recorded, kinds)

    learner.forward_backward(batch(learner), record)

    assert kinds == [(1, 7), (1, 5), (1, 3)]  # those that begin alike beside each other


def _recorded(kinds, scores):
    kinds.append(tuple(scores.logprobs.shape))
    return scores.logprobs.sum() * 0.0, {}


# Answers that are wanted


BRANCHES = [([1, 5, 6, 40], [7, 8, 2]), ([1, 5, 6, 41, 42], [7, 2]), ([1, 5, 6, 40], [7, 9, 9, 2])]


def test_pairs_that_begin_alike_teach_what_they_teach_one_by_one(learner, rounding):
    """Gradients, not only losses: the shared beginning gathers them from all of its branches."""
    for pair in BRANCHES:
        learner.supervise([pair], scale=1 / 3)
    apart = gradients(learner)
    learner.optimizer.zero_grad()
    learner.micro_batch = 3
    figures = learner.supervise(BRANCHES)
    together = gradients(learner)

    # 1 5 6 once, then 40 7 with 8 2 and 9 9 2 behind it, and 41 42 7 2: 3 + 2 + 2 + 3 + 4.
    assert figures["computed"] == 14
    assert figures["loss"] == pytest.approx(
        -sum(sum(learner.score(*pair)) / len(pair[1]) for pair in BRANCHES) / 3, abs=rounding.logprob
    )
    rounding.assert_gradients(together, apart)


def test_answers_are_as_likely_beside_each_other_as_alone(learner, rounding):
    learner.micro_batch = 3

    for found, pair in zip(learner.logprobs(BRANCHES), BRANCHES, strict=True):
        assert found == pytest.approx(learner.score(*pair), abs=rounding.logprob)


def test_what_is_supervised_becomes_likelier(learner):
    before = learner.score(*BRANCHES[0])
    for _ in range(3):
        learner.supervise(BRANCHES)
        learner.optim_step(1e-2)

    assert sum(learner.score(*BRANCHES[0])) > sum(before) + 0.1


def test_every_weight_can_be_supervised(tiny_model):
    learner = Learner(tiny_model, lora=None, micro_batch=3)
    loss = learner.supervise(BRANCHES)["loss"]
    learner.optim_step(1e-3)

    assert learner.supervise(BRANCHES)["loss"] < loss


def test_only_the_layers_that_are_named_are_adapted(tiny_model):
    learner = Learner(tiny_model, dtype="float32", lora=LoraShape(targets=("q_proj", "up_proj"), layers=(1,)))

    assert learner.trainable()
    assert all(".layers.1." in name for name, _ in learner.trainable())


def test_a_pair_without_an_answer_is_refused(learner):
    with pytest.raises(ValueError, match="each pair has"):
        learner.supervise([([1, 2], [])])


def test_nothing_but_weights_lies_beside_an_adapter(tiny_model, tmp_path):
    """SGLang reads every safetensors file of an adapter's folder: the optimiser's moments took the weights' place."""
    learner = Learner(tiny_model, dtype="float32")
    for _, parameter in learner.trainable():
        parameter.grad = torch.ones_like(parameter)
    learner.optim_step(1e-3)

    learner.save(tmp_path / "adapter")

    assert [file.name for file in (tmp_path / "adapter").glob("*.safetensors")] == ["adapter_model.safetensors"]
    assert Learner(tiny_model, adapter_dir=tmp_path / "adapter", dtype="float32").steps == 1  # and they are found again
