"""Ask in any template what a person may do."""

from __future__ import annotations

from typing import Any

from django import template
from django.contrib.auth.models import AnonymousUser, User

from accounts import roles

register = template.Library()


@register.filter
def may(user: Any, what: str) -> bool:
    """`{% if user|may:"review" %}`; of a page without a person, no."""
    return roles.may(user or AnonymousUser(), what)


@register.filter
def role(user: User) -> str:
    """The role of a person, whether or not the account is open."""
    return roles.kept_role(user)
