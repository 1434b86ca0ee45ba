"""A file that names an MCP server and tasks: one JSON object, or JSON lines of which the first names the server."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from core.visible import name_fault
from environments.errors import Unplayable
from environments.sandboxes.sandbox import MIB
from environments.worlds.base import Split, Task
from environments.worlds.problems import split_of

SERVER = frozenset({"command", "folder", "env", "packages", "memory_mb", "url", "headers", "start_s", "call_s"})
TASK = frozenset({"id", "prompt", "split", "check", "tools"})
CHECKS = {
    "answer": frozenset({"answer"}),
    "tool": frozenset({"tool", "arguments"}),
    "command": frozenset({"command", "tests"}),
}
START_S, CALL_S = 60.0, 30.0
VARIABLE = re.compile(r"\$\{?(\w+)\}?")
OURS = "MCP_"
"""How names of variables begin that a file may read from the player's environment, for a server's headers."""


@dataclass(frozen=True)
class Server:
    """Where tools come from: a program that is started for each attempt, or a URL."""

    command: tuple[str, ...] = ()
    folder: Path | None = None
    """Read-only at /server, where the command has its files."""
    env: Mapping[str, str] = field(default_factory=dict)
    packages: bool = False
    """The player's own Python packages are read-only at /packages, and on the server's path."""
    memory: int = 1024 * MIB
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    start_s: float = START_S
    call_s: float = CALL_S


@dataclass(frozen=True)
class TaskFile:
    path: Path
    server: Server
    tasks: tuple[Task, ...]
    horizon: int | None = None


def read(path: Path) -> TaskFile:
    """Raises Unplayable with what is wrong and where, or OSError."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise Unplayable(f"{path} is no text in UTF-8 ({error.reason}).") from error
    try:
        if path.suffix == ".jsonl":
            head, *tasks = [_object(line) for line in text.split("\n") if line.strip()] or [{}]
        else:
            head = _object(text)
            tasks = head.pop("tasks", [])
        return _read(path, head, tasks)
    except ValueError as error:
        raise Unplayable(f"{path}: {error}.") from error


