"""A step without room is done in smaller parts, or fails."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from gpu_workers.errors import OutOfMemory
from gpu_workers.learner.learner import Learner
from tests.gpu_workers.learner.examples import PROMPT, RESPONSE, batch, example, gradients
from training.config import Recipe
from training.objective import out_of_memory
from training.objective.updates import objective

RECIPE = Recipe(distillation="vocabulary", lr=1e-2)


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
