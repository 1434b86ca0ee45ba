"""Where learning and answering are done elsewhere, said on every page of the console."""

from __future__ import annotations

from django import template
from django.conf import settings

from judge import naming
from training import outside

register = template.Library()


@register.simple_tag
def text_leaves_for() -> str:
    """The host that everything is sent to; empty where this machine learns and answers itself."""
    return naming.host_of(settings.TINKER_URL) if outside.is_outside() else ""
