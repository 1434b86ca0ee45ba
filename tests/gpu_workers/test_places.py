"""The engine's places, by whatever comes and goes in whatever order: nothing of the model, nothing of the thread."""

from __future__ import annotations

import random

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpu_workers.embedded.cache import KV, Shape
from gpu_workers.embedded.places import CHUNK_ALONE, Places
from gpu_workers.embedded.requests import Ask
from gpu_workers.embedded.sampling import Dice, Params
from gpu_workers.embedded.strands import Strand
from gpu_workers.embedded.text import Text

MOST, ROOM = 3, 120

# Two openings, longer than what is worth waiting for, that many prompts share.
PROMPTS = st.tuples(st.sampled_from([0, 1]), st.integers(1, 50), st.integers(0, 3)).map(
    lambda drawn: [*([drawn[0]] * drawn[1]), 10 + drawn[2]]
)


class Coming(RuleBasedStateMachine):
    """A strand's keys are what was computed of it: each token's id, and a hundred for every change of the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.places = Places(
            lambda tokens: KV([Shape(1, 1, 1)], tokens, torch.float32), max_running=MOST, max_tokens=ROOM
        )
        self.joined: list[Strand] = []
        self.left: list[Strand] = []

    @rule(ids=PROMPTS, more=st.integers(1, 8), priority=st.integers(0, 2))
    def join(self, ids: list[int], more: int, priority: int) -> None:
        number = len(self.joined)
        ask = Ask(f"r{number}", tuple(ids), Params(max_new_tokens=more), priority=priority)
        tokens = np.zeros(len(ids) + more, dtype=np.int64)
        tokens[: len(ids)] = ids
        text = Text(lambda _: "", (), False)
        strand = Strand(ask, None, lambda _: None, number, text, Dice(0), tokens, len(ids))
        self.joined.append(strand)
        self.places.join([strand])

    @rule()
    def step(self) -> None:
        """As the engine's: let in, compute what is planned, draw a token where all was read, end at the length."""
        self.places.admit(only_begun=False)
        planned = self.places.plan()
        running = self.places.running
        assert {id(strand) for strand, _ in planned} <= {id(strand) for strand in running}
        assert not running or planned, "the running sequence that is first by rank is never held up"
        assert sum(n for strand, n in planned if strand.is_reading) <= CHUNK_ALONE
        for strand, n in planned:
            assert strand.kv is not None
            start = strand.computed
            keys = strand.kv.layers[0][0]
            keys[0, 0, start : start + n, 0] = torch.tensor(
                strand.tokens[start : start + n] + 100.0 * self.places.generation, dtype=torch.float32
            )
            strand.kv.length = start + n
            if strand.computed == strand.length:
                strand.tokens[strand.length] = 20
                strand.length += 1
            if strand.output_length == strand.ask.params.max_new_tokens:
                self.end(strand, keeps=True)

    @rule(which=st.randoms(use_true_random=False), keeps=st.booleans())
    @precondition(lambda self: self.places.strands)
    def abort(self, which: random.Random, keeps: bool) -> None:
        self.end(which.choice(self.places.strands), keeps=keeps)

    @rule()
    def retract(self) -> None:
        self.places.step_back()

    @rule()
    def renew(self) -> None:
        self.places.renew()

    def end(self, strand: Strand, *, keeps: bool) -> None:
        self.places.leave(strand, keeps=keeps)
        self.left.append(strand)

    @invariant()
    def everyone_is_somewhere_once(self) -> None:
        here = [id(strand) for strand in [*self.places.strands, *self.left]]
        assert sorted(here) == sorted(id(strand) for strand in self.joined)

    @invariant()
    def no_more_run_and_no_more_is_held_than_there_is_room_for(self) -> None:
        assert len(self.places.running) <= MOST
        assert self.places.used <= ROOM
        assert all(strand.kv is None for strand in self.left)

    @invariant()
    def no_sequence_goes_on_from_what_is_not_its_own(self) -> None:
        for strand in self.places.strands:
            if strand.kv is None or strand.generation != self.places.generation:
                continue
            held = strand.kv.layers[0][0][0, 0, : strand.computed, 0].tolist()
            assert held == [float(token) + 100 * strand.generation for token in strand.tokens[: strand.computed]]

    def teardown(self) -> None:
        """Each waiting request is answered in the end: each step computes something, and ends one."""
        for _ in range(2000):
            if not self.places.strands:
                return
            self.step()
        raise AssertionError(f"{len(self.places.strands)} wait for ever")


TestComing = Coming.TestCase
TestComing.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
