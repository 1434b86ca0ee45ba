"""How much, for people."""

from __future__ import annotations

from django import template

from training import retention

register = template.Library()


@register.filter
def size(number: float) -> str:
    """Bytes: "1.5 GiB"."""
    return retention.size(number)