def _object(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON ({error})") from error
    if not isinstance(said, dict):
        raise ValueError("it is no JSON object")
    return said


def _read(path: Path, head: Mapping[str, Any], tasks: Any) -> TaskFile:
    _refuse_unknown(head, frozenset({"server", "horizon"}), "the file")
    if not isinstance(head.get("server"), dict):
        raise ValueError('it names no "server"')
    horizon = head.get("horizon")
    if horizon is not None and (type(horizon) is not int or not 1 <= horizon <= 1000):
        raise ValueError(f"horizon is 1 to 1000 replies, and not {horizon!r}")
    server = _server(path.parent, head["server"])
    if not isinstance(tasks, list) or not tasks:
        raise ValueError("it has no tasks")
    read: dict[str, Task] = {}
    prompts: dict[str, Split] = {}
    for number, said in enumerate(tasks, 1):
        try:
            task = _task(path, said)
            if task.id in read:
                raise ValueError(f"an earlier task is {task.id} too")
            if prompts.setdefault(task.data["prompt"], task.split) != task.split:
                raise ValueError("this prompt is in both splits")
        except ValueError as error:
            raise ValueError(f"task {number}: {error}") from error
        read[task.id] = task
    if server.folder and path.resolve().is_relative_to(server.folder.resolve()):
        raise ValueError("it lies in the server's folder, where a tool could read the answers: put it elsewhere")
    return TaskFile(path, server, tuple(read.values()), horizon)


def _server(base: Path, said: Mapping[str, Any]) -> Server:
    _refuse_unknown(said, SERVER, "server")
    start_s, call_s = _seconds("start_s", said.get("start_s", START_S)), _seconds("call_s", said.get("call_s", CALL_S))
    command, url = said.get("command"), said.get("url")
    if (command is None) == (url is None):
        raise ValueError("server has a command or a url, and not both")
    if url is not None:
        address = urlsplit(str(url))
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ValueError(f"server.url begins with http:// or https://, and {url!r} does not")
        headers = {name: _expanded(value) for name, value in _texts(said, "headers").items()}
        return Server(url=str(url), headers=headers, start_s=start_s, call_s=call_s)
    memory = said.get("memory_mb", 1024)
    if type(memory) is not int or not 64 <= memory <= 65536:
        raise ValueError(f"server.memory_mb is 64 to 65536, and not {memory!r}")
    return Server(
        command=_words("server.command", command),
        folder=_below(base, "server.folder", said["folder"]) if "folder" in said else None,
        env=_texts(said, "env"),
        packages=_bool("server.packages", said.get("packages", False)),
        memory=memory * MIB,
        start_s=start_s,
        call_s=call_s,
    )


def _task(path: Path, said: Any) -> Task:
    if not isinstance(said, dict):
        raise ValueError("it is no JSON object")
    _refuse_unknown(said, TASK, "it")
    prompt = said.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError("prompt holds what is asked, as text")
    split = said.get("split", split_of(prompt))
    if split not in ("train", "heldout"):
        raise ValueError(f"split is train or heldout, and not {split!r}")
    own = said.get("id", f"q-{hashlib.sha256(prompt.encode()).hexdigest()[:16]}")
    if not isinstance(own, str) or not 1 <= len(own) <= 100 or name_fault(own):
        raise ValueError("id is a name of 1 to 100 characters that are all seen")
    tools = said.get("tools")
    given = None if tools is None else _words("tools", tools)
    data = {"prompt": prompt, "check": _check(path.parent, said.get("check")), "tools": given}
    return Task("mcp", f"{path.stem[:60]}-{own}", split, data)


def _check(base: Path, said: Any) -> dict[str, Any]:
    kinds = [kind for kind in CHECKS if isinstance(said, dict) and kind in said]
    if len(kinds) != 1:
        raise ValueError("check has an answer, a tool or a command")
    (kind,) = kinds
    _refuse_unknown(said, CHECKS[kind], "check")
    if kind == "answer":
        answer = said["answer"]
        if isinstance(answer, bool) or not isinstance(answer, str | int | float) or not str(answer).strip():
            raise ValueError("check.answer is a text or a number")
        return {"kind": kind, "answer": str(answer)}
    if kind == "tool":
        arguments = said.get("arguments", {})
        if not isinstance(said["tool"], str) or not isinstance(arguments, dict):
            raise ValueError("check.tool is a tool's name, and check.arguments a JSON object")
        return {"kind": kind, "tool": said["tool"], "arguments": arguments}
    tests = _below(base, "check.tests", said["tests"]) if "tests" in said else None
    return {"kind": kind, "command": _words("check.command", said["command"]), "tests": tests}


def _refuse_unknown(said: Mapping[str, Any], known: frozenset[str], what: str) -> None:
    if unknown := sorted(set(said) - known):
        raise ValueError(f"{what} has {unknown[0]!r}, which means nothing: there are {', '.join(sorted(known))}")


def _words(name: str, said: Any) -> tuple[str, ...]:
    if not isinstance(said, list) or not said or not all(isinstance(one, str) and one for one in said):
        raise ValueError(f"{name} is a list of words")
    return tuple(said)


def _texts(said: Mapping[str, Any], name: str) -> dict[str, str]:
    found = said.get(name, {})
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError(f"server.{name} is an object of texts")
    return found


def _bool(name: str, said: Any) -> bool:
    if not isinstance(said, bool):
        raise ValueError(f"{name} is true or false")
    return said


def _seconds(name: str, said: Any) -> float:
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 < said <= 3600:
        raise ValueError(f"server.{name} is a number of seconds up to 3600, and not {said!r}")
    return float(said)


def _below(base: Path, name: str, said: Any) -> Path:
    """A folder beside the file or below it: what a stranger's file names elsewhere on this machine is not shown."""
    found = base / str(said)
    if not found.is_dir() or not found.resolve().is_relative_to(base.resolve()):
        raise ValueError(f"{name} is a folder below the file's own, and {said!r} is none")
    return found


def _expanded(text: str) -> str:
    """A header with $MCP_… from the player's environment; no other variable is read, its key least of all."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if not name.startswith(OURS):
            raise ValueError(f"a header reads ${name}: of the environment only names that begin with {OURS} are read")
        if name not in os.environ:
            raise ValueError(f"a header reads ${name}, which is not set")
        return os.environ[name]

    return VARIABLE.sub(value, text)
