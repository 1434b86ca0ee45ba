"""What a task folder says, whichever form it is written in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from environments.errors import Unplayable
from environments.sandboxes.sandbox import MIB, Network
from environments.sandboxes.trees import Tree, read_folder

MOST_DISK = 1024 * MIB
"""Writable folders are memory, so no task is given more."""
NOTHING = Tree({})


@dataclass(frozen=True)
class Environment:
    """Where a task's agent, or its verifier, works."""

    context: Tree
    """What a Dockerfile may copy."""
    dockerfile: str | None
    """Its text."""
    file: str
    """Its name, as sentences give it."""
    image: str | None = None
    """A ready image in its place."""
    workdir: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    network: Network = "no"
    memory: int = 512 * MIB
    disk: int = 256 * MIB
    build_s: float = 600.0


@dataclass(frozen=True)
class Step:
    """An instruction, and how what came of it is scored. Most tasks have one."""

    name: str
    instruction: str
    tests: Tree
    test: str
    """The script among the tests that writes the verdict."""
    solution: Tree
    """Its solve.sh is the oracle."""
    workdir: Tree = NOTHING
    """Files that are laid into the working folder before it begins; a setup.sh among them is run."""
    collect: tuple[str, ...] = ()
    """Commands that run when the agent is done, in a sandbox that has neither tests nor verdicts."""
    verifier_env: Mapping[str, str] = field(default_factory=dict)
    verifier_s: float = 600.0
    least: float | None = None
    """The steps after it are given up below this reward."""


@dataclass(frozen=True)
class Folder:
    """One task. `digest` is of all that decides what it is."""

    name: str
    digest: str
    steps: tuple[Step, ...]
    environment: Environment
    separate: Environment | None = None
    """The verifier's own environment; None: it has the agent's."""
    artifacts: tuple[str, ...] = ()
    """What alone is brought to a separate verifier; nothing said: all the work."""
    solution_env: Mapping[str, str] = field(default_factory=dict)
    agent_s: float = 600.0
    takes_last: bool = False
    """The reward is that of the last step, and not the mean."""
    notes: tuple[str, ...] = ()
    """What it says and is not honoured."""

    @property
    def id(self) -> str:
        """The same id is the same task on every machine."""
        return f"{self.name}-{self.digest[:8]}"


def read_files(path: Path) -> Tree:
    """All files of a task folder. Raises Unplayable for links and the like, and for too many."""
    try:
        tree = read_folder(path)
    except (OSError, ValueError) as error:
        raise Unplayable(f"{path}: {error}") from error
    if tree.left_out:
        raise Unplayable(f"{path / tree.left_out[0]} is no regular file, or may not be read.")
    return tree


def digest_of(files: Tree) -> str:
    """SHA-256 over names, modes (may it be run) and contents."""
    digest = hashlib.sha256()
    for name, file in sorted(files.files.items()):
        digest.update(f"{len(name)} {name} {len(file.content)} {bool(file.mode & 0o100)}\n".encode())
        digest.update(file.content)
    return digest.hexdigest()


def part(files: Tree, folder: str) -> Tree:
    """The files below a folder, by their path from it."""
    start = folder.rstrip("/") + "/"
    return Tree({name[len(start) :]: file for name, file in files.files.items() if name.startswith(start)})


def text_of(files: Tree, name: str, at: Path) -> str:
    """Raises Unplayable where it is not there or no UTF-8."""
    if name not in files.files:
        raise Unplayable(f"{at / name} is missing.")
    try:
        return files.files[name].content.decode()
    except UnicodeDecodeError as error:
        raise Unplayable(f"{at / name} is no UTF-8: {error}") from error


CANARY = re.compile(r"(?:<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)


def without_canary(text: str) -> str:
    """An instruction without the lines by which data sets mark themselves at its beginning.

    >>> without_canary("<!-- canary GUID 1 -->\\n\\nSort it.\\n")
    'Sort it.'
    """
    lines = text.strip().splitlines()
    while lines and (not lines[0].strip() or CANARY.fullmatch(lines[0].strip())):
        lines.pop(0)
    return "\n".join(lines)


VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def resolve(variables: Mapping[str, str], where: str) -> dict[str, str]:
    """Fill in the defaults of ${NAME:-default}. The host's own variables are given to no task.

    Raises Unplayable for one without a default.
    """

    def default(found: re.Match[str]) -> str:
        if found[2] is None:
            raise Unplayable(f"{where} asks for the host's variable {found[1]}, and tasks are given none of those.")
        return found[2]

    return {name: VARIABLE.sub(default, value) for name, value in variables.items()}
