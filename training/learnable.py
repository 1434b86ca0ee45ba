"""Which models the learner can load: those that transformers knows as causal language models."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from core.errors import TalkbackError

SENSES = ("vision_config", "audio_config")
"""What config.json of a model has that sees or hears. Others are taken to be text models."""

NAMES = re.compile(r"^MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = OrderedDict\(\s*\[(.*?)^    \]", re.DOTALL | re.MULTILINE)
NAME = re.compile(r'\("([\w.-]+)",')


class NotLearnable(TalkbackError):
    """The learner cannot load this installation's model."""

    code, status = "not_learnable", 422


def require() -> None:
    """Raises NotLearnable where the learner of this machine cannot load MODEL."""
    if reason := why_not():
        raise NotLearnable(reason)


def why_not() -> str:
    """Why MODEL cannot be learned on this machine, and what to do; empty where it can, or its config cannot be read."""
    if settings.LEARNER != "local":
        return ""
    file = Path(settings.MODEL) / "config.json"
    try:
        kind = _unlearnable(file, file.stat().st_mtime_ns)
    except (OSError, ValueError):
        return ""
    said = _(
        "%(model)s is of the type %(kind)s, which the engine may serve and the learner cannot load: it loads text "
        "models. To learn, have MODEL name a text model."
    )
    return said % {"model": file.parent.name, "kind": kind} if kind else ""


@cache
def _unlearnable(file: Path, changed_at: int) -> str:
    """The model type that this config.json names, where the learner cannot load it."""
    config = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(config, dict) or not any(config.get(sense) for sense in SENSES):
        return ""
    kind, known = str(config.get("model_type", "")), causal_types()
    return kind if known and kind not in known else ""


@cache
def causal_types() -> frozenset[str]:
    """The model types that transformers loads as causal language models, read from its source: to import that imports
    torch, which no page and no command has. Empty where there is no such list."""
    found = find_spec("transformers")
    if found is None or found.origin is None:
        return frozenset()
    source = Path(found.origin).parent / "models" / "auto" / "modeling_auto.py"
    listed = NAMES.search(source.read_text(encoding="utf-8")) if source.exists() else None
    return frozenset(NAME.findall(listed[1])) if listed else frozenset()
