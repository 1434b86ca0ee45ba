"""Read which programs the installation lets serve tools: a file, since no form may ever start a command."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from chat.tools.servers import ToolServer
from core.errors import TalkbackError
from core.visible import name_fault

MEMBERS = frozenset({"command", "env", "folder"})


class FileUnreadable(TalkbackError):
    """TOOLS_FILE cannot be read; the sentence says where it is wrong."""

    code, status = "tools_file_unreadable", 500


@dataclass(frozen=True)
class Program:
    """How a server is started: as this installation's user, with its network and files."""

    command: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    folder: Path = Path()


def read() -> dict[str, Program]:
    """Programs by the names of their servers; none where no file is set. Raises FileUnreadable."""
    if not settings.TOOLS_FILE:
        return {}
    path = Path(settings.TOOLS_FILE)
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        return {name: _program(path.parent, name, one) for name, one in said["servers"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = "it has no member servers" if isinstance(error, KeyError) else str(error)
        raise unreadable(why) from error


def unreadable(why: str) -> FileUnreadable:
    return FileUnreadable(
        _("TOOLS_FILE (%(path)s) cannot be read: %(why)s.") % {"path": settings.TOOLS_FILE, "why": why}
    )


def _program(base: Path, name: str, said: dict[str, object]) -> Program:
    if unknown := sorted(set(said) - MEMBERS):
        raise ValueError(f"{name} has {unknown[0]!r}, and there are {', '.join(sorted(MEMBERS))}")
    command, env, folder = said.get("command"), said.get("env", {}), said.get("folder", ".")
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        raise ValueError(f"the command of {name} is a list of words")
    if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        raise ValueError(f"the env of {name} is an object of texts")
    if not 1 <= len(name) <= 40 or name_fault(name):
        raise ValueError("a name has 1 to 40 characters, each of which is seen")
    return Program(tuple(command), env, base / str(folder))


def sync() -> dict[str, Program]:
    """The programs, each with its row; rows of those that the file names no more go. Raises FileUnreadable."""
    known = read()
    if taken := ToolServer.objects.exclude(url="").filter(name__in=known).first():
        raise unreadable(f"a server at an address is called {taken} already")
    ToolServer.objects.filter(url="").exclude(name__in=known).delete()
    for name in known:
        ToolServer.objects.get_or_create(name=name, defaults={"url": ""})
    return known
