"""Take files with a message: text as fenced parts of it that carry their names, found in it again, and pictures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext as _

from chat.pictures import sight
from chat.pictures.picture import Picture, PictureRefused, check_bytes, read_picture

MOST = 5
"""Files of one message."""

MOST_BYTES = 200_000
"""Of one file."""

TEXT = {
    *("txt", "md", "rst", "tex", "log", "csv", "tsv", "json", "jsonl", "yaml", "yml", "toml", "ini", "cfg", "conf"),
    *("env", "properties", "xml", "html", "css", "svg", "srt", "vtt", "sql", "diff", "patch", "py", "js", "jsx", "mjs"),
    *("ts", "tsx", "c", "h", "cc", "cpp", "hpp", "cs", "go", "rs", "java", "kt", "swift", "php", "rb", "pl", "lua"),
    *("r", "sh", "bash", "ps1"),
}
"""Endings of files that hold text."""

PICTURES = {"avif", "bmp", "gif", "heic", "ico", "jpeg", "jpg", "png", "tif", "tiff", "webp"}

PART = re.compile(
    r"(?:\A|\n\n)File: (?P<name>[^\n]{1,120})\n(?P<fence>`{3,})\w*\n(?P<text>.*?)\n?(?P=fence)(?=\n\nFile: |\Z)", re.S
)


@dataclass(frozen=True)
class TextFile:
    """A file as the model reads it."""

    name: str
    text: str

    @property
    def lines(self) -> int:
        return self.text.count("\n") + bool(self.text and not self.text.endswith("\n"))

    @property
    def part(self) -> str:
        """As a part of a message: its name, and its text in a fence that nothing in it closes."""
        runs = [len(run) for run in re.findall(r"^`+", self.text, re.M)]
        fence = "`" * max(3, *(run + 1 for run in runs), 3)
        text = self.text if self.text.endswith("\n") else f"{self.text}\n"
        return f"File: {self.name}\n{fence}{ending(self.name)}\n{text}{fence}"


def ending(name: str) -> str:
    """What a file's name ends with, in small letters.

    >>> ending("Notes.MD"), ending("Makefile"), ending("a.tar.gz")
    ('md', '', 'gz')
    """
    return PurePath(name).suffix.lstrip(".").lower()


def read_files(sent: Sequence[UploadedFile]) -> list[TextFile | Picture]:
    """The files that were sent with a message. Raises ValidationError, with one sentence a fault. For pictures it may
    ask the engine: call it in a thread."""
    if len(sent) > MOST:
        raise ValidationError(
            _("A message takes at most %(most)d files; these are %(given)d.") % {"most": MOST, "given": len(sent)}
        )
    read: list[TextFile | Picture] = []
    faults: list[str] = []
    for file in sent:
        try:
            read.append(read_file(file))
        except ValidationError as fault:
            faults += fault.messages
    if faults:
        raise ValidationError(faults)
    return read


def read_file(file: UploadedFile) -> TextFile | Picture:
    """One of them. Raises ValidationError with a sentence that says what to do."""
    name = PurePath((file.name or "file").replace("\\", "/")).name[-120:]
    kind = ending(name)
    if kind in PICTURES or ((file.content_type or "").startswith("image/") and kind not in TEXT):
        return read_seen(file, name)
    if kind not in TEXT and not (file.content_type or "").startswith("text/"):
        raise ValidationError(
            _("%(name)s: only text can be read here, such as .txt, .md, .csv, .json or .py.") % {"name": name}
        )
    if (file.size or 0) > MOST_BYTES:
        raise ValidationError(
            _("%(name)s has %(held)d kB; a file may have at most %(most)d kB. Send a part of it.")
            % {"name": name, "held": round((file.size or 0) / 1000), "most": MOST_BYTES // 1000}
        )
    try:
        text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ValidationError(_("%(name)s is not text in UTF-8: save it as that, then add it again.") % {"name": name})
    if not text.strip():
        raise ValidationError(_("%(name)s is empty.") % {"name": name})
    return TextFile(name, text.replace("\r\n", "\n"))


def read_seen(file: UploadedFile, name: str) -> Picture:
    """A picture, for a model that sees. Raises ValidationError."""
    if sight.why_blind():
        raise ValidationError(
            _("%(name)s: this model cannot see pictures. Say in words what is on it.") % {"name": name}
        )
    try:
        check_bytes(file.size or 0)  # before it is read into memory
        return read_picture(file.read())
    except PictureRefused as refusal:
        raise ValidationError(f"{name}: {refusal}") from refusal


def with_files(words: str, files: Sequence[TextFile]) -> str:
    """A message with its files.

    >>> print(with_files("Sum it up.", [TextFile("a.csv", "x,y")]))
    Sum it up.
    <BLANKLINE>
    File: a.csv
    ```csv
    x,y
    ```
    """
    return "\n\n".join([words, *(file.part for file in files)])


def split_files(content: str) -> tuple[str, list[TextFile]]:
    """The words of a message, and its files.

    >>> split_files(with_files("Sum it up.", [TextFile("a.csv", "x,y"), TextFile("b.md", "```x```")]))
    ('Sum it up.', [TextFile(name='a.csv', text='x,y'), TextFile(name='b.md', text='```x```')])
    """
    found = list(PART.finditer(content))
    if not found or found[-1].end() != len(content):
        return content, []
    return content[: found[0].start()], [TextFile(one["name"], one["text"]) for one in found]
