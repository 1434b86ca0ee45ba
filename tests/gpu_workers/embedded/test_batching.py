"""The batcher on the tiny model, in this process: who is served when, from what, and with which numbers."""

from __future__ import annotations

import threading
from collections import abc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.tiny import write_tiny_adapter, write_tiny_model
from gpu_workers.embedded.adapters import read_adapter
from gpu_workers.embedded.generate_requests import Ask
from gpu_workers.embedded.model import Model, Piece
from gpu_workers.embedded.sampling import Params
from gpu_workers.embedded.scheduler import CHUNK_BESIDE_EQUAL, CHUNK_BESIDE_HIGHER
from tests.gpu_workers.embedded.desk import DEADLINE_S, Desk, Reader


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Model:
    return Model(str(tiny_model), "float32")


@pytest.fixture
def make_desk(model: Model) -> Iterator[Callable[..., Desk]]:
    desks: list[Desk] = []

    def make(**settings: Any) -> Desk:
        desks.append(Desk(model, **settings))
        return desks[-1]

    yield make
    for desk in desks:
        desk.batcher.stop()
    del model.forward  # the class's own again


def test_a_seed_repeats_a_reply_alone_and_in_company(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    prompt = [1, 40, 41]
    alone = desk.ask(prompt, temperature=1.0, sampling_seed=5, max_new_tokens=40).wait()

    company = desk.ask_all([[1, n, n + 1] for n in range(60, 66)], temperature=1.0, max_new_tokens=60)
    company[0].begun.wait(DEADLINE_S)
    again = desk.ask(prompt, temperature=1.0, sampling_seed=5, max_new_tokens=40).wait()
    other = desk.ask(prompt, temperature=1.0, sampling_seed=6, max_new_tokens=40).wait()

    assert again == alone
    assert other != alone


def test_a_prefix_that_several_share_is_computed_once(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    prefix = list(range(100, 400))

    readers = desk.ask_all([[*prefix, 400 + n] for n in range(5)])
    for reader in readers:
        reader.wait()

    computed = sum(len(piece.ids) for pieces in desk.forwards for piece in pieces if len(piece.ids) > 1)
    assert computed < 300 + 5 * 8
    assert sorted(reader.cached_tokens for reader in readers) == [0, 300, 300, 300, 300]


def test_a_long_prefix_is_computed_once_however_the_end_changes(make_desk: Callable[..., Desk]) -> None:
    """OpenClaw puts a message behind the user's words that is gone, or another, in the next request."""
    desk = make_desk(max_tokens=16384)  # two such conversations fit, not three
    told = [n % 500 + 5 for n in range(6000)]  # system prompt and tools
    shared = 0
    for turn in range(4):
        said = told + [turn + 7] * 20
        context = [300 + turn] * 60
        reader = desk.ask(said + context, max_new_tokens=4)
        reply = reader.wait()
        if turn:
            assert reader.cached_tokens == shared  # the last reply stood behind another context
            computed = sum(len(piece.ids) for forward in desk.forwards for piece in forward)
            assert computed <= len(said) + len(context) - reader.cached_tokens + len(reply)
        told, shared = said + reply, len(said)  # without the context
        desk.forwards.clear()


def test_what_was_computed_for_one_adapter_serves_no_other(
    make_desk: Callable[..., Desk], model: Model, tmp_path: Path
) -> None:
    desk = make_desk()
    layers = {name: (linear.in_features, linear.out_features) for name, linear in model.linears.items()}
    for n, name in enumerate("ab"):
        folder = write_tiny_adapter(tmp_path / name, seed=n)
        desk.batcher.add_adapter(read_adapter(name, str(folder), layers, 64)).result(DEADLINE_S)
    prompt = list(range(100, 160))

    readers = [desk.ask(prompt, adapter=name, temperature=0) for name in (None, "a", "b", "a")]
    replies = [reader.wait() for reader in readers]

    assert readers[2].cached_tokens == 0
    assert replies[1] == replies[3]
    assert replies[0] != replies[1] != replies[2]


def test_a_long_prompt_does_not_stall_a_stream(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    long: list[Reader] = []

    def ask() -> None:
        long.append(desk.ask([n % 400 + 50 for n in range(1500)], max_new_tokens=1))

    desk.meanwhile(ask, [1, 50], max_new_tokens=100).wait()
    long[0].wait()

    beside = [pieces for pieces in desk.forwards if any(len(piece.ids) > 1 for piece in pieces) and len(pieces) > 1]
    assert len(beside) >= 20
    for pieces in beside:
        assert 1 in [len(piece.ids) for piece in pieces]  # the stream had its token in each of these steps
        assert sum(len(piece.ids) for piece in pieces if len(piece.ids) > 1) <= CHUNK_BESIDE_EQUAL


def bites(desk: Desk, length: int, **about: Any) -> list[int]:
    """How a prompt of this length is read beside a reply of priority 10."""
    read: list[Reader] = []

    def ask() -> None:
        read.append(desk.ask(list(range(60, 60 + length)), **about))

    desk.meanwhile(ask, [1, 50], max_new_tokens=100, priority=10).wait()
    read[0].wait()
    return [len(p.ids) for pieces in desk.forwards if len(pieces) > 1 for p in pieces if len(p.ids) > 1]


def test_a_prompt_of_lower_rank_takes_smaller_bites(make_desk: Callable[..., Desk]) -> None:
    assert 0 < max(bites(make_desk(), 300, max_new_tokens=1, priority=0)) <= CHUNK_BESIDE_HIGHER


def test_what_is_only_scored_takes_smaller_bites_beside_replies_of_its_own_rank(
    make_desk: Callable[..., Desk],
) -> None:
    assert 0 < max(bites(make_desk(), 200, max_new_tokens=0, priority=10)) <= CHUNK_BESIDE_HIGHER


def test_where_nobody_minds_a_slower_stream_a_prompt_is_read_quickly_and_one_of_lower_rank_at_a_quarter(
    make_desk: Callable[..., Desk],
) -> None:
    assert bites(make_desk(chunk=100), 300, max_new_tokens=0, priority=10) == [100, 100, 100]
    assert bites(make_desk(chunk=100), 100, max_new_tokens=0, priority=0) == [25, 25, 25, 25]


def test_the_higher_rank_goes_first_and_the_lower_loses_nothing(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(max_running=1)
    low_prompt, order = [1, 70, 71], []
    alone = desk.ask(low_prompt, sampling_seed=3, max_new_tokens=60).wait()

    low = desk.ask(low_prompt, sampling_seed=3, max_new_tokens=60)
    assert low.begun.wait(DEADLINE_S)
    high = desk.ask([1, 80], priority=10, max_new_tokens=10)
    low.on_token = lambda: order.append("low")
    high.on_token = lambda: order.append("high")
    high.wait()

    assert low.wait() == alone  # it stepped back, and went on where it had been
    first_high = order.index("high")
    assert order[first_high : first_high + 10] == ["high"] * 10


def test_room_is_never_exceeded_and_everybody_is_served(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(max_tokens=256)
    used: list[float] = []
    readers = desk.ask_all([[1, *range(50 + n, 110 + n)] for n in range(12)], max_new_tokens=20)
    for reader in readers:
        reader.on_token = lambda: used.append(desk.batcher.counts()["num_used_tokens"])

    assert all(len(reader.wait()) == 20 for reader in readers)
    assert 0 < max(used) <= 256


def test_the_least_recently_used_prefix_goes_first(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(max_tokens=300)
    old, young = list(range(50, 150)), list(range(200, 300))
    desk.ask(old, max_new_tokens=1).wait()
    desk.ask(young, max_new_tokens=1).wait()
    desk.ask(list(range(300, 390)), max_new_tokens=60).wait()  # needs the room of one

    kept = desk.ask(young, max_new_tokens=1)
    kept.wait()
    gone = desk.ask(old, max_new_tokens=1)
    gone.wait()

    assert kept.cached_tokens == 99
    assert gone.cached_tokens == 0


def test_an_abort_frees_the_place_at_once(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(max_running=1)
    endless = desk.ask([1, 50], max_new_tokens=1900)
    assert endless.begun.wait(DEADLINE_S)
    next_one = desk.ask([1, 60])

    assert endless.sequence is not None
    desk.batcher.abort([endless.sequence])

    assert next_one.wait()
    assert endless.ending["type"] == "abort"
    assert len(endless.ids) < 1900


def test_what_old_weights_computed_serves_nobody_new(
    make_desk: Callable[..., Desk], model: Model, tiny_model: Path, tmp_path: Path
) -> None:
    desk = make_desk()
    other = write_tiny_model(tmp_path / "other", seed=9)
    prompt = list(range(60, 120))
    running = desk.ask(prompt, max_new_tokens=200)
    assert running.begun.wait(DEADLINE_S)
    try:
        desk.batcher.pause("in_place").result(DEADLINE_S)
        state = model.read_weights(str(other))
        desk.batcher.update(state, str(other), "v2", abort=False).result(DEADLINE_S)
        desk.batcher.resume().result(DEADLINE_S)
        running.wait()  # its keys and values are half old, half new: they must not be kept

        fresh = desk.ask(prompt, temperature=0)
        reply = fresh.wait()

        expected = Desk(Model(str(other), "float32"))
        assert fresh.cached_tokens == 0
        assert reply == expected.ask(prompt, temperature=0).wait()
        expected.batcher.stop()
    finally:
        desk.batcher.pause("abort").result(DEADLINE_S)
        model.set_weights(model.read_weights(str(tiny_model)), str(tiny_model))


def test_new_weights_wait_for_every_reply_that_has_begun_and_go_before_those_that_have_not(
    make_desk: Callable[..., Desk], model: Model, tiny_model: Path, tmp_path: Path
) -> None:
    desk = make_desk(max_running=1)
    other = write_tiny_model(tmp_path / "other", seed=9)
    low = desk.ask([1, 70, 71], max_new_tokens=60, temperature=0)
    assert low.begun.wait(DEADLINE_S)
    high = desk.ask([1, 80], priority=10, max_new_tokens=400)
    assert high.begun.wait(DEADLINE_S)  # low has stepped back with what it had computed
    try:
        swapped = desk.batcher.update(model.read_weights(str(other)), str(other), "v2", abort=False)
        late = desk.ask([1, 90], priority=10, max_new_tokens=20, temperature=0)
        swapped.result(DEADLINE_S)

        assert low.ended.is_set()
        assert high.ended.is_set()
        fresh = Desk(Model(str(other), "float32"))
        assert late.wait() == fresh.ask([1, 90], max_new_tokens=20, temperature=0).wait()
        assert [len(reader.ids) for reader in (low, high, late)] == [60, 400, 20]
        stamps = [[span["version"] for span in reader.versions] for reader in (low, high, late)]
        assert stamps == [["base"], ["base"], ["v2"]]
        fresh.batcher.stop()
    finally:
        desk.batcher.pause("abort").result(DEADLINE_S)
        model.set_weights(model.read_weights(str(tiny_model)), str(tiny_model))


def test_who_hears_of_tokens_finds_them_counted(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    counted: list[tuple[int, int, int]] = []

    def on_token() -> None:  # on the model's thread, as each token is told: nothing moves meanwhile
        metrics = desk.batcher.metrics
        counted.append((metrics.new_tokens, sum(metrics.requests.values()), metrics.prompt_tokens))

    desk.batcher.pause("in_place").result(DEADLINE_S)
    reader = desk.ask([1, 60, 61, 62], max_new_tokens=3)
    reader.on_token = on_token
    desk.batcher.resume().result(DEADLINE_S)
    reader.wait()

    # Three tokens after a prompt of four; the request is over with the last.
    assert counted == [(1, 0, 4), (2, 0, 4), (3, 1, 4)]


def test_a_failing_model_ends_every_request_with_an_error(make_desk: Callable[..., Desk], model: Model) -> None:
    desk = make_desk()
    told = threading.Event()
    desk.batcher.on_failure = told.set

    def broken(pieces: abc.Sequence[Piece], wanted: abc.Sequence[int]) -> torch.Tensor:
        raise RuntimeError("out of memory")

    model.forward = broken  # type: ignore[method-assign]
    reader = desk.ask([1, 50])
    reader.wait()

    assert reader.ending["status_code"] == 500
    assert told.wait(DEADLINE_S)
    assert isinstance(desk.batcher.failed, RuntimeError)


class Failing:
    """A grammar that grows beyond its limits, before or behind its second token."""

    def __init__(self, where: str) -> None:
        self._where, self._taken = where, 0

    def barred(self) -> torch.Tensor:
        if self._where == "barred" and self._taken:
            raise ValueError("too many items")
        return torch.zeros(512, dtype=torch.bool)

    def take(self, token: int) -> None:
        self._taken += 1
        if self._where == "take" and self._taken == 2:
            raise ValueError("too many items")


@pytest.mark.parametrize("where", ["barred", "take"])
def test_a_grammar_that_fails_ends_its_own_reply_alone(make_desk: Callable[..., Desk], where: str) -> None:
    desk = make_desk()
    other, failed = Reader(), Reader()
    params = Params(max_new_tokens=8, ignore_eos=True)
    asks = [(Ask("other", (5, 6), params), other), (Ask("failed", (5, 7), params), failed)]
    desk.batcher.submit(asks, [None, Failing(where)])  # type: ignore[list-item]

    failed.wait()
    assert (failed.ending["type"], failed.ending["status_code"]) == ("abort", 400)
    assert "too many items" in failed.ending["message"]
    assert len(other.wait()) == 8
    assert desk.batcher.failed is None


@pytest.mark.parametrize(
    ("interval", "said"),
    [(1, [1] * 9), (4, [1, 4, 4]), (7, [1, 7, 1]), (0, [9])],  # the first at once, then so many, then what is left
)
def test_a_reply_is_said_so_many_tokens_at_a_time_and_none_is_left_out(
    make_desk: Callable[..., Desk], interval: int, said: list[int]
) -> None:
    reader = Reader()
    params = Params(max_new_tokens=9, ignore_eos=True)
    ask = Ask("it", (5, 6, 7), params, return_logprob=True, top_logprobs=2, interval=interval)
    make_desk().batcher.submit([(ask, reader)])
    reader.wait()

    assert [len(output.ids) for output in reader.heard] == said
    assert [len(output.logprobs) for output in reader.heard] == said
    assert [len(output.tops) for output in reader.heard] == said


def test_what_was_not_said_yet_is_said_when_a_reply_is_aborted(make_desk: Callable[..., Desk]) -> None:
    batcher, reader, beside = make_desk().batcher, Reader(), Reader()

    def abort() -> None:
        if len(beside.ids) == 4:  # on the model's thread, so before the fifth is drawn
            batcher.abort_id("it")

    beside.on_token = abort
    params = Params(max_new_tokens=9, ignore_eos=True)
    batcher.submit([(Ask("it", (5, 6, 7), params, interval=100), reader), (Ask("beside", (8, 9, 10), params), beside)])
    reader.wait()

    assert [len(output.ids) for output in reader.heard] == [1, 3]  # of the four that each had by then
    assert reader.ending["type"] == "abort"


def test_what_stays_when_nothing_runs_is_bounded_and_adapters_count(
    make_desk: Callable[..., Desk], model: Model, tmp_path: Path
) -> None:
    layers = {
        name: (one.in_features, one.out_features) for name, one in model.linears.items() if name in model.adaptable
    }
    adapter = read_adapter("a", str(write_tiny_adapter(tmp_path, seed=1)), layers, 64)
    size = model.bytes_per_token
    room = adapter.bytes + 100 * size  # of an adapter and a hundred tokens
    desk = make_desk(kept_bytes=room)
    for first in range(20):
        desk.ask([first + 5, *range(30, 60)], max_new_tokens=4).wait()

    held = desk.batcher.holdings()  # each leaves a buffer of 31 + 4 tokens
    assert held["memory_kv_kept_bytes"] == room // size // 35 * 35 * size
    assert held["memory_kv_running_bytes"] == held["memory_adapters_bytes"] == 0

    desk.batcher.add_adapter(adapter).result(DEADLINE_S)
    held = desk.batcher.holdings()
    assert held["memory_adapters_bytes"] == adapter.bytes
    assert held["memory_kv_kept_bytes"] == 70 * size  # two of 35 in the hundred tokens that are left
