"""Checkpoint files hold a policy: weights as PEFT or transformers write them, the optimiser's state in a folder
within."""

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

OPTIMIZER_FILE = "optimizer/moments.safetensors"
"""Never beside the weights: SGLang takes whatever safetensors lie there for weights, and the adapter for nothing."""
OLD_OPTIMIZER_FILE = "optimizer.safetensors"
"""Where it stood until version 0.4."""
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
            (partial / OPTIMIZER_FILE).parent.mkdir()
            save_file(moments, str(partial / OPTIMIZER_FILE))
        (partial / STATE_FILE).write_text(json.dumps(notes))
        for path in [*partial.rglob("*"), partial]:
            _flush(path)
        partial.rename(folder)
        _flush(folder.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def read(folder: Path, device: torch.device) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the moments and notes of a folder; both are empty where it was written without an optimiser."""
    file = next((path for name in (OPTIMIZER_FILE, OLD_OPTIMIZER_FILE) if (path := folder / name).exists()), None)
    if file is None:
        return {}, {}
    notes: dict[str, Any] = json.loads((folder / STATE_FILE).read_text())
    return load_file(str(file), device=str(device)), notes


def _flush(path: Path) -> None:
    """Make sure a file or a folder's list of names is on disk before anything says so."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
