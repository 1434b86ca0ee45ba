"""Remove what dead workers left on disk: weights that no checkpoint names, snapshots of runs that are over."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from django.conf import settings
from django.db import transaction

from checkpoints.models import Checkpoint
from training import snapshots
from training.models import Run


def clear_orphans(*, only_broken: bool = False) -> list[str]:
    """Remove folders of weights that no checkpoint names, or one that was let go of: a worker died between writing and
    committing them, or between letting them go and removing them; and snapshots of runs that are over. `only_broken`:
    none that is whole and was never let go of (the database may be an older one, put back), and nothing while a run is
    at work, whose weights no row names yet."""
    clear_snapshots()
    folder = Path(settings.DATA_DIR) / "checkpoints"
    orphans = {}
    with transaction.atomic():
        Checkpoint.objects.select_for_update().get(number=0)  # an import names its weights under this lock
        if not folder.is_dir() or (only_broken and Run.objects.filter(status=Run.Status.RUNNING).exists()):
            return []
        named = dict(Checkpoint.objects.exclude(path="").values_list("path", "let_go_at"))
        let_go = {Path(path).name: at is not None for path, at in named.items()}
        for entry in folder.iterdir():
            if let_go.get(entry.name, not only_broken or entry.name.startswith(".")):
                orphans[entry.name] = gone = folder / f".gone.{uuid.uuid4().hex}"
                entry.rename(gone)
    for gone in orphans.values():
        shutil.rmtree(gone, ignore_errors=True)
    return list(orphans)


def clear_snapshots() -> None:
    """Remove those of runs that are over."""
    at_work = Run.objects.filter(status__in=(Run.Status.QUEUED, Run.Status.RUNNING))
    snapshots.clear(Path(settings.DATA_DIR), keep=at_work.values_list("pk", flat=True))
