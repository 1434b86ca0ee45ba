"""A learning receipt: its owner can say offline what was changed since it was signed, and reads no text in it."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from benchmarks.tiny import write_tiny_adapter
from checkpoints import checksums
from checkpoints.models import Checkpoint, Decision
from tests.disks import flip
from tests.rows import made_by
from training.models import Run, Sample
from training.provenance import base_model, canonical_json, receipts, signing_keys

pytestmark = pytest.mark.django_db

WEIGHTS = "adapter_model.safetensors"
SECRET_IDS = [301, 302, 303]


@pytest.fixture
def taught(home, django_user_model):
    """A checkpoint of one sample that a person approved."""
    folder = write_tiny_adapter(home / "checkpoints" / "talkback-1", seed=3, scale=0.1)
    run = Run.objects.create(
        recipe={"lr": 0.001, "w_rl": 1.0}, parent=Checkpoint.live(), seed=7, code_version="0.4.0 (git abc)"
    )
    Sample.objects.create(
        status="trained", run=run, checkpoint=Checkpoint.live(), prompt_ids=SECRET_IDS, response_ids=[7, 8],
        behaviour_logprobs=[-1.0, -2.0], reward=1.0,
    )  # fmt: skip
    made = made_by(run, Checkpoint.objects.create(
        number=1, parent=Checkpoint.live(), adapter="talkback-1", path="checkpoints/talkback-1",
        files=checksums.of(folder),
    ))  # fmt: skip
    made.made = receipts.made(made, base_model.base())
    made.save()
    ana = django_user_model.objects.create_user("ana")
    Decision.objects.create(checkpoint=made, verb="approve", by=ana, reason="It says please.")
    return made


@pytest.fixture
def out(taught, tmp_path):
    """It, as it was handed out."""
    call_command("checkpoints", "export", "1", str(tmp_path / "out"), "--base", "someone/tiny")
    return tmp_path / "out"


def verify(path, capsys, **options):
    """What the command says, and whether the receipt holds."""
    capsys.readouterr()
    try:
        call_command("receipt", "verify", str(path), **options)
    except CommandError as failure:
        return False, capsys.readouterr().out + str(failure)
    return True, capsys.readouterr().out


def rewrite(file, change):
    told = json.loads(file.read_text())
    change(told)
    file.write_text(json.dumps(told))


def test_what_was_handed_out_holds_and_says_in_words_what_does(out, capsys):
    held, said = verify(out, capsys)
    assert held
    assert f"{WEIGHTS} is the file that was signed for." in said
    assert "ask its maker for" in said  # a key that comes along proves nothing about its owner
    assert "Of 1 samples 1 are here as they were learned." in said
    held, said = verify(out, capsys, key=out / receipts.PUBLIC)
    assert held
    assert "with the key that you named" in said


def test_it_tells_of_everything_that_shaped_the_weights_and_not_a_word_of_what_was_said(out, taught, tiny_model):
    written = (out / receipts.RECEIPT).read_text()
    parts = json.loads(written)["parts"]
    assert (parts["recipe"], parts["run"]["seed"], parts["run"]["code_version"]) == (
        {"lr": 0.001, "w_rl": 1.0}, 7, "0.4.0 (git abc)",
    )  # fmt: skip
    assert parts["base"]["weights"] == {"model.safetensors": checksums.digest(tiny_model / "model.safetensors")}
    assert parts["weights"][WEIGHTS] == checksums.digest(out / WEIGHTS)
    assert [row["verb"] for row in parts["decisions"]] == ["approve"]
    for secret in ("301", "ana", "please"):  # a token of the prompt, who said yes, and why
        assert secret not in json.dumps({"samples": parts["samples"]["count"], "decisions": parts["decisions"]})
    # The digest depends on a secret: the same sample, digested by a stranger who guesses it, gives another one.
    assert parts["samples"]["digests"] == [receipts.of_sample(Sample.objects.get())]
    assert len({signing_keys.nonce("sample 1"), signing_keys.nonce("sample 2")}) == 2


def other(signature):
    """One that differs from it in its first letter, whichever that is."""
    return ("B" if signature[0] == "A" else "A") + signature[1:]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda told: told["parts"]["recipe"].update(lr=0.002), "The recipe in it is not what was signed."),
        (lambda told: told["parts"]["samples"]["digests"].clear(), "The samples in it are not what was signed."),
        (lambda told: told["parts"]["samples"].update(count=2), "not list as many samples as it counts"),
        (lambda told: told["parts"]["run"].update(seed=8), "The run in it is not what was signed."),
        (lambda told: told["parts"]["decisions"].clear(), "The decisions in it are not what was signed."),
        (lambda told: told["parts"]["base"].update(name="x"), "The base in it is not what was signed."),
        (lambda told: told["parts"].update(more={}), "The more in it is not what was signed."),
        (lambda told: told.update(signed_at="2020-01-01T00:00:00"), "The signature does not fit"),
        (lambda told: told["digests"].update(recipe="0" * 64), "The signature does not fit"),
        (lambda told: told.update(signature=other(told["signature"])), "The signature does not fit"),
        (lambda told: told.update(signature="?"), "key or signature cannot be read"),
        (lambda told: told["parts"].pop("recipe"), "part 'recipe' is missing"),
        (lambda told: told.update(format="other"), "not a receipt of the form"),
    ],
)
def test_a_changed_receipt_does_not_hold_and_says_what_was_changed(out, capsys, change, said):
    rewrite(out / receipts.RECEIPT, change)
    held, told = verify(out, capsys)
    assert not held
    assert said in told


def test_a_changed_file_a_missing_one_and_one_too_many_are_named(out, capsys):
    flip(out / WEIGHTS)
    (out / "README.md").unlink()
    (out / "adapter_model.bin").write_bytes(b"x")
    held, said = verify(out, capsys)
    assert not held
    assert f"{WEIGHTS} is not the file that was signed for." in said
    assert "README.md is not there." in said
    assert "adapter_model.bin is there, and the receipt does not know it." in said


def test_a_merged_export_brings_a_receipt_of_all_that_lies_in_it(taught, tmp_path, capsys):
    merged = tmp_path / "merged"
    call_command("checkpoints", "export", "1", str(merged), "--merged")
    parts = json.loads((merged / receipts.RECEIPT).read_text())["parts"]
    assert set(parts["files"]) == {file.name for file in merged.iterdir()} - {receipts.RECEIPT, receipts.PUBLIC}
    assert parts["weights"][WEIGHTS] == taught.files[WEIGHTS]  # what was merged, though it does not lie there
    assert verify(merged, capsys)[0]

    flip(merged / "model.safetensors")
    (merged / "tokenizer.json").unlink()
    held, said = verify(merged, capsys)
    assert not held
    assert "model.safetensors is not the file that was signed for." in said
    assert "tokenizer.json is not there." in said


def test_another_ones_signature_is_told_from_ours(out, capsys, settings, tmp_path):
    settings.DATA_DIR = tmp_path / "elsewhere"
    (tmp_path / "theirs.pub").write_bytes(signing_keys.pem(signing_keys.private_key().public_key()))
    held, said = verify(out, capsys, key=tmp_path / "theirs.pub")
    assert not held
    assert "with another key" in said


def test_a_forger_who_signs_anew_is_found_by_the_key(out, capsys, settings, tmp_path):
    trusted = (out / receipts.PUBLIC).read_bytes()
    settings.DATA_DIR = tmp_path / "forgery"
    forged = receipts.receipt(Checkpoint.objects.get(number=1), checksums.of(out))
    forged["parts"]["recipe"] = {"lr": 5}
    (out / receipts.RECEIPT).write_bytes(receipts.written(forged))
    (tmp_path / "trusted.pub").write_bytes(trusted)
    held, said = verify(out, capsys, key=tmp_path / "trusted.pub")
    assert not held
    assert "with another key" in said


def test_the_key_is_for_its_owner_alone_and_stays(taught, home):
    first = signing_keys.fingerprint(signing_keys.private_key().public_key())
    for name in ("key.pem", "secret"):
        assert stat.S_IMODE((home / "receipts" / name).stat().st_mode) == 0o600
    assert signing_keys.fingerprint(signing_keys.private_key().public_key()) == first
    assert sorted(file.name for file in (home / "receipts").iterdir()) == ["key.pem", "secret"]


def test_a_child_names_its_parents_receipt_and_what_was_taken_back_is_counted(taught, capsys, tmp_path):
    run = Run.objects.create(recipe={"lr": 0.1}, parent=taught)
    child = made_by(run, Checkpoint.objects.create(number=2, parent=taught, adapter="talkback-2"))
    child.made = receipts.made(child, base_model.base())
    child.save()
    assert child.made["parent"]["receipt"] == receipts.digest_of_made(taught)

    Sample.objects.update(response_ids=[], prompt_ids=[], behaviour_logprobs=[], drop_reason="its chat was deleted")
    (tmp_path / "two.json").write_bytes(receipts.written(receipts.receipt(child)))
    assert "It names the receipt of its parent, talkback@1." in verify(tmp_path / "two.json", capsys)[1]
    (tmp_path / "one.json").write_bytes(receipts.written(receipts.receipt(taught)))
    held, said = verify(tmp_path / "one.json", capsys)
    assert held  # the receipt is as true as it was
    assert "Of 1 samples 0 are here as they were learned; 1 were taken back since." in said


def test_a_checkpoint_from_before_receipts_says_so(taught, capsys, tmp_path):
    Checkpoint.objects.filter(number=1).update(made={})
    (tmp_path / "old.json").write_bytes(receipts.written(receipts.receipt(Checkpoint.objects.get(number=1))))
    held, said = verify(tmp_path / "old.json", capsys)
    assert held
    assert "written after the fact" in said


def test_canonical_json_is_that_of_rfc_8785():
    # Its own example, section 3.2.2 and what section 3.2.4 makes of it
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\u0022\u002f",
        "literals": [None, True, False],
    }
    assert canonical_json.canonical(value).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert (
        canonical_json.canonical({"\ufb33": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ufb33":1}'.encode()
    )  # by UTF-16


def test_a_part_is_digested_as_any_reader_of_rfc_8785_would(out):
    told = receipts.read(out)
    assert told["format"] == "talkback-receipt-2"
    # the recipe is {"lr": 0.001, "w_rl": 1.0}: a whole number has no point
    assert told["digests"]["recipe"] == hashlib.sha256(b'{"lr":0.001,"w_rl":1}').hexdigest()


def test_a_receipt_of_the_first_form_holds_as_it_did(tmp_path, capsys):
    # Written by Talkback 0.4 with 1e-05, 1.0, 1e+16, -0.0, an é and a 😀, all of which RFC 8785 writes otherwise
    file = tmp_path / "receipt.json"
    shutil.copy(Path(__file__).with_name("receipt-1.json"), file)
    held, said = verify(file, capsys)
    assert held
    assert "All 10 parts are what was signed" in said
    rewrite(file, lambda told: told["parts"]["recipe"].update(lr=2e-05))
    held, said = verify(file, capsys)
    assert not held
    assert "The recipe in it is not what was signed." in said
    shutil.copy(Path(__file__).with_name("receipt-1.json"), file)
    rewrite(file, lambda told: told.update(format="talkback-receipt-2"))
    held, said = verify(file, capsys)
    assert not held
    assert "The signature does not fit" in said


def test_what_was_made_under_the_first_form_keeps_it_and_its_children_name_it(taught, capsys, tmp_path):
    del taught.made["format"]  # as rows have it that are older than the second
    taught.made["samples"]["digests"] = [receipts.of_sample(Sample.objects.get(), canonical_json.FIRST)]
    taught.save()
    run = Run.objects.create(recipe={}, parent=taught)
    child = made_by(run, Checkpoint.objects.create(number=2, parent=taught, adapter="talkback-2"))
    child.made = receipts.made(child, base_model.base())
    child.save()

    old, new = receipts.receipt(taught), receipts.receipt(child)
    assert (old["format"], new["format"]) == ("talkback-receipt-1", "talkback-receipt-2")
    # the recipe is {"lr": 0.001, "w_rl": 1.0}, as Python writes it
    assert old["digests"]["recipe"] == hashlib.sha256(b'{"lr":0.001,"w_rl":1.0}').hexdigest()
    signed = {part: old["digests"][part] for part in receipts.MADE}
    assert new["parts"]["parent"]["receipt"] == canonical_json.digest(signed)
    (tmp_path / "one.json").write_bytes(receipts.written(old))
    held, said = verify(tmp_path / "one.json", capsys)
    assert held
    assert "Of 1 samples 1 are here as they were learned." in said
    assert "What it was made of is what is on record here." in said
    (tmp_path / "two.json").write_bytes(receipts.written(new))
    held, said = verify(tmp_path / "two.json", capsys)
    assert held
    assert "It names the receipt of its parent, talkback@1." in said


@pytest.mark.parametrize("odd", ["\ud800", 10**400, 1e400])
def test_what_has_no_canonical_form_is_not_what_was_signed(out, capsys, odd):
    file = out / receipts.RECEIPT
    told = json.loads(file.read_text())
    told["parts"]["recipe"]["lr"] = odd
    file.write_text(json.dumps(told).replace("Infinity", "1e400"))
    held, said = verify(out, capsys)
    assert not held
    assert "The recipe in it is not what was signed." in said


def test_checking_takes_neither_torch_nor_a_database():
    code = "import sys; from training.provenance import receipts; sys.exit('torch' in sys.modules)"
    env = {"DJANGO_SETTINGS_MODULE": "webapp.settings", "PATH": ""}
    setup = "import django; django.setup(); "
    assert subprocess.run([sys.executable, "-c", setup + code], env=env).returncode == 0
