"""Weights from elsewhere: nothing is taken in that its receipt does not vouch for; what is begins as a candidate."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
import zipfile

import pytest
from django.core.management import CommandError, call_command
from safetensors.numpy import load_file, save_file

from benchmarks.tiny import write_tiny_adapter, write_tiny_model
from checkpoints import checksums
from checkpoints.models import Checkpoint, Decision
from core.errors import TalkbackError
from gpu_workers.errors import AdapterInvalid
from tests.disks import flip
from tests.rows import made_by
from training.models import Run
from training.provenance import base_model, canonical_json, imports, receipts, signing_keys
from training.provenance.imports import NotImportable

pytestmark = pytest.mark.django_db

WEIGHTS = "adapter_model.safetensors"


@pytest.fixture
def theirs(home, settings, tmp_path):
    """An export of another installation, which has gone."""
    settings.DATA_DIR = tmp_path / "theirs"
    folder = write_tiny_adapter(settings.DATA_DIR / "checkpoints" / "talkback-1", seed=3, scale=0.5)
    run = Run.objects.create(recipe={"lr": 0.001}, parent=Checkpoint.live(), seed=7)
    made = made_by(run, Checkpoint.objects.create(
        number=1, parent=Checkpoint.live(), adapter="talkback-1", path="checkpoints/talkback-1",
        files=checksums.of(folder),
    ))  # fmt: skip
    made.made = receipts.made(made, base_model.base())
    out = tmp_path / "out"
    shutil.copytree(folder, out)
    receipts.beside(made, out)
    run.delete(), made.delete()
    settings.DATA_DIR = tmp_path / "ours"
    return out


def again_signed(folder, **parts):
    """As a stranger with a key of their own would sign it, with these parts changed."""
    told = receipts.read(folder)
    row = Checkpoint(
        number=9,
        made={"format": told["format"], **{part: told["parts"][part] for part in receipts.MADE}, **parts},
    )
    row.save()
    (folder / receipts.RECEIPT).unlink(), (folder / receipts.PUBLIC).unlink()
    receipts.beside(row, folder)
    row.delete()


def refused(source, says, error=NotImportable, **options):
    before = Checkpoint.objects.count()
    with pytest.raises(error, match=says):
        imports.take(source, **options)
    assert Checkpoint.objects.count() == before
    staged = imports.Path(imports.settings.DATA_DIR) / "imports"
    assert not staged.exists() or not list(staged.iterdir())


def test_what_is_taken_in_is_a_candidate_with_a_name_and_a_probe_of_its_own(theirs, django_user_model):
    ana = django_user_model.objects.create_user("ana")
    made = imports.take(theirs, by=ana, key=signing_keys.public_key(theirs / receipts.PUBLIC))

    assert (made.status, made.number, made.parent.number, Run.that_made(made)) == ("candidate", 1, 0, None)
    assert made.adapter.startswith("talkback-1-")
    assert sorted(file.name for file in made.folder.iterdir()) == ["adapter_config.json", WEIGHTS]
    checksums.verify(made)
    assert made.probe["logprobs"] != made.probe["base_logprobs"]  # by the learner here, on a text that no person wrote
    assert made.came_from == receipts.read(theirs)
    assert Decision.objects.get(checkpoint=made, verb="import").by == ana
    told = receipts.receipt(made)  # handed on, it names the receipt that it came with
    signed = receipts.read(theirs)["digests"]
    assert told["parts"]["parent"]["receipt"] == canonical_json.digest({part: signed[part] for part in receipts.MADE})

    refused(theirs, "The very same weights are here already: talkback@1")


def test_a_receipt_of_the_first_form_is_taken_in_on_the_same_base(theirs):
    told = receipts.read(theirs)["parts"]
    # Its config holds 1e-06, which Python writes so and RFC 8785 as 0.000001: the two forms digest it otherwise.
    assert base_model.base(canonical_json.FIRST)["config"] != base_model.base()["config"]
    parts = {part: told[part] for part in receipts.MADE} | {"base": base_model.base(canonical_json.FIRST)}
    row = Checkpoint(number=9, made=parts)
    row.save()
    (theirs / receipts.RECEIPT).unlink(), (theirs / receipts.PUBLIC).unlink()
    receipts.beside(row, theirs)
    row.delete()
    signed = receipts.read(theirs)
    assert signed["format"] == "talkback-receipt-1"
    made = imports.take(theirs)
    assert receipts.receipt(made)["format"] == "talkback-receipt-2"
    assert made.made["parent"]["receipt"] == canonical_json.digest(
        {part: signed["digests"][part] for part in receipts.MADE}
    )


def test_archives_are_read_by_the_names_of_an_export_alone(theirs, tmp_path, monkeypatch):
    monkeypatch.setattr(imports, "_probe", lambda folder: {"logprobs": [-1.0]})
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for file in theirs.iterdir():
            archive.write(file, f"talkback-1/{file.name}")
    call_command("checkpoints", "import", str(tmp_path / "a.zip"), "--line", "shared")
    assert Checkpoint.objects.get(number=1).status == "candidate"
    Checkpoint.objects.filter(number=1).update(files={})
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        for file in theirs.iterdir():
            archive.add(file, file.name)
    assert imports.take(tmp_path / "a.tar.gz").number == 2


@pytest.mark.parametrize("name", ["../evil.json", "/etc/evil.json", "a/../../evil.json", "..\\evil.json"])
def test_an_archive_that_climbs_out_is_refused_whole(theirs, tmp_path, name):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for file in theirs.iterdir():
            archive.write(file, file.name)
        archive.writestr(name, b"x")
    refused(tmp_path / "a.zip", "outside of it")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for file in theirs.iterdir():
            archive.add(file, file.name)
        member = tarfile.TarInfo(name)
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    refused(tmp_path / "a.tar", "outside of it")


def test_links_are_not_followed_and_large_files_not_unpacked(theirs, tmp_path, monkeypatch):
    (theirs / WEIGHTS).rename(tmp_path / "real")
    os.symlink(tmp_path / "real", theirs / WEIGHTS)
    refused(theirs, f"holds no {WEIGHTS}")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(theirs, "out")
    refused(tmp_path / "a.tar", f"holds no {WEIGHTS}")
    (theirs / WEIGHTS).unlink()
    (tmp_path / "real").rename(theirs / WEIGHTS)
    monkeypatch.setattr(imports, "LARGEST", 10)
    refused(theirs, "is larger than")


def test_what_the_receipt_does_not_vouch_for_is_refused(theirs, tmp_path, settings):
    other = tmp_path / "other.pub"
    settings.DATA_DIR = tmp_path / "third"
    other.write_bytes(signing_keys.pem(signing_keys.private_key().public_key()))
    refused(theirs, "with another key", key=signing_keys.public_key(other))
    flip(theirs / WEIGHTS)
    refused(theirs, f"{WEIGHTS} is not the file that was signed for")
    flip(theirs / WEIGHTS)
    (theirs / "adapter_model.bin").write_bytes(b"x")
    refused(theirs, "safetensors alone", TalkbackError)
    (theirs / "adapter_model.bin").unlink()
    (theirs / receipts.RECEIPT).unlink()
    refused(theirs, f"holds no {receipts.RECEIPT}")


def test_another_base_is_refused(theirs, settings, tmp_path):
    settings.MODEL = str(write_tiny_model(tmp_path / "other", seed=1))
    refused(theirs, "made on another base: tiny, whose weights differ")


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"use_rslora": True}, "rsLoRA cannot be served"),
        ({"use_dora": True}, "DoRA cannot be served"),
        ({"bias": "all"}, "trained biases"),
        ({"rank_pattern": {"x": 4}}, "a rank pattern"),
        ({"modules_to_save": ["lm_head"]}, "fully trained modules"),
        ({"r": 128}, "rank 128 is above"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights is 'pissa', which changes the base"),
    ],
)
def test_an_adapter_that_would_mean_something_else_here_is_refused(theirs, setting, says):
    config = json.loads((theirs / "adapter_config.json").read_text()) | setting
    (theirs / "adapter_config.json").write_text(json.dumps(config))
    again_signed(theirs)
    refused(theirs, says, AdapterInvalid)


def test_an_adapter_that_sglang_would_end_at_is_refused(theirs):
    tensors = load_file(theirs / WEIGHTS)  # q, v and down
    only = {name.replace("q_proj", "k_proj"): tensor for name, tensor in tensors.items() if "q_proj" in name}
    narrow = {name: tensor[:32] if "lora_B" in name else tensor for name, tensor in only.items()}  # two heads of 16
    save_file(narrow, theirs / WEIGHTS)
    made = receipts.read(theirs)["parts"]["weights"]
    again_signed(theirs, weights=made | {WEIGHTS: checksums.digest(theirs / WEIGHTS)})
    refused(theirs, "changes model.layers.0.self_attn.k_proj and not model.layers.0.self_attn.q_proj", AdapterInvalid)


def test_whole_weights_are_refused_and_it_is_said_what_to_do_instead(theirs):
    (theirs / WEIGHTS).rename(theirs / "model.safetensors")
    refused(
        theirs, "holds a whole model. Only adapters .* export that there without --merged .* set MODEL to its folder"
    )
    (theirs / "model.safetensors").rename(theirs / WEIGHTS)
    parts = receipts.read(theirs)["parts"]["checkpoint"]
    again_signed(theirs, checkpoint=parts | {"kind": "full"})
    refused(theirs, "speaks of whole weights. Only adapters")


def test_the_command_says_what_is_wrong(tmp_path, home):
    with pytest.raises(CommandError, match="neither a folder nor a zip or tar file"):
        call_command("checkpoints", "import", str(tmp_path / "nothing"))
    with pytest.raises(CommandError, match="There is no line 'x'"):
        call_command("checkpoints", "import", str(tmp_path), "--line", "x")
