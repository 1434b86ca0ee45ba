"""Files that travel between the host and sandboxes: regular ones alone, no link followed, number and size bounded."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

MOST_BYTES = 64 * 2**20
MOST_FILES = 10_000
MOST_DEPTH = 64

HOOKS = ("sitecustomize.py", "usercustomize.py", "conftest.py", "*.pth", "*.pyc", "pytest.ini", ".pytest.ini")
"""Names that Python and pytest run or obey unasked. An agent's are not taken along to where its work is scored."""


@dataclass(frozen=True)
class File:
    content: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Tree:
    """Files by their relative path, the paths of what was left out, and of folders that hold nothing."""

    files: Mapping[str, File]
    left_out: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.files) > MOST_FILES or len(self.folders) > MOST_FILES:
            raise ValueError(f"a tree of {len(self.files)} files: at most {MOST_FILES} travel")
        for name in (*self.files, *self.folders):
            refuse_escape(name)

    def without(self, patterns: Collection[str]) -> Tree:
        """The tree without files whose last name fits one of the patterns."""
        kept = {
            name: file
            for name, file in self.files.items()
            if not any(fnmatchcase(PurePosixPath(name).name, pattern) for pattern in patterns)
        }
        return Tree(kept, (*self.left_out, *(name for name in self.files if name not in kept)), self.folders)

    def over(self, other: Tree) -> Tree:
        """These files on top of the other's."""
        folders = tuple(dict.fromkeys((*other.folders, *self.folders)))
        return Tree({**other.files, **self.files}, (*other.left_out, *self.left_out), folders)

    def below(self, folder: str) -> Tree:
        """The same tree with each path below `folder`, a relative path.

        >>> Tree({"x": File(b"")}).below("app").files
        {'app/x': File(content=b'', mode=420)}
        """
        return Tree(
            {f"{folder}/{name}": file for name, file in self.files.items()},
            tuple(f"{folder}/{name}" for name in self.left_out),
            tuple(f"{folder}/{name}" for name in self.folders),
        )

    def write(self, folder: Path, *, for_everyone: bool = False) -> None:
        """Write below a folder of the host, which must be empty or new: then there is no link to follow.

        With `for_everyone` any user of the host can read it, whatever this one's umask.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ValueError(f"{folder} is not empty")
        made = {folder}
        for name, file in self.files.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            made.update(parent for parent in place.parents if parent.is_relative_to(folder))
            handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "wb") as opened:
                opened.write(file.content)
                os.fchmod(handle, (file.mode | 0o444) & 0o755 if for_everyone else file.mode & 0o777)
        if for_everyone:
            for parent in made:
                parent.chmod(0o755)


def refuse_escape(name: str) -> None:
    """Raises ValueError for a path that is absolute, leads up, or that no file system takes."""
    parts = name.split("/")
    if "\0" in name or len(name) > 4000 or any(part in ("", ".", "..") or len(part) > 255 for part in parts):
        raise ValueError(f"no relative path of a file: {name[:100]!r}")


def read_folder(folder: Path) -> Tree:
    """Read a folder of the host. Each step is opened below the one before, so a link that is swapped in leads nowhere.

    Raises ValueError for more than MOST_FILES files, MOST_BYTES bytes or MOST_DEPTH folders in folders.
    """
    files: dict[str, File] = {}
    left_out: list[str] = []
    budget = MOST_BYTES

    def visit(handle: int, before: str, depth: int) -> None:
        nonlocal budget
        if depth > MOST_DEPTH:
            raise ValueError(f"{folder}: more than {MOST_DEPTH} folders deep")
        for name in sorted(os.listdir(handle)):
            path = before + name
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            try:
                inner = os.open(name, flags, dir_fd=handle)
            except OSError:  # a link, a socket, or one that may not be read
                left_out.append(path)
                continue
            try:
                about = os.fstat(inner)
                if stat.S_ISDIR(about.st_mode):
                    visit(inner, path + "/", depth + 1)
                elif stat.S_ISREG(about.st_mode):
                    with os.fdopen(os.dup(inner), "rb") as opened:
                        content = opened.read(budget + 1)
                    budget -= len(content)
                    if budget < 0 or len(files) >= MOST_FILES:
                        raise ValueError(f"{folder}: more than {MOST_FILES} files or {MOST_BYTES} bytes")
                    files[path] = File(content, stat.S_IMODE(about.st_mode) & 0o777)
                else:
                    left_out.append(path)
            finally:
                os.close(inner)

    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        visit(handle, "", 0)
    finally:
        os.close(handle)
    return Tree(files, tuple(left_out))
