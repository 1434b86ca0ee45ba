"""Say in the reader's language what a row keeps in English."""

from __future__ import annotations

from django import template

from webapp.serving import retold as serving

register = template.Library()


@register.filter
def retold(text: str) -> str:
    """These sentences in the reader's language; a person's own words stay."""
    return serving.retold(text)
