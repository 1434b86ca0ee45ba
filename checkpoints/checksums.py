"""SHA-256 of a checkpoint's files: written down when they are made, compared before they are loaded.

Every byte that is loaded is read again, whatever its size and date say: a disk that rots changes neither.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from django.utils.translation import gettext_noop

from checkpoints.models import Checkpoint
from gpu_workers.errors import AdapterInvalid

SAYS = {
    "let go": gettext_noop("The weights of %(checkpoint)s were let go of: they are not on this disk any more."),
    "gone": gettext_noop("The weights of %(checkpoint)s are gone: %(path)s is not in the data folder."),
    "not of it": gettext_noop("%(file)s lies in the folder of %(checkpoint)s, and was not written with its weights."),
    "missing": gettext_noop("%(file)s of %(checkpoint)s is missing: its weights are not whole."),
    "unreadable": gettext_noop("%(file)s of %(checkpoint)s cannot be read: %(why)s."),
    "changed": gettext_noop("%(file)s of %(checkpoint)s is not the file that was written: its checksum differs."),
    "runs code": gettext_noop(
        "%(file)s lies with %(whose)s: weights are taken in safetensors alone, which run no code."
    ),
}
"""What a row may keep."""

PICKLES = frozenset((".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".npz", ".dill"))
"""Files that run code when they are read: no checkpoint of ours holds one, and some loaders prefer them."""

LOADED = frozenset((".safetensors", ".json", ".py", ".jinja", ".model"))
"""Files that a loader may read by itself: one that was not written with the weights does not belong to them."""

OPTIMIZERS = ("optimizer/moments.safetensors", "optimizer.safetensors")
"""What only the next run reads, twice as large as an adapter: where it stands, and where it stood until version 0.4."""


class WeightsChanged(AdapterInvalid):
    """The files of a checkpoint are not those that were written down when it was made: nothing may load them."""

    code, status, retryable = "weights_changed", 503, True


def of(folder: Path) -> dict[str, str]:
    """SHA-256 in hex of every file under `folder`, by its path in it."""
    return {name: digest(folder / name) for name in names(folder)}


def names(folder: Path) -> list[str]:
    """Paths of the files under `folder`, links among them, sorted."""
    found = (entry for entry in folder.rglob("*") if entry.is_symlink() or not entry.is_dir())
    return sorted(entry.relative_to(folder).as_posix() for entry in found)


def digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def verify(checkpoint: Checkpoint, *, with_optimizer: bool = False) -> None:
    """Read a checkpoint's files and compare them with what was written down. `with_optimizer`: that file as well, for
    a run that learns on.

    Weights from before there were checksums are taken as they lie the first time, once they hold safetensors alone;
    from then on they are compared. Of such, where no file is here, there is nothing to say: the process that loads them
    will. Raises WeightsChanged for a file that is missing, another one, added to those or in a form that runs code.
    """
    folder = checkpoint.folder
    if folder is None:
        return
    if checkpoint.let_go_at is not None:
        said = SAYS["let go"]
        raise WeightsChanged(said % {"checkpoint": checkpoint})
    if not folder.is_dir():
        if checkpoint.files:
            said = SAYS["gone"]
            raise WeightsChanged(said % {"checkpoint": checkpoint, "path": checkpoint.path})
        return
    found = names(folder)
    refuse_pickles(found, str(checkpoint))
    if not checkpoint.files:
        checkpoint.files = of(folder)
        Checkpoint.objects.filter(pk=checkpoint.pk).update(files=checkpoint.files)
        return
    for name in found:
        if name not in checkpoint.files and Path(name).suffix.lower() in LOADED:
            said = SAYS["not of it"]
            raise WeightsChanged(said % {"file": name, "checkpoint": checkpoint})
    for name, written in checkpoint.files.items():
        if name in OPTIMIZERS and not with_optimizer:
            continue
        named = {"file": name, "checkpoint": checkpoint}
        if name not in found:
            raise WeightsChanged(SAYS["missing"] % named)
        try:
            read = digest(folder / name)
        except OSError as error:
            said = SAYS["unreadable"]
            raise WeightsChanged(said % (named | {"why": error.strerror})) from error
        if read != written:
            said = SAYS["changed"]
            raise WeightsChanged(said % named)


def refuse_pickles(found: list[str], whose: str) -> None:
    """Raises WeightsChanged when one of these files is in a form that runs code as it is read."""
    for name in found:
        if Path(name).suffix.lower() in PICKLES:
            said = SAYS["runs code"]
            raise WeightsChanged(said % {"file": name, "whose": whose})
