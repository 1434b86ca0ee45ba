"""Ask in any template what a person may do."""

from __future__ import annotations

from typing import Any

from django import template
from django.contrib.auth.models import AnonymousUser

from accounts import roles

register = template.Library()


@register.filter
def may(user: Any, what: str) -> bool:
    """`{% if user|may:"review" %}`; of a page without a person, no."""
    return roles.may(user or AnonymousUser(), what)
