"""A folder for one session, and the tools by which a model reads and writes in it.

What a tool gives back is text for the model, errors too: a wrong name is something it can put right. No path leads out
of the folder, and nothing grows without end.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

MOST_BYTES = 64 * 1024
"""Of one file. A longer one is read as far as this."""
MOST_FILES = 64
MOST_NAME = 200


def _tool(name: str, description: str, **fields: str) -> dict[str, Any]:
    properties = {field: {"type": "string", "description": said} for field, said in fields.items()}
    parameters = {"type": "object", "properties": properties, "required": list(fields), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = (
    _tool("list_files", "List the files in the workspace, one a line."),
    _tool("read_file", "Read a text file of the workspace.", path="Its name, as list_files gives it."),
    _tool(
        "write_file",
        "Write a text file of the workspace. What it held before is replaced.",
        path="Its name; folders in it are made.",
        content="The whole text of the file.",
    ),
)
"""In OpenAI's form."""


class Refusal(Exception):
    """A call that cannot be done; the message is for the model."""


class Workspace:
    """A temporary folder with `files` in it. It is gone when the `with` ends."""

    def __init__(self, files: Mapping[str, str] | None = None) -> None:
        self._held = tempfile.TemporaryDirectory(prefix="talkback-workspace-")
        self.folder = Path(self._held.name).resolve()
        try:
            for path, content in (files or {}).items():
                self.write(path, content)
        except Refusal as refusal:
            self.close()
            raise ValueError(str(refusal)) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._held.cleanup()

    def call(self, name: str, arguments: str) -> str:
        """What a model's call comes to; `arguments` are JSON as the model wrote them."""
        try:
            given = json.loads(arguments or "{}")
        except json.JSONDecodeError as error:
            return f"Error: the arguments are no JSON ({error.msg})."
        if not isinstance(given, dict):
            return "Error: the arguments are no JSON object."
        wanted = WANTED.get(name)
        if wanted is None:
            return f"Error: there is no tool {name}. There are {', '.join(WANTED)}."
        if wrong := [
            field for field in (*wanted, *given) if field not in wanted or not isinstance(given.get(field), str)
        ]:
            return f"Error: {name} takes {' and '.join(wanted) or 'no arguments'} as text; look at {wrong[0]!r}."
        try:
            if name == "list_files":
                return "\n".join(self.names()) or "The workspace is empty."
            if name == "read_file":
                return self.read(given["path"])
            self.write(given["path"], given["content"])
            return f"Wrote {given['path']} ({len(given['content'].encode())} bytes)."
        except Refusal as refusal:
            return f"Error: {refusal}"

    def names(self) -> list[str]:
        """Every file, in order."""
        found = (path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink())
        return sorted(path.relative_to(self.folder).as_posix() for path in found)

    def read(self, path: str) -> str:
        place = self._place(path)
        if not place.is_file():
            there = ", ".join(self.names()) or "none"
            raise Refusal(f"there is no file {path}. There are: {there}.")
        with place.open("rb") as file:
            held = file.read(MOST_BYTES + 1)
        text = held[:MOST_BYTES].decode(errors="replace")
        return text + f"\n[only the first {MOST_BYTES} bytes]" if len(held) > MOST_BYTES else text

    def text(self, path: str) -> str:
        """What a file holds; nothing where there is none."""
        with suppress(Refusal):
            return self.read(path)
        return ""

    def write(self, path: str, content: str) -> None:
        place = self._place(path)
        if place.is_dir() or place == self.folder:
            raise Refusal(f"{path} is a folder.")
        held = content.encode(errors="replace")
        if len(held) > MOST_BYTES:
            raise Refusal(f"a file holds at most {MOST_BYTES} bytes, and this has {len(held)}.")
        if not place.exists() and len(self.names()) >= MOST_FILES:
            raise Refusal(f"the workspace holds at most {MOST_FILES} files.")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(held)
        except OSError as error:  # a file where a folder is wanted
            raise Refusal(f"{path} cannot be written: {error.strerror or error}.") from None

    def _place(self, path: str) -> Path:
        """Where `path` lies. Symbolic links are not followed: there are none but those that an intruder put there."""
        if not path.strip() or len(path) > MOST_NAME or "\0" in path:
            raise Refusal(f"a name has 1 to {MOST_NAME} characters.")
        if any(len(part.encode(errors="replace")) > MOST_NAME for part in path.split("/")):
            raise Refusal(f"a name has 1 to {MOST_NAME} characters.")
        if os.path.isabs(path) or "\\" in path or ".." in path.split("/"):
            raise Refusal(f"{path} leads out of the workspace; name a file inside of it.")
        place = self.folder.joinpath(path)
        for each in (place, *place.parents):
            if each == self.folder:
                break
            with suppress(OSError):
                if stat.S_ISLNK(each.lstat().st_mode):
                    raise Refusal(f"{path} leads out of the workspace; name a file inside of it.")
        return place


WANTED: Mapping[str, tuple[str, ...]] = {
    tool["function"]["name"]: tuple(tool["function"]["parameters"]["required"]) for tool in TOOLS
}
