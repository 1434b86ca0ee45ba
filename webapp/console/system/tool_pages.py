"""Show the MCP servers whose tools chats may use; add and remove one, read its list, turn tools on, off and safe."""

from __future__ import annotations

import re

from asgiref.sync import async_to_sync
from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from chat.tools import programs, reaching
from chat.tools.servers import ToolServer
from core.network.outside import AddressRefused
from webapp.console.doors import needs, person, said_aloud

NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


class ServerForm(forms.Form):
    """Validate a new server: a name that no other has, and an address that may be reached."""

    name = forms.CharField(max_length=40)
    url = forms.CharField(max_length=500, widget=forms.URLInput)
    token = forms.CharField(max_length=2000, required=False)

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if not NAME.fullmatch(name):
            raise forms.ValidationError(_("A name has letters, digits, - and _ alone: models read it."))
        if ToolServer.objects.filter(name=name).exists():
            raise forms.ValidationError(_("Another server has this name."))
        return name

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"].strip()
        try:
            reaching.check_address(url)
        except AddressRefused as refusal:
            raise forms.ValidationError(str(refusal)) from refusal
        return url

    def clean_token(self) -> str:
        token: str = self.cleaned_data["token"].strip()
        if not token.isascii() or not token.isprintable():
            raise forms.ValidationError(_("A token has ASCII characters alone."))
        return token

    def save(self) -> ToolServer:
        made = ToolServer(name=self.cleaned_data["name"], url=self.cleaned_data["url"])
        made.seal_token(self.cleaned_data["token"])
        made.save()
        return made


def page(request: HttpRequest, form: ServerForm, status: int = 200) -> HttpResponse:
    said_aloud(request, programs.sync)
    context = {"servers": ToolServer.objects.all(), "form": form}
    return render(request, "system/tools.html", context, status=status)


@needs("engines")
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    return page(request, ServerForm())


@needs("engines")
@require_POST
def add(request: HttpRequest) -> HttpResponse:
    """Keep the server, and read its list at once; one that does not answer stays, and says why."""
    form = ServerForm(request.POST)
    if not form.is_valid():
        return page(request, form, status=422)
    made = form.save()
    ToolServer.objects.filter(pk=made.pk).update(added_by=person(request))
    read(request, made)
    return redirect("console:tools")


@needs("engines")
@require_POST
def look(request: HttpRequest, pk: int) -> HttpResponse:
    read(request, get_object_or_404(ToolServer, pk=pk))
    return redirect("console:tools")


def read(request: HttpRequest, server: ToolServer) -> None:
    """Read the server's list, and say what came of it."""

    def reads() -> str:
        changed: str = async_to_sync(reaching.look)(server)
        said = _("%(server)s answers.") % {"server": server}
        messages.success(request, f"{said} {changed}".strip(), extra_tags="good")
        return changed

    said_aloud(request, reads)


@needs("engines")
@require_POST
def change(request: HttpRequest, pk: int) -> HttpResponse:
    """Turn its tools on and off, and say which need no person's yes: that holds for what they say of themselves now."""
    server = get_object_or_404(ToolServer, pk=pk)
    on, safe, seen = (set(request.POST.getlist(name)) for name in ("on", "safe", "seen"))
    known = [tool for tool in server.tools if f"{tool.name}/{tool.definition}" in seen]  # as the page showed it
    named = {tool.name for tool in known}
    server.off = sorted({name for name in server.off if name not in named} | (named - on))
    kept = {name: definition for name, definition in server.safe.items() if name not in named}
    server.safe = kept | {tool.name: tool.definition for tool in known if tool.name in safe}
    server.save(update_fields=["off", "safe"])
    messages.success(request, _("Saved: it counts from the next message on."), extra_tags="good")
    return redirect("console:tools")


@needs("engines")
@require_POST
def remove(request: HttpRequest, pk: int) -> HttpResponse:
    """No chat has its tools any more; what they said stays where it was said."""
    get_object_or_404(ToolServer.objects.exclude(url=""), pk=pk).delete()
    messages.success(request, _("The server is gone: no chat can use its tools any more."), extra_tags="good")
    return redirect("console:tools")


urls = [
    path("tools/", home, name="tools"),
    path("tools/add/", add, name="tool_add"),
    path("tools/<row:pk>/look/", look, name="tool_look"),
    path("tools/<row:pk>/change/", change, name="tool_change"),
    path("tools/<row:pk>/remove/", remove, name="tool_remove"),
]
