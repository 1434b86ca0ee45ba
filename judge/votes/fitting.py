"""The judge's own adapter: whether it is there, whose base it fits, and where the engine finds it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.conf import settings

FOLDER = Path(__file__).with_name("adapter")
"""As it comes with the repository."""

FILES = ("adapter_config.json", "adapter_model.safetensors")

PREFIX = "judge-"


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter that judges. Its name changes with its content, so that no engine ever serves an older one."""

    name: str
    folder: Path

    @property
    def place(self) -> Path:
        """Where the engine reads it: in DATA_DIR, which engine and workers see under the same name."""
        return Path(settings.DATA_DIR) / "judges" / self.name

    def placed(self) -> Path:
        """The same, with its files copied there whole, once."""
        if not self.place.is_dir():
            draft = self.place.with_name(f".{self.name}.{uuid.uuid4().hex[:8]}")
            draft.mkdir(parents=True)
            try:
                for file in FILES:
                    shutil.copyfile(self.folder / file, draft / file)
                os.rename(draft, self.place)
            except FileExistsError:
                pass  # another worker was quicker
            except OSError:
                if not self.place.is_dir():
                    raise
            finally:
                shutil.rmtree(draft, ignore_errors=True)
        return self.place


def adapter(folder: Path = FOLDER) -> Adapter | None:
    """The adapter in this folder; None when there is none."""
    try:
        stats = [(folder / file).stat() for file in FILES]
    except OSError:
        return None
    return Adapter(PREFIX + digest(folder, tuple((stat.st_mtime_ns, stat.st_size) for stat in stats)), folder)


@lru_cache(maxsize=8)
def digest(folder: Path, stamp: tuple[tuple[int, int], ...]) -> str:
    """8 hex digits of its files; `stamp` says which state of them."""
    content = hashlib.sha256()
    for file in FILES:
        content.update((folder / file).read_bytes())
    return content.hexdigest()[:8]


def is_ours(name: str) -> bool:
    """True for the name of an adapter that judges; the policy's are called otherwise."""
    return name.startswith(PREFIX)


def base_of(folder: Path) -> str:
    """The model that it was trained on, as its configuration names it; empty when it does not say."""
    try:
        config = json.loads((folder / FILES[0]).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(config.get("base_model_name_or_path") or "")


def fits(folder: Path, model: str | Path) -> bool:
    """True when the adapter was trained on this very model: both go by the same last name.

    A fine-tune of the same shape would load as well, and would judge by weights that were never measured.
    """
    return adapter(folder) is not None and last_name(base_of(folder)) == last_name(str(model)) != ""


def last_name(model: str) -> str:
    """
    >>> last_name("HuggingFaceTB/SmolLM2-135M-Instruct") == last_name("/srv/models/smollm2-135m-instruct/")
    True
    """
    return model.rstrip("/").rpartition("/")[2].casefold()
