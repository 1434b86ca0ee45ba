"""A run without room on the disk does not begin, or ends without half a folder."""

from __future__ import annotations

import errno
from types import SimpleNamespace

import pytest
from safetensors import SafetensorError

from checkpoints.models import Checkpoint
from core import stores
from tests.disks import fill
from tests.training.conftest import samples
from tests.training.test_runs import RECIPE, again, folders
from training import batches, hours, learning, runs, tasks
from training.models import Run
from training.next_run import forecast

WEIGHTS = "adapter_model.safetensors"


@pytest.fixture
def free(monkeypatch):
    """Sets how many bytes are free where checkpoints are kept."""

    def free(bytes_):
        monkeypatch.setattr(stores.shutil, "disk_usage", lambda path: SimpleNamespace(free=bytes_))

    return free


def test_a_run_does_not_begin_to_learn_where_its_weights_would_not_fit(queued, free, monkeypatch):
    def not_reached(job, ledger):
        raise AssertionError("learned for nothing")

    monkeypatch.setattr(learning, "learn", not_reached)
    needed, _ = forecast.room(RECIPE)
    # The tiny model's two layers, rank 16, float32, weights and two moments: q and o 64+64, k and v 64+32, the three
    # of the MLP 64+128; 16 * (2 * 128 + 2 * 96 + 3 * 192) * 2 * 4 * 3; and a
    # mebibyte for what lies beside them.
    assert needed == 16 * 1024 * 2 * 4 * 3 + 2**20 == 1441792
    free(needed - 1)

    assert runs.train(queued) is None

    assert (again(queued).status, again(queued).error) == (
        "failed",
        "There is no room for the new weights. They need about 1.4 MiB, and DATA_DIR now has 1.4 MiB free: make room, "
        "then have it learn now.",
    )
    assert samples() == {"ready"}


@pytest.mark.parametrize(
    "failure",
    [
        OSError(errno.ENOSPC, "No space left on device", "/somewhere/adapter"),
        OSError(errno.EDQUOT, "Disk quota exceeded", "/somewhere/adapter"),
        # What safetensors 0.8 says on a full disk, word for word.
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_disk_that_fills_up_while_saving_leaves_no_half_folder(queued, home, monkeypatch, failure):
    from gpu_workers.learner import policy_files

    def full(state, path):
        assert any(home.glob(f"checkpoints/.*/{WEIGHTS}"))  # half of it is written
        raise failure

    monkeypatch.setattr(policy_files, "save_file", full)

    assert runs.train(queued) is None

    run = again(queued)
    assert run.status == "failed"
    assert run.error.startswith("The disk was full before the new weights were saved. They need about 1.4 MiB, and ")
    assert folders(home) == []
    assert samples() == {"ready"}
    assert Checkpoint.objects.count() == 1


def test_a_run_leaves_what_is_kept_for_chat(queued, free, settings, home):
    settings.DISK_RESERVE_MB = 100
    needed, _ = forecast.room(RECIPE)
    free(100 * 2**20 + needed - 1)

    assert runs.train(queued) is None

    # 1441792 bytes are needed, as above, and there is one byte less beside the reserve.
    assert again(queued).error == (
        "There is no room for the new weights. They need about 1.4 MiB, and DATA_DIR now has 1.4 MiB free beside the "
        "100 MiB that are kept for chat: make room, then have it learn now."
    )
    free(100 * 2**20 + needed)
    assert runs.train(batches.learn_now(RECIPE)) is not None


def test_a_disk_that_fills_up_while_a_run_learns_keeps_its_reserve(queued, free, settings, home, monkeypatch):
    settings.DISK_RESERVE_MB = 100
    update = learning._update

    def meanwhile(*args):
        update(*args)
        free(100 * 2**20)

    monkeypatch.setattr(learning, "_update", meanwhile)

    assert runs.train(queued) is None

    assert again(queued).error.startswith("There is no room for the new weights.")
    assert folders(home) == []  # nothing was written at all
    assert samples() == {"ready"}


@pytest.mark.small_disk
def test_learning_waits_on_a_disk_that_is_nearly_full_and_goes_on_by_itself(ready, home, settings, small_disk):
    settings.DATA_DIR = small_disk(12)
    settings.DISK_RESERVE_MB = 8
    ready(reward=-1.0), ready(reward=1.0, teacher_prompt_ids=None), ready()
    filler = fill(settings.DATA_DIR, leaving_mib=5)

    tasks.fill_batch("any")

    assert not Run.objects.exists()  # nothing is claimed, so nothing fails
    # 8 MiB are kept and 5 are there; what the file's own entry takes of them rounds up to the whole 3.
    assert hours.waiting().sentence(3) == (
        "Training waits: the disk has 3 MiB less free than what is kept for chat. Make room there. 3 lessons are ready."
    )
    run = batches.fill(RECIPE)  # what a person asks for waits as well
    assert runs.train(run) is None
    assert again(run).status == "queued"

    filler.unlink()

    assert hours.waiting() is None
    assert runs.train(run) is not None


def test_any_other_failure_to_write_is_told_in_its_own_words(queued, home, monkeypatch):
    from gpu_workers.learner.learner import Learner

    def broken(*args, **kwargs):
        raise OSError(errno.EIO, "Input/output error", "/somewhere/adapter")

    monkeypatch.setattr(Learner, "save", broken)

    with pytest.raises(OSError, match="Input/output"):
        runs.train(queued)

    assert (again(queued).status, again(queued).error) == ("failed", "Input/output error: adapter.")
    assert samples() == {"ready"}
