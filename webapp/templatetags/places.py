"""What every page of the console shows around its own: where one can go, what is to be read, and the way back."""

from __future__ import annotations

from typing import Any

from django import template
from django.http import HttpRequest
from django.template import Context

from training import promotion
from training.models import Checkpoint
from webapp.console import notices, places

register = template.Library()


@register.simple_tag(takes_context=True)
def navigation(context: Context) -> list[places.Group]:
    """The console's pages in groups, for this person on this page."""
    request: HttpRequest = context["request"]
    view = request.resolver_match.view_name if request.resolver_match else ""
    return places.groups(view, is_staff=bool(getattr(request.user, "is_staff", False)))


@register.simple_tag(takes_context=True)
def noticed(context: Context) -> dict[str, Any]:
    """What is still unread, and the candidates that wait; the board's headline names those itself."""
    match = context["request"].resolver_match
    return notices.banner(names_waiting=match is None or match.view_name != "console:board")


@register.simple_tag
def way_back() -> dict[str, Checkpoint] | None:
    """Who answers in the shared line, and what a step back goes to; None where there is nothing to go back to."""
    previous = promotion.previous()
    return {"live": Checkpoint.live(), "previous": previous} if previous else None
