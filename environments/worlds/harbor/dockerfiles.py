"""Read the subset of Dockerfiles that a sandbox without docker can honour; anything else is refused by line and name.

Honoured: one FROM of a plain base, WORKDIR, COPY and ADD of files beside it, RUN of shell commands that need no network
and no root, ENV, ARG, and what has no effect on a container that waits for commands.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from environments.errors import Unplayable
from environments.sandboxes.trees import File, Tree
from environments.worlds.harbor.downloads import what_downloads

PLAIN = re.compile(
    r"(?:docker\.io/)?(?:library/)?(debian|ubuntu|python)(?::([\w.-]+))?"
    r"|ghcr\.io/laude-institute/t-bench/(ubuntu-24-04|python-3-13)(?::[\w.-]+)?"
)
"""Base images of which the host's own system may stand in place. That it does is shown by the oracle."""
WITHOUT_EFFECT = ("LABEL", "MAINTAINER", "EXPOSE", "CMD", "STOPSIGNAL", "VOLUME")


@dataclass(frozen=True)
class Put:
    """A file that is laid down at an absolute path."""

    path: str
    file: File
    at: str


@dataclass(frozen=True)
class Run:
    """A command with its folder and variables, and where it stands."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    at: str


@dataclass(frozen=True)
class Make:
    """A folder."""

    path: str


@dataclass(frozen=True)
class Plan:
    """What is done to make an image, in order, and what holds in it afterwards."""

    actions: tuple[Put | Run | Make, ...]
    env: Mapping[str, str]
    workdir: str


@dataclass(frozen=True)
class Line:
    """One instruction; `at` is the file and the line, as sentences begin."""

    at: str
    name: str
    said: str

    def refused(self, why: str) -> Unplayable:
        shown = " ".join(f"{self.name} {self.said}".split())
        return Unplayable(f"{self.at}: {shown[:100]}: {why}")


def plan(text: str, file: str, context: Tree) -> Plan:
    """Raises Unplayable with the line of what is not honoured."""
    return _Reading(context).read(_lines(text, file))


def _lines(text: str, file: str) -> list[Line]:
    found: list[Line] = []
    begun, number_begun = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        stripped = raw.strip()
        if re.match(r"#\s*(escape|syntax)\s*=", stripped, re.IGNORECASE) and not found and "escape" in stripped.lower():
            raise Unplayable(f"{file}:{number}: {stripped}: another escape sign is not honoured.")
        if not stripped or stripped.startswith("#"):
            continue
        number_begun = number_begun or number
        if stripped.endswith("\\"):
            begun += stripped[:-1] + " "
            continue
        name, _, said = (begun + stripped).partition(" ")
        line = Line(f"{file}:{number_begun}", name.upper(), said.strip())
        if re.search(r"<<-?[\"']?\w", line.said) and line.name in ("RUN", "COPY", "ADD"):
            raise line.refused("here-documents are not honoured.")
        found.append(line)
        begun, number_begun = "", 0
    if begun:
        raise Unplayable(f"{file}:{number_begun}: the last line goes on, and there is none.")
    return found


def refuse_base(image: str, at: str) -> None:
    """Raises Unplayable for an image of which the host's system can not stand in place."""
    found = PLAIN.fullmatch(image)
    if found is None:
        raise Unplayable(f"{at}: {image} is no plain Debian, Ubuntu or Python image: docker or podman is needed.")


