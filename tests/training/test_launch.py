"""Several processes learn what one learns, and end with the process that started them. Gloo on a CPU; the tiny
model."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from safetensors.torch import load_file

from gpu_workers.errors import NothingLearned, OutOfMemory
from gpu_workers.learner import policy_files
from gpu_workers.learner.learner import Learner
from gpu_workers.types import Example
from tests.ready_samples import PROMPT, RESPONSE
from training import batches, jobs, launch, learning, runs
from training.config import Recipe
from training.models import Run, Sample
from training.objective.closed_questions import Question
from training.objective.merged_rows import Step, merged_rows
from training.running import run_ledger

LORA = Recipe(distillation="vocabulary", w_sft=1, w_closed=1, lr=1e-2, updates=2, lora_rank=4, max_gap=99)
FULL = LORA.model_copy(update={"weights": "full", "lr": 1e-3})


class Heard:
    """A Listener that remembers."""

    def __init__(self, stop=None):
        self.beats, self.figures, self.stop = [], [], stop

    def beat(self, phase, done, total, *, work=0, force=False):
        self.beats.append((phase, done, total))
        if self.stop:
            self.stop(phase)

    def keep(self, figures):
        self.figures.append(figures)

    def skip(self, work):
        """Nothing was done before."""


@pytest.fixture
def job(tiny_model, tmp_path):
    """Three replies of different lengths, one with a teacher and one rewritten: two for one process, one for the
    other; one more rewrite of an earlier run; and a closed question."""

    def job(recipe, name, **fields):
        examples = [
            Example(PROMPT, RESPONSE, [-4.0] * 5, teacher_prompt_ids=[*PROMPT, 77], reward=-1.0),
            Example(PROMPT[:3], RESPONSE[:2], [-4.0] * 2, reward=1.0, rewrite=(PROMPT[:3], [30, 2])),
            Example([1, 9], RESPONSE[:4], [-4.0] * 4, reward=-1.0),
        ]
        again = [Example(PROMPT, RESPONSE, [-4.0] * 5, rewrite=(PROMPT, RESPONSE[::-1]))]
        asked = [Question([1, 60], [[90, 91], [92], [93, 94]])]
        made = jobs.Job(str(tiny_model), None, recipe, 3, examples, [True] * 3, tmp_path / name, again, asked)
        return replace(made, dtype="float32", **fields)

    return job


def apart(one, other, name):
    """The largest difference between two checkpoints, and between their optimisers' first moments."""
    weights = [load_file(folder / name) for folder in (one, other)]
    moments = [load_file(folder / policy_files.OPTIMIZER_FILE) for folder in (one, other)]
    assert weights[0].keys() == weights[1].keys()
    assert moments[0].keys() == moments[1].keys()
    firsts = [key for key in moments[0] if key.startswith("exp_avg.")]
    assert firsts
    return (
        max(float((weights[0][key] - weights[1][key]).abs().max()) for key in weights[0]),
        max(float((moments[0][key] - moments[1][key]).abs().max()) for key in firsts),
    )


def test_frozen_models_read_a_micro_batch_at_a_time_and_less_where_there_is_no_room(job, tiny_model, monkeypatch):
    learner, heard = Learner(tiny_model, dtype="float32", micro_batch=2), Heard()
    read = learner._scored

    def scored(causal, pairs):
        if len(pairs) > 2:
            raise MemoryError
        return read(causal, pairs)

    monkeypatch.setattr(learner, "_scored", scored)
    views = learning.score_with_frozen_models(learner, job(LORA, "one"), heard)

    assert [len(view.example.response_ids) for view in views] == [5, 2, 4]
    assert heard.beats == [("teacher", 0, 3), ("teacher", 2, 3), ("teacher", 3, 3)]
    assert learner.micro_batch == 1  # two replies and a teacher were three rows


@pytest.mark.processes
@pytest.mark.parametrize("micro_batch", [1, 2])
def test_two_processes_learn_the_adapter_that_one_learns(job, tmp_path, micro_batch):
    alone, heard = Heard(), Heard()
    together = LORA.model_copy(update={"micro_batch": micro_batch})
    one = launch.learn(job(LORA, "one"), alone, home=tmp_path / "jobs")
    two = launch.learn(job(together, "two"), heard, home=tmp_path / "jobs", processes=2)

    # Three samples on two processes: a sample that weighed 1/2 or 1/4 in place of 1/3 would show in the first digit.
    weights, moments = apart(tmp_path / "one", tmp_path / "two", "adapter_model.safetensors")
    assert weights < 1e-4  # a hundredth of a step: Adam divides rounding by gradients that are all but nothing
    assert moments < 1e-7
    assert two.probe["logprobs"] == pytest.approx(one.probe["logprobs"], abs=1e-4)
    assert [phase for phase, _, _ in heard.beats if phase == "saving"] == ["saving", "saving"]
    for ours, theirs in zip(alone.figures, heard.figures, strict=True):
        assert ours.keys() == theirs.keys()
        for name in (
            "loss",
            "closed_loss",
            "kl",
            "entropy",
            "grad_norm",
            "advantage_min",
            "advantage_max",
            "tokens",
            "gap_mean",
        ):
            assert theirs[name] == pytest.approx(ours[name], rel=1e-5, abs=1e-6)
    assert list((tmp_path / "jobs").iterdir()) == []


