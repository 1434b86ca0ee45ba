"""What weights hold that was taken back, beside whatever has them answer."""

from __future__ import annotations

from django import template

from training import taints
from training.models import Checkpoint, Taint

register = template.Library()


@register.simple_tag
def taken_back(checkpoint: Checkpoint | None) -> Taint | None:
    """What of these weights' learning was taken back; None where nothing was."""
    return taints.of(checkpoint)
