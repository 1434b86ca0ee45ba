"""A checkpoint for other tools, with a card of how it came about. Torch is imported inside, by the export alone."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from checkpoints import checksums
from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from training import outside
from training.models import Run, Sample
from training.provenance import base_model, receipts


class NotExportable(TalkbackError):
    """There is nothing to export, or nowhere to put it."""

    code, status = "not_exportable", 422


def export(checkpoint: Checkpoint, to: Path, *, merged: bool = False, base: str = "") -> str:
    """Write the checkpoint's weights to the new folder `to`; returns a sentence on what stands there.

    A LoRA checkpoint gives its adapter (PEFT's format) or, `merged`, one whole model in safetensors; full weights are
    whole already. `base` names the model that an adapter belongs on, for the tool that loads it; left out: as the
    base's own files call it. A signed receipt goes with them (training.provenance.receipts). Raises NotExportable for
    the base and where `to` is there already, AdapterInvalid for files that cannot be read, WeightsChanged for those
    that are not what was written."""
    if checkpoint.folder is None:
        said = _("%(checkpoint)s is the base model as it came: it is in %(folder)s already.")
        raise NotExportable(said % {"checkpoint": checkpoint, "folder": Path(settings.MODEL).name})
    if checkpoint.let_go_at is None and not checkpoint.folder.is_dir():
        said = _("The weights of %(checkpoint)s are gone: %(path)s is not in the data folder.")
        raise NotExportable(said % {"checkpoint": checkpoint, "path": checkpoint.path})
    checksums.verify(checkpoint)
    from gpu_workers.learner import weight_exports

    folder = outside.folder(checkpoint.folder)
    if not folder.is_dir():
        said = _("Tinker alone holds the weights of %(checkpoint)s: it handed out no copy of them.")
        raise NotExportable(said % {"checkpoint": checkpoint})
    seal = partial(receipts.beside, checkpoint)
    model, on = Path(settings.MODEL), base or base_model.base_name(Path(settings.MODEL))
    written = card(checkpoint, on, merged=merged)
    try:
        if checkpoint.kind == Checkpoint.Kind.FULL:
            weight_exports.copy_weights(model, checkpoint.folder, to, card=written, seal=seal)
            return f"{checkpoint} as a whole model: load it with transformers."
        if not merged:
            weight_exports.copy_adapter(folder, to, base=on, card=written, seal=seal)
            return f"The adapter of {checkpoint}: load {on}, then this folder with PEFT."
        made = weight_exports.merge_adapter(model, folder, to, card=written, seal=seal)
    except FileExistsError as error:
        raise NotExportable(str(error)) from error
    kept = f"in {made.dtype}" if made.lost <= weight_exports.MOST_LOST else "in float32"
    return (
        f"{checkpoint} merged into {on}, {kept}: rounding to the base's own dtype would take {made.lost:.0%} of the "
        "change away."
    )


def card(checkpoint: Checkpoint, base: str, *, merged: bool = False) -> str:
    """The README that goes with the weights: where they come from, in the model hub's form."""
    line, here = [], checkpoint.parent
    while here is not None:
        line.append(here.name)
        here = here.parent
    run = Run.that_made(checkpoint)
    what = "A whole model" if merged or checkpoint.kind == Checkpoint.Kind.FULL else "A LoRA adapter"
    parts = [
        "---",
        f"base_model: {base}",
        f"library_name: {'peft' if what == 'A LoRA adapter' else 'transformers'}",
        "tags: [talkback]",
        "---",
        f"# {checkpoint.name}",
        "",
        f"{what} that Talkback trained on {base} from conversations. It goes back to {', '.join(line) or 'nothing'}.",
    ]
    if run is not None:
        samples = run.samples.filter(status=Sample.Status.TRAINED).count()
        parts += [
            f"It was made on {checkpoint.created_at:%Y-%m-%d} by run {run.pk}, from {samples} samples. "
            "None of them are in these files.",
            "",
            "The recipe:",
            "",
            "```json",
            json.dumps(run.recipe, indent=2),
            "```",
        ]
    return "\n".join(parts) + "\n"