@pytest.mark.processes
def test_two_processes_weigh_attempts_in_several_rows_as_one_does(job, tmp_path):
    """Three rows of two attempts and a reply: one process has both rows of the first, the other the rest."""
    recipe = LORA.model_copy(update={"w_sft": 0, "w_closed": 0})
    reply = Example(PROMPT, RESPONSE, [-4.0] * 5, reward=-1.0)
    steps = [Step([1, at], [30 + at, 2], [-4.0] * 2, advantage=0.5 * at) for at in (1, 2)]
    rows = merged_rows([steps, [Step([1, 9], RESPONSE[:4], [-4.0] * 4, advantage=-1.0)]]).rows
    examples = [rows[0][0], reply, rows[0][1], rows[1][0]]
    for name, processes in (("one", 1), ("two", 2)):
        heard = Heard()
        asked = job(recipe, name, examples=examples, is_own=[False] * 4, replayed=(), questions=())
        launch.learn(asked, heard, home=tmp_path / "jobs", processes=processes)
        assert heard.figures[0]["attempts"] == 2

    weights, moments = apart(tmp_path / "one", tmp_path / "two", "adapter_model.safetensors")
    assert moments < 1e-6
    assert weights < 1e-3


@pytest.mark.processes
def test_two_processes_learn_the_full_weights_that_one_learns(job, tmp_path):
    launch.learn(job(FULL, "one"), Heard(), home=tmp_path / "jobs")
    launch.learn(job(FULL, "two"), Heard(), home=tmp_path / "jobs", processes=2)
    again = job(FULL, "again", start=tmp_path / "one")
    launch.learn(again, Heard(), home=tmp_path / "jobs")
    launch.learn(
        replace(again, start=tmp_path / "two", folder=tmp_path / "more"), Heard(), home=tmp_path / "jobs", processes=2
    )

    # Adam divides by what gradients usually are: where they are all but nothing, rounding is as long as a step (1e-3).
    for one, two in (("one", "two"), ("again", "more")):
        weights, moments = apart(tmp_path / one, tmp_path / two, "model.safetensors")
        assert weights < 1e-3
        assert moments < 1e-6
    assert json.loads((tmp_path / "more" / "learner.json").read_text())["steps"] == 4


@pytest.mark.processes
def test_a_base_in_shards_teaches_its_adapter_the_same(job, tmp_path):
    launch.learn(job(LORA, "one"), Heard(), home=tmp_path / "jobs")
    together = LORA.model_copy(update={"micro_batch": 2})
    launch.learn(job(together, "two", is_sharded=True), Heard(), home=tmp_path / "jobs", processes=2)

    weights, moments = apart(tmp_path / "one", tmp_path / "two", "adapter_model.safetensors")
    assert weights < 1e-4  # a hundredth of a step: Adam divides rounding by gradients that are all but nothing
    assert moments < 1e-7


@pytest.mark.processes
def test_a_reason_that_has_a_name_comes_back_with_it(job, tmp_path):
    with pytest.raises(NothingLearned, match="changed no weight"):
        launch.learn(job(LORA.model_copy(update={"lr": 1e-45}), "one"), Heard(), home=tmp_path / "jobs", processes=2)
    assert list((tmp_path / "jobs").iterdir()) == []


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def outlives(pid):
    """Whether it goes on: one that was killed closes its files before it is gone, on a busy machine long before."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        return not select.select([watch], [], [], 10)[0]
    finally:
        os.close(watch)


@pytest.mark.processes
def test_a_killed_process_ends_the_others_and_says_how(job, tmp_path):
    group = launch.Group(job(LORA, "one"), tmp_path / "jobs", 2)

    def kill(phase):
        if phase == "learning" and is_running(group.pids[1]):
            os.kill(group.pids[1], signal.SIGKILL)

    with group, pytest.raises(launch.GroupEnded, match=r"2 learning processes ended before.*SIGKILL"):
        group.followed(Heard(kill))
    assert not (tmp_path / "one").exists()


@pytest.mark.processes
def test_what_the_listener_raises_stops_every_process(job, tmp_path):
    group = launch.Group(job(LORA, "one"), tmp_path / "jobs", 2)
    pids = []

    def stop(phase):
        pids.extend(group.pids)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), group:
        group.followed(Heard(stop))

    assert len(pids) == 2
    assert not any(outlives(pid) for pid in pids)


@pytest.mark.processes
def test_where_memory_ends_the_processes_begin_anew_with_half_the_micro_batch(job, tmp_path, monkeypatch):
    tried = []

    class Narrow:
        """A group on cards that hold one sample at a time."""

        def __init__(self, job, home, processes):
            self.micro_batch = job.recipe.micro_batch
            tried.append(self.micro_batch)

        def __enter__(self):
            return self

        def __exit__(self, *raised):
            return None

        def followed(self, ledger):
            if self.micro_batch > 1:
                raise OutOfMemory("No room.")
            return jobs.Learned({}, 1.0)

    monkeypatch.setattr(launch, "Group", Narrow)
    wide = LORA.model_copy(update={"micro_batch": 4})

    assert launch.learn(job(wide, "one"), Heard(), home=tmp_path / "jobs", processes=2).peak_mib == 1.0
    assert tried == [4, 2, 1]


STARTER = """
import sys
from pathlib import Path
from training import launch

