"""What is done where a device's memory ends: the same work in smaller parts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from gpu_workers.errors import OutOfMemory

if TYPE_CHECKING:
    from gpu_workers.learner.learner import Learner

log = logging.getLogger(__name__)

Result = TypeVar("Result")


def fitting(learner: Learner, work: Callable[[], Result]) -> Result:
    """`work`, done again with half the micro-batch as often as there was no memory for it, and at last without trees.
    It must begin without a gradient, which is how OutOfMemory leaves the learner. Raises OutOfMemory where one sample
    at a time is too much."""
    while True:
        try:
            return work()
        except OutOfMemory as failure:
            if learner.micro_batch > 1:
                learner.micro_batch //= 2
            elif learner.branches:
                learner.branches = False  # a mask, which a tree needs and a row does not, is memory too
            else:
                raise
            trees = "" if learner.branches else ", and nothing is computed once for several"
            log.warning("%s The micro-batch is %s from now on%s.", failure, learner.micro_batch, trees)
