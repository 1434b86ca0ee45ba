"""Say what pages of people need to know of the request."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from django import template
from django.conf import settings
from django.http import HttpRequest
from django.http.request import split_domain_port
from django.template import Context

from core.network import loopback

register = template.Library()


@dataclass(frozen=True)
class PasskeyPlace:
    """Whether a page is where passkeys can work. They belong to a name (WebAuthn's relying party)."""

    is_number: bool
    link: str = ""
    """The same page, with its query, under a name; empty where web does not hold all that is behind one."""

    once_started_anew: str = ""
    """Where a web that listens on this machine's number would be, once its operator starts it with HOST=localhost."""


@register.simple_tag(takes_context=True)
def passkey_place(context: Context) -> PasskeyPlace:
    """Whether the address that this page was opened by is a number, and where to go then."""
    request: HttpRequest = context["request"]
    host, port = split_domain_port(request.get_host())
    if not loopback.is_address(host):
        return PasskeyPlace(is_number=False)
    there = f"{request.scheme}://{loopback.NAME}{port and ':' + port}"
    if host.strip("[]") in loopback.ADDRESSES:
        if urlsplit(there)[:2] == urlsplit(settings.ADDRESS)[:2]:
            return PasskeyPlace(is_number=True, link=there + request.get_full_path())
        if (request.scheme, request.get_host()) == urlsplit(settings.ADDRESS)[:2]:
            return PasskeyPlace(is_number=True, once_started_anew=there)
    return PasskeyPlace(is_number=True)