class Stuck:
    def beat(self, phase, *args, **kwargs):
        if phase != "loading":
            print(*group.pids, flush=True)
            sys.stdin.read()

group = launch.Group(launch._read(Path(sys.argv[1])), Path(sys.argv[1]) / "jobs", 2)
with group:
    group.followed(Stuck())
"""


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux tells when another process's child ends")
def test_a_group_ends_with_the_worker_that_is_killed(job, tmp_path):
    (tmp_path / "job.json").write_text(json.dumps(launch._written(job(LORA, "one"))))
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    pids = [int(pid) for pid in starter.stdout.readline().split()]
    assert len(pids) == 2
    ends = [os.pidfd_open(pid) for pid in pids]

    starter.kill()
    starter.communicate()

    for end in ends:
        assert select.select([end], [], [], 120)[0]
        os.close(end)
    assert not (tmp_path / "one").exists()


# Under a run


@pytest.fixture
def queued(ready, home, settings):
    """A run of three samples that two processes are to learn, and the groups that it starts."""
    settings.LEARN_PROCESSES = 2
    ready(reward=-1.0), ready(reward=1.0, teacher_prompt_ids=None), ready()
    return batches.fill(LORA.model_copy(update={"batch_size": 3}))


@pytest.fixture
def at_learning(monkeypatch):
    """Have something done, with the group, at the first word that it learns."""

    def at_learning(act):
        groups = []

        class Watched(launch.Group):
            def __init__(self, *args):
                super().__init__(*args)
                groups.append(self)

        beat = run_ledger.Ledger.beat

        def heard(self, phase, *args, **kwargs):
            if phase.startswith("learning") and groups[0].pids and not hasattr(groups[0], "acted"):
                groups[0].acted = list(groups[0].pids)
                act(groups[0])
            beat(self, phase, *args, **kwargs)

        monkeypatch.setattr(launch, "Group", Watched)
        monkeypatch.setattr(run_ledger.Ledger, "beat", heard)
        return groups

    return at_learning


@pytest.mark.processes
def test_a_run_that_two_processes_learn_ends_in_a_candidate(queued, settings, rounding):
    candidate = runs.train(queued)

    run = Run.objects.get(pk=queued.pk)
    assert (run.status, run.error) == ("finished", "")
    assert candidate.status == "candidate"
    assert [row["update"] for row in run.metrics] == [1, 2]
    assert set(run.samples.values_list("status", flat=True)) == {"trained"}
    saved = Learner(settings.MODEL, adapter_dir=candidate.folder, dtype=candidate.probe["dtype"])
    assert saved.steps == 2
    assert saved.score(PROMPT, RESPONSE) == pytest.approx(candidate.probe["logprobs"], abs=rounding.logprob)


@pytest.mark.processes
def test_a_killed_process_fails_its_run_and_gives_the_samples_back(queued, home, at_learning):
    groups = at_learning(lambda group: os.kill(group.pids[1], signal.SIGKILL))

    assert runs.train(queued) is None

    run = Run.objects.get(pk=queued.pk)
    assert run.status == "failed"
    assert run.error.startswith("The 2 learning processes ended before they were done: one was ended by SIGKILL")
    assert set(Sample.objects.values_list("status", flat=True)) == {"ready"}
    assert not any(outlives(pid) for pid in groups[0].acted)


@pytest.mark.processes
def test_a_person_stops_all_processes_of_a_run(queued, home, at_learning):
    groups = at_learning(lambda group: runs.cancel(queued))

    assert runs.train(queued) is None

    assert Run.objects.get(pk=queued.pk).error == "Stopped by a person before it had changed anything."
    assert set(Sample.objects.values_list("status", flat=True)) == {"ready"}
    assert len(groups[0].acted) == 2
    assert not any(outlives(pid) for pid in groups[0].acted)
