"""The scheduler, as sequences join, run, step back and leave in any order: no model, no thread."""

from __future__ import annotations

import random

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpu_workers.embedded.cache import KV, Shape
from gpu_workers.embedded.requests import Ask
from gpu_workers.embedded.sampling import Params, Sampler
from gpu_workers.embedded.scheduler import CHUNK_ALONE, Scheduler
from gpu_workers.embedded.sequences import Sequence
from gpu_workers.embedded.text import Text

MOST, ROOM = 3, 120

# Two openings, longer than what is worth waiting for, that many prompts share.
PROMPTS = st.tuples(st.sampled_from([0, 1]), st.integers(1, 50), st.integers(0, 3)).map(
    lambda drawn: [*([drawn[0]] * drawn[1]), 10 + drawn[2]]
)


class Coming(RuleBasedStateMachine):
    """A sequence's keys are what was computed of it: each token's id, and a hundred for every change of the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler(
            lambda tokens: KV([Shape(1, 1, 1)], tokens, torch.float32), max_running=MOST, max_tokens=ROOM
        )
        self.joined: list[Sequence] = []
        self.left: list[Sequence] = []

    @rule(ids=PROMPTS, more=st.integers(1, 8), priority=st.integers(0, 2))
    def join(self, ids: list[int], more: int, priority: int) -> None:
        number = len(self.joined)
        ask = Ask(f"r{number}", tuple(ids), Params(max_new_tokens=more), priority=priority)
        tokens = np.zeros(len(ids) + more, dtype=np.int64)
        tokens[: len(ids)] = ids
        text = Text(lambda _: "", (), False)
        sequence = Sequence(ask, None, lambda _: None, number, text, Sampler(0), tokens, len(ids))
        self.joined.append(sequence)
        self.scheduler.join([sequence])

    @rule()
    def step(self) -> None:
        """As the engine's: let in, compute what is planned, draw a token where all was read, end at the length."""
        self.scheduler.admit(only_begun=False)
        planned = self.scheduler.plan()
        running = self.scheduler.running
        assert {id(sequence) for sequence, _ in planned} <= {id(sequence) for sequence in running}
        assert not running or planned, "the running sequence that is first by rank is never held up"
        assert sum(n for sequence, n in planned if sequence.is_reading) <= CHUNK_ALONE
        for sequence, n in planned:
            assert sequence.kv is not None
            start = sequence.computed
            keys = sequence.kv.layers[0][0]
            keys[0, 0, start : start + n, 0] = torch.tensor(
                sequence.tokens[start : start + n] + 100.0 * self.scheduler.generation, dtype=torch.float32
            )
            sequence.kv.length = start + n
            if sequence.computed == sequence.length:
                sequence.tokens[sequence.length] = 20
                sequence.length += 1
            if sequence.output_length == sequence.ask.params.max_new_tokens:
                self.end(sequence, keeps=True)

    @rule(which=st.randoms(use_true_random=False), keeps=st.booleans())
    @precondition(lambda self: self.scheduler.sequences)
    def abort(self, which: random.Random, keeps: bool) -> None:
        self.end(which.choice(self.scheduler.sequences), keeps=keeps)

    @rule()
    def retract(self) -> None:
        self.scheduler.step_back()

    @rule()
    def renew(self) -> None:
        self.scheduler.renew()

    def end(self, sequence: Sequence, *, keeps: bool) -> None:
        self.scheduler.leave(sequence, keeps=keeps)
        self.left.append(sequence)

    @invariant()
    def everyone_is_somewhere_once(self) -> None:
        here = [id(sequence) for sequence in [*self.scheduler.sequences, *self.left]]
        assert sorted(here) == sorted(id(sequence) for sequence in self.joined)

    @invariant()
    def no_more_run_and_no_more_is_held_than_there_is_room_for(self) -> None:
        assert len(self.scheduler.running) <= MOST
        assert self.scheduler.used <= ROOM
        assert all(sequence.kv is None for sequence in self.left)

    @invariant()
    def no_sequence_goes_on_from_what_is_not_its_own(self) -> None:
        for sequence in self.scheduler.sequences:
            if sequence.kv is None or sequence.generation != self.scheduler.generation:
                continue
            held = sequence.kv.layers[0][0][0, 0, : sequence.computed, 0].tolist()
            assert held == [float(token) + 100 * sequence.generation for token in sequence.tokens[: sequence.computed]]

    def teardown(self) -> None:
        """Each waiting request is answered in the end: each step computes something, and ends one."""
        for _ in range(2000):
            if not self.scheduler.sequences:
                return
            self.step()
        raise AssertionError(f"{len(self.scheduler.sequences)} wait for ever")


TestComing = Coming.TestCase
TestComing.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
