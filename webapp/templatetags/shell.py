"""Find what the frame of each page shows: the console's rail, the person's menu, and what a term means."""

from __future__ import annotations

from typing import Any

from django import template
from django.template import Context

from webapp import glossary
from webapp.console import navigation

register = template.Library()


@register.simple_tag(takes_context=True)
def rail(context: Context) -> list[navigation.Entry]:
    """The console's entries, for this person on this page."""
    return navigation.rail(view_of(context), context["request"].user)


@register.simple_tag(takes_context=True)
def own_pages(context: Context) -> list[navigation.Tab]:
    """The pages of the person's menu, on this page."""
    return navigation.own(view_of(context))


@register.simple_tag(takes_context=True)
def term_of_page(context: Context) -> str:
    """The word of the glossary that this page is about; empty where there is none."""
    return navigation.term_of(view_of(context))


@register.inclusion_tag("_words.html", takes_context=True)
def words(context: Context, *names: str) -> dict[str, Any]:
    """The words that a part of a page uses, each with its "?". Raises KeyError for one that the glossary lacks."""
    called = [(name, glossary.terms()[name.lower()].called(name)) for name in names]
    return {"names": called, "request": context.get("request")}


def view_of(context: Context) -> str:
    """The name of the view that answers, with its namespace; empty on a page that no view answered."""
    request = context.get("request")
    match = request.resolver_match if request is not None else None
    return match.view_name if match else ""


@register.inclusion_tag("_explained.html", takes_context=True)
def explain(context: Context, name: str) -> dict[str, Any]:
    """A "?" that shows the glossary's entry of this term; on one page the entry itself stands once. Raises KeyError for
    a word that the glossary does not have."""
    term = glossary.terms()[name.lower()]
    request = context.get("request")
    known: set[str] = set() if request is None else request.__dict__.setdefault("explained", set())
    is_first = term.slug not in known
    known.add(term.slug)
    return {"term": term, "name": term.called(name), "is_first": is_first}
