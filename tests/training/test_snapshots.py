"""A run that was stopped after some of its updates goes on from there, to the weights it would have come to."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from core.stops import Stopped
from gpu_workers.learner import policy_files, products
from tests.training.test_launch import LORA, Heard, job  # noqa: F401
from training import launch, learning, snapshots

RECIPE = LORA.model_copy(update={"updates": 3, "micro_batch": 1})
WEIGHTS = "adapter_model.safetensors"


class Worker(Heard):
    """A Listener of a worker that is asked to stop after so many samples of the updates (None: of one that is not), or
    only between two of these."""

    def __init__(self, stops_after=None, between=False):
        super().__init__()
        self.stops_after, self.between, self.skipped, self.work = stops_after, between, 0, 0

    def beat(self, phase, done, total, *, work=0, force=False):
        super().beat(phase, done, total)
        self.work += work
        is_heard = phase == "learning" and self.stops_after is not None and (force or not self.between)
        if is_heard and done >= self.stops_after:
            raise Stopped("Stop.")

    def skip(self, work):
        self.skipped += work


@pytest.fixture
def kept(job, tmp_path):  # noqa: F811
    """Jobs that are the same but for their folders, with one place for a snapshot. A batch has three samples."""
    return lambda name, **fields: replace(job(RECIPE, name), snapshot=tmp_path / "snapshots" / "1", **fields)


def stopped(one, after, between=False):
    worker = Worker(after, between)
    with pytest.raises(Stopped):
        learning.learn(one, worker)
    return worker


def told(figures):
    """What the figures of updates say, but for how long they took."""
    return [{name: value for name, value in row.items() if name not in ("seconds", "tokens_per_s")} for row in figures]


@pytest.mark.parametrize(("after", "between"), [(3, True), (4, False)], ids=["between updates", "in the middle of one"])
def test_a_run_that_goes_on_comes_to_the_very_weights_of_one_that_was_not_stopped(kept, tmp_path, after, between):
    whole, second = Worker(), Worker()
    learned = learning.learn(kept("whole"), whole)
    stopped(kept("first"), after, between)
    assert not (tmp_path / "first").exists()

    went_on = learning.learn(kept("second"), second)

    for file in (WEIGHTS, policy_files.OPTIMIZER_FILE):
        one, other = load_file(tmp_path / "whole" / file), load_file(tmp_path / "second" / file)
        assert one.keys() == other.keys()
        assert all(bool((one[name] == other[name]).all()) for name in one)
    assert went_on.probe == learned.probe
    assert told(second.figures) == told(whole.figures)
    # The first of three updates was done: three samples, of which each is as much work as three looks.
    assert (second.skipped, whole.work - second.work) == (9, 9)


def test_a_run_on_an_adapter_may_be_stopped_again_and_again(kept, tmp_path):
    learning.learn(kept("start"), Worker())
    fields = {"start": tmp_path / "start"}
    learning.learn(kept("whole", **fields), Worker())
    stopped(kept("a", **fields), 4)
    stopped(kept("b", **fields), 3)  # nothing more was done: the snapshot is as it was
    assert len(stopped(kept("c", **fields), 7).figures) == 2

    last = Worker()
    learning.learn(kept("last", **fields), last)

    assert last.skipped == 18
    one, other = load_file(tmp_path / "whole" / WEIGHTS), load_file(tmp_path / "last" / WEIGHTS)
    assert all(bool((one[name] == other[name]).all()) for name in one)
    assert [path.name for path in (tmp_path / "snapshots").iterdir()] == ["1"]  # and no draft


class Killed(BaseException):
    """What no code of ours may catch, as nothing catches SIGKILL."""


def killed(one, after):
    worker = Worker()

    def beat(phase, done, total, *, work=0, force=False):
        if phase == "learning" and done >= after:
            raise Killed

    worker.beat = beat
    with pytest.raises(Killed):
        learning.learn(one, worker)


def test_a_run_that_takes_long_and_is_killed_goes_on_too(kept, monkeypatch):
    monkeypatch.setattr(snapshots, "EVERY_S", 0.0)  # every update takes longer
    killed(kept("first"), 7)  # in the third
    worker = Worker()
    learning.learn(kept("second"), worker)
    assert worker.skipped == 18


def test_a_short_run_writes_no_snapshot(kept, tmp_path):
    killed(kept("first"), 7)
    assert not (tmp_path / "snapshots").exists()


def test_a_snapshot_that_cannot_be_written_fails_no_run(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "EVERY_S", 0.0)
    (tmp_path / "snapshots").write_text("a file where the folder would be")
    worker = Worker()
    learning.learn(kept("first"), worker)
    assert len(worker.figures) == 3


def test_before_the_first_update_is_done_there_is_nothing_to_keep(kept, tmp_path):
    stopped(kept("first"), 2)
    assert not (tmp_path / "snapshots").exists()


def fewer(one):
    """As where a sample was taken back meanwhile."""
    return replace(one, examples=one.examples[1:], is_own=one.is_own[1:])


def newer(one):
    return replace(one, code_version="0.9.0")


def faster(one):
    return replace(one, recipe=one.recipe.model_copy(update={"lr": 2e-2}))


@pytest.mark.parametrize("changed", [fewer, newer, faster])
def test_another_job_does_not_go_on_from_it(kept, changed):
    stopped(kept("first"), 4)

    worker = Worker()
    learning.learn(changed(kept("second")), worker)

    assert worker.skipped == 0
    assert len(worker.figures) == 3


def test_where_the_engines_are_does_not_matter(kept):
    stopped(kept("first"), 4)
    assert snapshots.find(kept("second", gives_way_to=("http://127.0.0.1:1",))) is not None


def test_a_run_goes_on_in_the_precision_of_its_snapshot_whatever_the_machine_is_quicker_in(kept, monkeypatch):
    monkeypatch.setattr(products, "seconds", lambda: {torch.bfloat16: 1.0, torch.float32: 2.0})
    assert launch.settle_dtype(kept("first", dtype="auto")).dtype == "bfloat16"  # 1.0 is below 0.8 of 2.0
    stopped(kept("first", dtype="float32"), 4)

    again = launch.settle_dtype(kept("second", dtype="auto"))

    assert again.dtype == "float32"
    assert snapshots.find(again) is not None


def test_what_cannot_be_read_is_no_snapshot(kept, tmp_path):
    stopped(kept("first"), 4)
    (tmp_path / "snapshots" / "1" / snapshots.FILE).write_text("{")
    assert snapshots.find(kept("second")) is None


def test_only_snapshots_of_runs_at_work_are_kept(tmp_path):
    for name in ("1", "2", "2.0a1b", ".2.0a1b.9f", "1.0a1b", ".1.0a1b.9f"):
        (snapshots.home(tmp_path) / name).mkdir(parents=True)
    snapshots.clear(tmp_path, keep=[2])
    assert sorted(path.name for path in snapshots.home(tmp_path).iterdir()) == [".2.0a1b.9f", "2", "2.0a1b"]