class _Reading:
    def __init__(self, context: Tree) -> None:
        self.context = context
        self.actions: list[Put | Run | Make] = []
        self.env: dict[str, str] = {}
        self.arguments: dict[str, str] = {}
        self.workdir = "/"
        self.shell: tuple[str, ...] = ("/bin/sh", "-c")
        self.is_begun = False

    def read(self, lines: list[Line]) -> Plan:
        for line in lines:
            if not self.is_begun and line.name not in ("FROM", "ARG"):
                raise line.refused("it stands before FROM.")
            if line.name in WITHOUT_EFFECT:
                continue
            act = getattr(self, f"_{line.name.lower()}", None) if line.name.isalpha() else None
            if act is None:
                raise line.refused("this instruction is not honoured without docker or podman.")
            act(line)
        if not self.is_begun:
            raise Unplayable("A Dockerfile without FROM makes no image.")
        return Plan(tuple(self.actions), self.env, self.workdir)

    def _from(self, line: Line) -> None:
        if self.is_begun:
            raise line.refused("one stage is honoured.")
        words = [word for word in self._fill(line).split() if not word.startswith("--platform=")]
        if len(words) not in (1, 3) or words[0].startswith("--"):
            raise line.refused("it is not understood.")
        refuse_base(words[0], line.at)
        self.is_begun = True

    def _arg(self, line: Line) -> None:
        for name, value in _pairs(line).items():
            self.arguments[name] = self._fill(line, value)

    def _env(self, line: Line) -> None:
        pairs = _pairs(line)
        self.env.update({name: self._fill(line, value) for name, value in pairs.items()})

    def _workdir(self, line: Line) -> None:
        self.workdir = _absolute(self._fill(line).strip("\"'"), self.workdir)
        self.actions.append(Make(self.workdir))

    def _user(self, line: Line) -> None:
        if line.said not in ("root", "0", "1000", "root:root", "0:0"):
            raise line.refused("sandboxes have one user.")

    def _shell(self, line: Line) -> None:
        words = tuple(_listed(line) or ())
        if words[:1] not in (("/bin/bash",), ("/bin/sh",), ("bash",), ("sh",)):
            raise line.refused("sh and bash are honoured.")
        self.shell = words

    def _entrypoint(self, line: Line) -> None:
        words = _listed(line) or line.said.split()
        if words and words[0].rpartition("/")[2] not in ("sleep", "tail", "sh", "bash", "true"):
            raise line.refused("what it would start is not started here.")

    def _run(self, line: Line) -> None:
        if line.said.startswith("--"):
            raise line.refused("options of RUN are not honoured.")
        if downloads := what_downloads(line.said):
            raise line.refused(f"{downloads} needs the network, and a sandbox has none.")
        argv = tuple(_listed(line) or (*self.shell, line.said))
        self.actions.append(Run(argv, self.workdir, {**self.arguments, **self.env}, line.at))

    def _add(self, line: Line) -> None:
        if re.search(r"(?:^|\s)(?:https?://|git@)", line.said):
            raise line.refused("it needs the network, and a sandbox has none.")
        if re.search(r"\.(?:tar|tgz|tbz2?|txz|gz|bz2|xz)\b", line.said):
            raise line.refused("archives are not unpacked here: COPY it, and RUN tar.")
        self._copy(line)

    def _copy(self, line: Line) -> None:
        options, words = [], _listed(line) or shlex.split(self._fill(line))
        while words and words[0].startswith("--"):
            options.append(words.pop(0))
        mode = None
        for option in options:
            name, _, value = option.partition("=")
            if name == "--chmod" and re.fullmatch(r"0?[0-7]{3}", value):
                mode = int(value, 8)
            elif not (name == "--chown" and re.fullmatch(r"(?:root|0|1000)(?::(?:root|0|1000))?", value)):
                raise line.refused(f"{name} is not honoured.")
        if len(words) < 2:
            raise line.refused("it names what is copied, and where to.")
        if ".dockerignore" in self.context.files:
            raise line.refused("a .dockerignore is not honoured.")
        *sources, to = words
        into = to.endswith("/") or to in (".", "..") or len(sources) > 1
        target = _absolute(to, self.workdir)
        copied = [pair for source in sources for pair in self._found(source, target, into, line)]
        self.actions += [Put(path, File(file.content, mode or file.mode), line.at) for path, file in copied]

    def _found(self, source: str, target: str, into: bool, line: Line) -> list[tuple[str, File]]:
        """The files of one source, each with the path at which it is laid down."""
        wanted = str(PurePosixPath(source.lstrip("/")))
        if ".." in PurePosixPath(wanted).parts:
            raise line.refused("it leads out of the folder.")
        files = self.context.files
        if wanted in files:
            is_folder = into or any(isinstance(act, Make) and act.path == target for act in self.actions)
            return [(f"{target.rstrip('/')}/{PurePosixPath(wanted).name}" if is_folder else target, files[wanted])]
        folder = "" if wanted == "." else wanted + "/"
        below = [
            (f"{target.rstrip('/')}/{name[len(folder) :]}", files[name]) for name in files if name.startswith(folder)
        ]
        if below:
            if wanted == ".":
                below = [(path, file) for path, file in below if not path.endswith("/Dockerfile")]
            return below
        depth = len(PurePosixPath(wanted).parts)
        matches = {"/".join(PurePosixPath(name).parts[:depth]) for name in files}
        matches = {name for name in matches if any(sign in wanted for sign in "*?[") and fnmatchcase(name, wanted)}
        if not matches:
            raise line.refused(f"{source} is not in the folder.")
        return [pair for name in sorted(matches) for pair in self._found(name, target, True, line)]

    def _fill(self, line: Line, text: str | None = None) -> str:
        """Put in the values of $NAME, ${NAME} and ${NAME:-default}."""
        known = {**self.arguments, **self.env}

        def value(found: re.Match[str]) -> str:
            name = found[1] or found[2]
            if name not in known and found[3] is None and name != "PATH":
                raise line.refused(f"{name} has no value.")
            return known.get(name) or found[3] or known.get(name, "")

        filled = re.sub(r"\$(?:(\w+)|\{(\w+)(?::-([^}]*))?\})", value, line.said if text is None else text)
        if "${" in filled:
            raise line.refused("this form of ${…} is not honoured.")
        return filled


def _listed(line: Line) -> list[str] | None:
    """The words of an instruction in JSON's form; None where it is not."""
    if not line.said.startswith("["):
        return None
    try:
        words = json.loads(line.said)
    except ValueError:
        return None
    return words if isinstance(words, list) and all(isinstance(word, str) for word in words) else None


def _pairs(line: Line) -> dict[str, str]:
    """NAME=value …, NAME value, or the lone NAME of an ARG."""
    try:
        words = shlex.split(line.said)
    except ValueError as error:
        raise line.refused(f"{error}.") from error
    if line.name == "ARG":
        return {name: value for name, sign, value in (word.partition("=") for word in words) if sign}
    if words and "=" not in words[0]:
        return {words[0]: line.said.partition(" ")[2].strip()}
    if not all("=" in word for word in words):
        raise line.refused("it is not understood.")
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _absolute(path: str, below: str) -> str:
    """
    >>> _absolute("src/../lib", "/app"), _absolute("/data/", "/app")
    ('/app/lib', '/data')
    """
    parts: list[str] = []
    for part in (PurePosixPath(below) / path).parts[1:]:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/" + "/".join(parts)
