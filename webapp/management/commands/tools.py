"""Manage the MCP servers of chats from the command line: what the page Tools does."""

from __future__ import annotations

from argparse import ArgumentParser
from getpass import getpass
from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import CommandError

from accounts import deeds
from chat.tools import programs, reaching
from chat.tools.servers import Tool, ToolServer
from core.errors import TalkbackError
from core.visible import visible
from webapp.console.system.tool_pages import ServerForm
from webapp.management.terminal import TerminalCommand


class Command(TerminalCommand):
    help = "List the MCP servers whose tools chats may use; add, read and remove servers; turn tools on and off."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("list", help="every server with its tools")
        add = actions.add_parser("add", help="add a server by its address, and read its list")
        add.add_argument("name")
        add.add_argument("url")
        add.add_argument("--token", action="store_true", help="ask for the token that it wants")
        for action, says in (("look", "read a server's list again"), ("remove", "remove a server")):
            actions.add_parser(action, help=says).add_argument("name")
        for action, says in (
            ("on", "let chats use a tool"),
            ("off", "let no chat use a tool"),
            ("safe", "call a tool without asking a person: it only reads"),
            ("ask", "ask a person before a tool is called"),
        ):
            one = actions.add_parser(action, help=says)
            one.add_argument("name", help="the server")
            one.add_argument("tool")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            programs.sync()
            getattr(self, f"do_{action}")(**options)
        except TalkbackError as failure:
            raise CommandError(str(failure)) from failure

    def do_list(self, **options: Any) -> None:
        for server in ToolServer.objects.all():
            self.show(server)

    def do_add(self, name: str, url: str, token: bool, **options: Any) -> None:
        form = ServerForm({"name": name, "url": url, "token": getpass("Token: ") if token else ""})
        if not form.is_valid():
            raise CommandError(" ".join(str(fault) for faults in form.errors.values() for fault in faults))
        made = form.save()
        self.note("tool server made", made)
        self.look(made)

    def do_look(self, name: str, **options: Any) -> None:
        self.look(self.named(name))

    def do_remove(self, name: str, **options: Any) -> None:
        server = self.named(name)
        if server.is_program:
            raise CommandError(f"{name} is a program of TOOLS_FILE: take it out of that file.")
        self.note("tool server removed", server)
        server.delete()
        self.stdout.write(f"{name} is gone: no chat can use its tools any more.")

    def do_on(self, name: str, tool: str, **options: Any) -> None:
        found = self.tool(name, tool)
        self.keep(found, off=[one for one in found.server.off if one != tool], safe=found.server.safe)

    def do_off(self, name: str, tool: str, **options: Any) -> None:
        found = self.tool(name, tool)
        self.keep(found, off=sorted({*found.server.off, tool}), safe=found.server.safe)

    def do_safe(self, name: str, tool: str, **options: Any) -> None:
        found = self.tool(name, tool)
        self.keep(found, off=found.server.off, safe=found.server.safe | {tool: found.definition})

    def do_ask(self, name: str, tool: str, **options: Any) -> None:
        found = self.tool(name, tool)
        kept = {one: definition for one, definition in found.server.safe.items() if one != tool}
        self.keep(found, off=found.server.off, safe=kept)

    def keep(self, tool: Tool, *, off: list[str], safe: dict[str, str]) -> None:
        ToolServer.objects.filter(pk=tool.server.pk).update(off=off, safe=safe)
        self.note("tools changed", tool.server)
        tool.server.refresh_from_db()
        self.show(tool.server)

    def look(self, server: ToolServer) -> None:
        async_to_sync(reaching.look)(server)
        self.show(server)

    def show(self, server: ToolServer) -> None:
        where = "a program of TOOLS_FILE" if server.is_program else server.url
        self.stdout.write(visible(f"{server}  {where}", one_line=True))
        if server.fault:
            self.stdout.write(f"  {visible(server.fault, one_line=True)}")
        for tool in server.tools:
            state = "off" if not tool.is_on else "safe" if tool.is_safe else "asks"
            said = visible(" ".join(tool.description.split())[:80], one_line=True)
            self.stdout.write(f"  {state:<5} {visible(tool.name, one_line=True):<24} {said}".rstrip())
        for sentence in server.left_out:
            self.stdout.write(f"  {visible(sentence, one_line=True)}")

    def named(self, name: str) -> ToolServer:
        found = ToolServer.objects.filter(name=name).first()
        if found is None:
            raise CommandError(f"There is no server {visible(name, one_line=True)}: `list` shows them.")
        return found

    def tool(self, name: str, tool: str) -> Tool:
        server = self.named(name)
        found = next((one for one in server.tools if one.name == tool), None)
        if found is None:
            raise CommandError(f"{name} lists no tool {visible(tool, one_line=True)}.")
        return found

    def note(self, verb: str, server: ToolServer) -> None:
        deeds.note("system", verb, about=f"server {server}")
