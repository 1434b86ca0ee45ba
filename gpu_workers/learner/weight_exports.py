"""Exports write weights for other tools: an adapter that plain PEFT loads, or one model with it merged."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from peft import PeftModel
from safetensors import SafetensorError
from torch import nn
from transformers import AutoModelForCausalLM

from gpu_workers.errors import AdapterInvalid

ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")

Seal = Callable[[Path], object]
"""Called with the folder once all is written in it, before it appears under its name."""

MOST_LOST = 0.1
"""The share of an adapter's change that rounding to the base's dtype may cost; beyond it the export is float32."""


@dataclass(frozen=True)
class Merged:
    """The result of a merge."""

    dtype: str
    lost: float
    """‖rounded − exact‖ / ‖exact − base‖ over all layers that changed: what the base's own dtype would cost."""


def copy_adapter(folder: Path, to: Path, *, base: str, card: str, seal: Seal | None = None) -> None:
    """Copy the adapter in `folder` to `to`, naming `base` as what it belongs on. The optimiser's state stays here.

    Raises AdapterInvalid when `folder` holds none, FileExistsError when `to` is there already.
    """
    with _written(to, seal) as partial:
        for name in ADAPTER_FILES:
            try:
                shutil.copyfile(folder / name, partial / name)
            except FileNotFoundError as error:
                raise AdapterInvalid(f"{folder.name} has no {name}: it is not an adapter.") from error
        config = json.loads((partial / ADAPTER_FILES[0]).read_text(encoding="utf-8"))
        config["base_model_name_or_path"] = base
        (partial / ADAPTER_FILES[0]).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        (partial / "README.md").write_text(card, encoding="utf-8")


def merge_adapter(model: Path, folder: Path, to: Path, *, card: str, seal: Seal | None = None) -> Merged:
    """Write to `to` the model in `model` with the adapter in `folder` merged in, its tokenizer and template beside it.

    W + (alpha / r) · B A is summed in float32. It is kept in the base's dtype unless rounding would take more than
    MOST_LOST of the change away: small changes vanish in bfloat16, and the model would answer like the base. Raises
    AdapterInvalid when nothing of the adapter is there to merge, FileExistsError when `to` is there already.
    """
    kept = AutoModelForCausalLM.from_pretrained(str(model), dtype="auto").dtype
    base = AutoModelForCausalLM.from_pretrained(str(model), dtype=torch.float32)
    before = {name: weight.detach().clone() for name, weight in _matrices(base)}
    try:
        whole = PeftModel.from_pretrained(base, str(folder)).merge_and_unload()
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise AdapterInvalid(f"The adapter in {folder.name} cannot be loaded: {error}") from error
    changed = lost = 0.0
    for name, weight in _matrices(whole):
        change = weight - before[name]
        if change.any():
            changed += float(change.double().square().sum())
            lost += float((weight.to(kept).float() - weight).double().square().sum())
    if not changed:
        raise AdapterInvalid(f"The adapter in {folder.name} changes nothing: merged, it is the base.")
    share = (lost / changed) ** 0.5
    dtype = kept if share <= MOST_LOST else torch.float32
    with _written(to, seal) as partial:
        whole.to(dtype).save_pretrained(str(partial), safe_serialization=True)
        _beside(model, partial)
        (partial / "README.md").write_text(card, encoding="utf-8")
    return Merged(str(dtype).removeprefix("torch."), share)


def copy_weights(model: Path, folder: Path, to: Path, *, card: str, seal: Seal | None = None) -> None:
    """Copy full weights in `folder` to `to`, with the tokenizer and the template of `model`."""
    with _written(to, seal) as partial:
        for file in folder.iterdir():
            if file.name == "config.json" or file.name.startswith(("model", "generation_config")):
                shutil.copyfile(file, partial / file.name)
        _beside(model, partial)
        (partial / "README.md").write_text(card, encoding="utf-8")


def _matrices(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    return ((name, weight.detach()) for name, weight in model.named_parameters() if weight.dim() == 2)


def _beside(model: Path, to: Path) -> None:
    """The tokenizer's files and the chat template, as they stand with the base."""
    for file in model.iterdir():
        is_text = file.suffix in (".json", ".jinja", ".txt", ".model") and file.name != "manifest.json"
        if is_text and not file.name.endswith(".index.json") and not (to / file.name).exists():
            shutil.copyfile(file, to / file.name)


@contextmanager
def _written(to: Path, seal: Seal | None) -> Iterator[Path]:
    """A folder to write in that becomes `to` at the end, whole or not at all."""
    if to.exists():
        raise FileExistsError(f"{to.name} is there already: name a folder that is not.")
    to.parent.mkdir(parents=True, exist_ok=True)
    partial = to.parent / f".{to.name}.{uuid.uuid4().hex[:8]}"
    partial.mkdir()
    try:
        yield partial
        if seal is not None:
            seal(partial)
        os.rename(partial, to)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
