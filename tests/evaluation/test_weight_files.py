"""A checkpoint's weights as one file for other tools: asked for, made, kept for a while."""

from __future__ import annotations

import hashlib
import zipfile

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file

from benchmarks.tiny import write_tiny_adapter
from checkpoints.models import Checkpoint
from evaluation import exports, weight_files
from evaluation.models import Export
from evaluation.weight_files import WeightsRefused
from training.provenance import exports as provenance

pytestmark = pytest.mark.django_db


@pytest.fixture
def taught(home):
    """A live checkpoint whose adapter lies in the data folder."""
    write_tiny_adapter(home / "checkpoints" / "talkback-1", seed=3, scale=0.1)
    base = Checkpoint.live()
    return Checkpoint.objects.create(
        number=1, kind="lora", parent=base, adapter="talkback-1", path="checkpoints/talkback-1"
    )


def made(checkpoint, what):
    export = weight_files.ask(checkpoint, what, by=None)
    weight_files.make(export.pk)
    export.refresh_from_db()
    assert export.status == "ready", export.error
    return export


def test_a_whole_model_is_one_zip_with_its_sum(taught, tmp_path):
    export = made(taught, "merged")
    (file,) = export.made["files"]
    path = exports.file_of(export, "talkback-1-merged.zip")
    assert file["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert "merged into" in export.made["note"]
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    provenance.export(taught, tmp_path / "again", merged=True)
    ours, theirs = (load_file(tmp_path / name / "model.safetensors") for name in ("talkback-1", "again"))
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
    assert (tmp_path / "talkback-1" / "tokenizer.json").exists()


def test_a_gguf_file_holds_the_merged_weights(taught, tiny_model, tmp_path):
    export = made(taught, "gguf")
    assert [one["name"] for one in export.made["files"]] == ["README.md", "talkback-1.gguf"]
    provenance.export(taught, tmp_path / "merged", merged=True)
    wanted = load_file(tmp_path / "merged" / "model.safetensors")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
    reader = gguf.GGUFReader(exports.file_of(export, "talkback-1.gguf"))
    read = {one.name: one for one in reader.tensors}
    for key in ("model.layers.0.self_attn.v_proj.weight", "model.layers.1.mlp.down_proj.weight", "lm_head.weight"):
        one = read[names.get_name(key, try_suffixes=(".weight",))]
        assert np.array_equal(one.data.reshape(wanted[key].shape), wanted[key]), key
    base = load_file(tiny_model / "model.safetensors")
    assert not np.array_equal(
        base["model.layers.1.mlp.down_proj.weight"], wanted["model.layers.1.mlp.down_proj.weight"]
    )


def test_asked_for_twice_it_is_made_once(taught):
    first = weight_files.ask(taught, "gguf", by=None)
    assert weight_files.ask(taught, "gguf", by=None) == first
    exports.cancel(first)
    assert weight_files.ask(taught, "gguf", by=None) != first


def test_cancelled_between_two_steps_nothing_is_left(taught, monkeypatch):
    monkeypatch.setattr(exports, "BEAT_S", 0)
    export = weight_files.ask(taught, "merged", by=None)
    merge = provenance.export

    def cancelled_meanwhile(*args, **options):
        exports.cancel(Export.objects.get(pk=export.pk))
        return merge(*args, **options)

    monkeypatch.setattr(provenance, "export", cancelled_meanwhile)
    weight_files.make(export.pk)
    assert Export.objects.get(pk=export.pk).status == "cancelled"
    assert list(export.folder.parent.iterdir()) == []


def test_the_base_and_what_has_no_room_are_refused_in_words(taught, settings):
    with pytest.raises(WeightsRefused, match="no weights of its own"):
        weight_files.ask(Checkpoint.objects.get(number=0), "gguf", by=None)
    with pytest.raises(WeightsRefused, match="Choose one"):
        weight_files.ask(taught, "onnx", by=None)
    settings.DISK_RESERVE_MB = 10**9
    with pytest.raises(WeightsRefused, match="Delete something first: the page Storage"):
        weight_files.ask(taught, "gguf", by=None)


def test_a_fault_in_the_files_is_said_on_the_row(taught, home):
    export = weight_files.ask(taught, "merged", by=None)
    (home / "checkpoints" / "talkback-1" / "adapter_model.safetensors").write_bytes(b"broken")
    weight_files.make(export.pk)
    export.refresh_from_db()
    assert export.status == "failed"
    assert export.error.startswith("The adapter in talkback-1 cannot be loaded")


def test_a_dataset_is_not_this_tasks_to_write(db, home):
    export = exports.ask("dataset", by=None)
    weight_files.make(export.pk)
    assert Export.objects.get().status == "queued"
