"""What Talkback taught can be taken elsewhere: plain PEFT and plain transformers give the learner's very numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from django.core.management import CommandError, call_command
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.tiny import write_tiny_adapter
from checkpoints.models import Checkpoint
from gpu_workers.learner import weight_exports
from gpu_workers.learner.learner import Learner
from tests.rows import made_by
from training.models import Run

PROMPT, RESPONSE = [1, 40, 41, 42, 43], [60, 61, 62, 63, 64, 65, 66, 67]

pytestmark = pytest.mark.django_db


@pytest.fixture
def taught(home) -> Checkpoint:
    """A live checkpoint whose adapter lies in the data folder."""
    write_tiny_adapter(home / "checkpoints" / "talkback-1", seed=3, scale=0.1)
    run = Run.objects.create(recipe={"lr": 0.001}, parent=Checkpoint.live())
    return made_by(
        run,
        Checkpoint.objects.create(
            number=1, kind="lora", parent=Checkpoint.live(), adapter="talkback-1", path="checkpoints/talkback-1"
        ),
    )


def logprobs(model) -> list[float]:
    with torch.no_grad():
        logs = model(torch.tensor([PROMPT + RESPONSE])).logits[0].float().log_softmax(-1)
    # the logits at place t speak of token t + 1
    return [float(logs[len(PROMPT) - 1 + t, token]) for t, token in enumerate(RESPONSE)]


def learners(model: Path, checkpoint: Checkpoint) -> list[float]:
    return Learner(model, adapter_dir=checkpoint.folder, dtype="float32").score(PROMPT, RESPONSE)


def test_plain_peft_loads_an_exported_adapter(taught, tiny_model, tmp_path, capsys, rounding):
    call_command("checkpoints", "export", "1", str(tmp_path / "out"), "--base", "someone/tiny")

    base = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    loaded = PeftModel.from_pretrained(base, tmp_path / "out")
    assert logprobs(loaded) == pytest.approx(learners(tiny_model, taught), abs=rounding.logprob)
    assert (
        json.loads((tmp_path / "out" / "adapter_config.json").read_text())["base_model_name_or_path"] == "someone/tiny"
    )
    assert "talkback@0" in (tmp_path / "out" / "README.md").read_text()
    assert "load someone/tiny, then this folder with PEFT" in capsys.readouterr().out


def test_plain_transformers_load_a_merged_one_with_its_tokenizer_and_template(taught, tiny_model, tmp_path, rounding):
    call_command("checkpoints", "export", "1", str(tmp_path / "out"), "--merged")

    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert logprobs(loaded) == pytest.approx(learners(tiny_model, taught), abs=rounding.logprob)
    said = [{"role": "user", "content": "Hello"}]
    ours, theirs = (AutoTokenizer.from_pretrained(folder) for folder in (tiny_model, tmp_path / "out"))
    assert theirs.apply_chat_template(said, tokenize=False) == ours.apply_chat_template(said, tokenize=False)
    assert not list((tmp_path / "out").glob("*optimizer*"))


def test_a_change_that_bfloat16_would_swallow_is_kept_in_float32(tiny_model, tmp_path):
    coarse = tmp_path / "coarse"
    AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.bfloat16).save_pretrained(coarse)
    faint = write_tiny_adapter(tmp_path / "faint", seed=3, scale=0.001)
    plain = write_tiny_adapter(tmp_path / "plain", seed=3, scale=20.0)

    kept, rounded = (
        weight_exports.merge_adapter(coarse, folder, tmp_path / f"{folder.name}-out", card="")
        for folder in (faint, plain)
    )

    # bfloat16 has 8 bits: a change far below 1/256 of a weight is rounded away, one far above it is not.
    assert (kept.dtype, kept.lost > 0.5) == ("float32", True)
    assert (rounded.dtype, rounded.lost < weight_exports.MOST_LOST) == ("bfloat16", True)


def test_the_base_and_a_folder_that_is_there_are_refused_with_a_sentence(taught, tmp_path):
    with pytest.raises(CommandError, match="is the base model as it came"):
        call_command("checkpoints", "export", "0", str(tmp_path / "out"))
    (tmp_path / "mine").mkdir()
    with pytest.raises(CommandError, match="mine is there already"):
        call_command("checkpoints", "export", "1", str(tmp_path / "mine"))
    assert list((tmp_path / "mine").iterdir()) == []
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith(".")]


def test_an_adapter_without_its_files_leaves_nothing_half_written(taught, home, tmp_path):
    (taught.folder / "adapter_model.safetensors").unlink()
    with pytest.raises(CommandError, match=r"adapter_model\.safetensors"):
        call_command("checkpoints", "export", "1", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_full_weights_are_copied_without_the_optimiser(home, tiny_model, tmp_path, rounding):
    learner = Learner(tiny_model, lora=None, dtype="float32")
    learner.save(home / "checkpoints" / "full-1")
    (home / "checkpoints" / "full-1" / "optimizer.safetensors").write_bytes(b"x")
    Checkpoint.objects.create(number=1, kind="full", parent=Checkpoint.live(), path="checkpoints/full-1")

    call_command("checkpoints", "export", "1", str(tmp_path / "out"))

    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert logprobs(loaded) == pytest.approx(learner.score(PROMPT, RESPONSE), abs=rounding.logprob)
    assert not list((tmp_path / "out").glob("*optimizer*"))
