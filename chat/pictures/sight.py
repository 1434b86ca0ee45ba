"""Whether pictures can be shown to the model that answers: asked here, and nowhere else."""

from __future__ import annotations

from django.conf import settings
from django.utils.translation import gettext as _

from chat.rendering.renderer import Renderer
from gpu_workers import engines


def why_blind() -> str:
    """Why no picture can be shown, in one sentence that says what to do; empty where one can. It may ask the engine:
    call it in a thread."""
    if not Renderer.for_model(settings.MODEL).picture:
        return _("This model reads text only: say in words what is on the picture, or have a model that sees served.")
    if not engines.see():
        return _(
            "The engine that serves this model takes no pictures: say in words what is on the picture, or serve the "
            "model with SGLang."
        )
    return ""
