"""Which models the learner can load: those that transformers knows as causal language models."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from core.errors import TalkbackError

SENSES = ("vision_config", "audio_config")
"""What config.json of a model has that sees or hears. Text models are not asked about: asking imports torch."""


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
        "models. To learn, have MODEL name a text model; to chat alone, set LEARN_BY_DEFAULT=0."
    )
    return said % {"model": file.parent.name, "kind": kind} if kind else ""


@cache
def _unlearnable(file: Path, changed_at: int) -> str:
    """The model type that this config.json names, where the learner cannot load it."""
    config = json.loads(file.read_text(encoding="utf-8"))
    if not any(config.get(sense) for sense in SENSES):
        return ""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    kind = str(config.get("model_type", ""))
    return "" if kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES else kind
