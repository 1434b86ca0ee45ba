"""A policy in files: its weights as PEFT or transformers write them, and its optimiser's state beside them."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

OPTIMIZER_FILE = "optimizer.safetensors"
STATE_FILE = "learner.json"


def write(
    folder: Path,
    model: Any,
    moments: dict[str, Tensor],  # the optimiser's, by "slot.name"
    notes: dict[str, Any],
    weights: dict[str, Tensor] | None = None,  # by name; None: as they lie in the model
) -> None:
    """Write everything to `folder`, which appears by a rename once all of it is on disk.

    Raises FileExistsError when it is there already.
    """
    if folder.exists():
        raise FileExistsError(f"{folder.name} is there already, and checkpoints are never overwritten")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.parent / f".{folder.name}.{uuid.uuid4().hex[:8]}"
    try:
        model.save_pretrained(str(partial), safe_serialization=True, state_dict=weights)
        (partial / "README.md").unlink(missing_ok=True)  # PEFT's empty model card
        if moments:
            save_file(moments, str(partial / OPTIMIZER_FILE))
        (partial / STATE_FILE).write_text(json.dumps(notes))
        for path in [*partial.iterdir(), partial]:
            _flush(path)
        partial.rename(folder)
        _flush(folder.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def read(folder: Path, device: torch.device) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The moments and notes of a folder; both are empty where it was written without an optimiser."""
    if not (folder / OPTIMIZER_FILE).exists():
        return {}, {}
    notes: dict[str, Any] = json.loads((folder / STATE_FILE).read_text())
    return load_file(str(folder / OPTIMIZER_FILE), device=str(device)), notes


def _flush(path: Path) -> None:
    """Make sure a file or a folder's list of names is on disk before anything says so."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
