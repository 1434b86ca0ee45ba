"""Weights are loaded only as they were written: each file is read again, and whatever runs code is refused."""

from __future__ import annotations

import pickle

import pytest
from django.utils import translation

from benchmarks.tiny import write_tiny_adapter
from checkpoints import checksums
from checkpoints.checksums import WeightsChanged
from checkpoints.models import Checkpoint
from gpu_workers.learner import policy_files
from tests.disks import flip
from training import batches, runs, versions
from training.config import Recipe

pytestmark = pytest.mark.django_db

WEIGHTS = "adapter_model.safetensors"


@pytest.fixture
def written(home):
    """A checkpoint whose files are written down."""
    folder = write_tiny_adapter(home / "checkpoints" / "talkback-1", seed=3, scale=0.1)
    (folder / policy_files.OPTIMIZER_FILE).parent.mkdir()
    (folder / policy_files.OPTIMIZER_FILE).write_bytes(b"moments")
    return Checkpoint.objects.create(
        number=1, parent=Checkpoint.live(), adapter="talkback-1", path="checkpoints/talkback-1",
        files=checksums.of(folder),
    )  # fmt: skip


def test_a_run_writes_down_its_files_and_its_code_and_checks_what_it_goes_on_from(ready, home):
    ready()
    candidate = runs.train(batches.learn_now(Recipe(batch_size=1)))
    assert candidate.files == checksums.of(candidate.folder)
    assert {WEIGHTS, "adapter_config.json", policy_files.OPTIMIZER_FILE} <= candidate.files.keys()
    assert candidate.run.code_version == versions.ours()
    assert versions.ours().startswith("0.")
    checksums.verify(candidate, with_optimizer=True)

    Checkpoint.objects.filter(pk=candidate.pk).update(status="approved")
    Checkpoint.objects.get(pk=candidate.pk).go_live()
    flip(candidate.folder / policy_files.OPTIMIZER_FILE)
    ready()
    second = batches.learn_now(Recipe(batch_size=1))
    assert runs.train(second) is None
    second.refresh_from_db()
    assert f"{policy_files.OPTIMIZER_FILE} of talkback@1 is not the file that was written" in second.error


def test_one_flipped_bit_is_found_though_size_and_date_are_the_same(written):
    checksums.verify(written)
    flip(written.folder / WEIGHTS)
    with pytest.raises(WeightsChanged, match=f"{WEIGHTS} of talkback@1 is not the file that was written"):
        checksums.verify(written)


def test_the_optimizer_is_compared_by_who_learns_on(written):
    flip(written.folder / policy_files.OPTIMIZER_FILE)
    checksums.verify(written)  # the engine reads no moments
    with pytest.raises(WeightsChanged, match="optimizer"):
        checksums.verify(written, with_optimizer=True)


@pytest.mark.parametrize("name", ["adapter_model.bin", "deep/weights.PT", "model.safetensors", "chat_template.jinja"])
def test_a_file_that_was_added_is_refused(written, name):
    (written.folder / name).parent.mkdir(exist_ok=True)
    (written.folder / name).write_bytes(pickle.dumps("harmless"))
    with pytest.raises(WeightsChanged, match=name):
        checksums.verify(written)


def test_a_missing_file_and_a_folder_that_is_gone_are_named(written, home):
    (written.folder / WEIGHTS).unlink()
    in_rows = f"{WEIGHTS} of talkback@1 is missing"  # also where a page in German asked for them
    with translation.override("de"), pytest.raises(WeightsChanged, match=in_rows):
        checksums.verify(written)
    written.folder.rename(home / "elsewhere")
    with pytest.raises(WeightsChanged, match="checkpoints/talkback-1 is not in the data folder"):
        checksums.verify(written)


def test_weights_from_before_there_were_checksums_are_taken_as_they_lie_once(written):
    Checkpoint.objects.update(files={})
    old = Checkpoint.objects.get(number=1)
    checksums.verify(old)
    assert Checkpoint.objects.get(number=1).files == checksums.of(old.folder)

    Checkpoint.objects.update(files={})
    (old.folder / "adapter_model.bin").write_bytes(b"x")
    with pytest.raises(WeightsChanged, match="safetensors alone"):
        checksums.verify(Checkpoint.objects.get(number=1))
    assert Checkpoint.objects.get(number=1).files == {}


def test_the_base_has_no_files_of_ours():
    checksums.verify(Checkpoint.live())
