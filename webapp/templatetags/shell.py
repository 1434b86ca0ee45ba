"""Find what the frame of each page shows: the console's rail, and the person's menu."""

from __future__ import annotations

from django import template
from django.template import Context

from webapp.console import navigation

register = template.Library()


@register.simple_tag(takes_context=True)
def rail(context: Context) -> list[navigation.Entry]:
    """The console's entries, on this page."""
    return navigation.rail(view_of(context))


@register.simple_tag(takes_context=True)
def own_pages(context: Context) -> list[navigation.Tab]:
    """The pages of the person's menu, on this page."""
    return navigation.own(view_of(context))


def view_of(context: Context) -> str:
    """The name of the view that answers, with its namespace; empty on a page that no view answered."""
    request = context.get("request")
    match = request.resolver_match if request is not None else None
    return match.view_name if match else ""
