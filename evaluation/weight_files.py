"""A checkpoint's weights for other tools: one whole model as a zip for transformers, or one GGUF file.

Both are the base with the adapter merged in. Merging takes as much memory as the base in float32, and the learner's
queue does it: no run learns meanwhile.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.utils.translation import gettext as _

from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from evaluation import exports
from evaluation.exports import Progress
from evaluation.models import Export
from training.provenance import exports as provenance
from training.provenance import retention

PERCENT = 100
HALF = 50
"""Of the work, once the weights are merged."""

BESIDE = "README.md"
"""What of a merged model's folder goes beside a GGUF file; its receipt is of other files."""

What = Export.What


class WeightsRefused(TalkbackError):
    """These weights cannot be made into such a file, or there is no room for it."""

    code, status = "weights_refused", 422


def size() -> int:
    """Bytes of a whole model, about: as many as the base has. Kept in float32, where rounding would take what was
    learned away, a base in 16 bits takes twice as many."""
    return sum(file.stat().st_size for file in Path(settings.MODEL).glob("*.safetensors"))


def may(checkpoint: Checkpoint) -> bool:
    """Whether there are weights of its own to write."""
    return checkpoint.folder is not None and checkpoint.let_go_at is None


def ask(checkpoint: Checkpoint, what: str, *, by: User | None) -> Export:
    """Have the learner's worker write these files. Raises WeightsRefused where that cannot come to anything."""
    if what not in (What.MERGED, What.GGUF):
        raise WeightsRefused(_("Choose one: a whole model (merged), or GGUF."))
    if not may(checkpoint):
        said = _("%(checkpoint)s has no weights of its own on this disk: there is nothing to write.")
        raise WeightsRefused(said % {"checkpoint": checkpoint})
    if (again := standing(checkpoint).filter(what=what).first()) is not None:
        return again
    wanted = 4 * size()  # merged perhaps in float32, and once more in its zip or its GGUF
    free = shutil.disk_usage(settings.DATA_DIR).free - settings.DISK_RESERVE_MB * 2**20
    if free < wanted:
        said = _(
            "It may take %(wanted)s on the way, and %(free)s are free. Delete something first: the page Storage says "
            "what can go."
        )
        raise WeightsRefused(said % {"wanted": retention.size(wanted), "free": retention.size(max(0, free))})
    return exports.ask(what, by=by, checkpoint=checkpoint)


def standing(checkpoint: Checkpoint) -> Any:
    """Its exports that wait, are being written or are ready, the newest first."""
    alive = (Export.Status.QUEUED, Export.Status.WRITING, Export.Status.READY)
    return Export.objects.filter(checkpoint=checkpoint, status__in=alive)


def make(pk: int) -> None:
    """Write the files that were asked for."""
    exports.carry_out(pk, {What.MERGED, What.GGUF}, _write)


def _write(export: Export, folder: Path, progress: Progress) -> dict[str, Any]:
    checkpoint = export.checkpoint
    assert checkpoint is not None  # it was asked for by one
    name, tree = checkpoint.name.replace("@", "-"), folder / "model"
    if export.what == What.GGUF:
        _check_base()
    progress.tell(0, PERCENT)
    note = provenance.export(checkpoint, tree, merged=True)
    progress.tell(HALF, PERCENT)
    if export.what == What.GGUF:
        from gpu_workers.learner import gguf_files

        def tell(done: int, total: int) -> None:
            progress.tell(HALF + done * HALF // total, PERCENT)

        gguf_files.write(tree, folder / f"{name}.gguf", name=checkpoint.name, tell=tell)
        shutil.move(tree / BESIDE, folder / BESIDE)
    else:
        _pack(tree, folder / f"{name}-merged.zip", name, progress)
    shutil.rmtree(tree)
    return {"note": note}


def _check_base() -> None:
    """See that the base can be written as GGUF before minutes go into merging. Raises NotGguf."""
    from gpu_workers.learner import gguf_files

    model = Path(settings.MODEL)
    texts = [(model / file).read_text(encoding="utf-8") for file in ("config.json", "tokenizer.json")]
    gguf_files.check(*map(json.loads, texts))


def _pack(tree: Path, to: Path, name: str, progress: Progress) -> None:
    """The folder as one zip: not made smaller, for weights hardly get smaller."""
    files = sorted(file for file in tree.rglob("*") if file.is_file())
    total, done = sum(file.stat().st_size for file in files) or 1, 0
    with zipfile.ZipFile(to, "w", zipfile.ZIP_STORED) as archive:
        for file in files:
            inside = f"{name}/{file.relative_to(tree)}"
            with file.open("rb") as source, archive.open(inside, "w", force_zip64=True) as out:
                while part := source.read(1 << 20):
                    out.write(part)
                    done += len(part)
                    progress.tell(HALF + done * HALF // total, PERCENT)
