"""List the judges, engines and servers of tools that read what a person writes."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from chat.tools.servers import ToolServer
from core.errors import TalkbackError
from gpu_workers import engines
from judge.votes import judges, naming
from training import outside


@dataclass(frozen=True)
class Reader:
    """A judge, an engine or a server of tools that reads what this person writes."""

    name: str
    does: str
    """answers | judges | passes on | learns | tools"""
    host: str
    leaves_machine: bool

    @property
    def deed(self) -> str:
        """What it does, for its person."""
        words = {
            "answers": _("answers, and scores what is learned"),
            "judges": pgettext("what it does", "judges"),
            "passes on": _("passes prompts on to those"),
            "learns": pgettext("what it does", "learns"),
            "tools": _("runs tools that you choose, on what the model writes for them"),
        }
        return words[self.does]


def readers() -> list[Reader]:
    """Who reads what is written here: engines, judges, a learner elsewhere, and servers of tools."""
    answering = [
        Reader(settings.MODEL_NAME, "answers", host_of(url), naming.leaves_machine(url)) for url in engines.addresses()
    ]
    if settings.ROUTER_URL:
        away = naming.leaves_machine(settings.ROUTER_URL)
        answering.append(Reader(_("the router"), "passes on", host_of(settings.ROUTER_URL), away))
    try:
        judging = [Reader(who.name, "judges", who.host, who.leaves_machine) for who in judges.roster()]
    except TalkbackError:  # the setting cannot be read: no judge votes until it can
        judging = []
    if outside.is_outside():
        judging.append(Reader("Tinker", "learns", naming.host_of(settings.TINKER_URL), True))
    # A program of the file runs here, and may send on what it is given.
    tools = [
        Reader(server.name, "tools", host_of(server.url), server.is_program or naming.leaves_machine(server.url))
        for server in ToolServer.objects.all()
    ]
    return [*answering, *judging, *tools]


def host_of(url: str) -> str:
    return urlsplit(url).netloc or url
