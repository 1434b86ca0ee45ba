"""Where pages come from, and how a tab is given them: by a closed origin that leads nowhere."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from environments.errors import Unplayable

FOLDER = "MINIWOB"
"""The setting that names the folder with MiniWoB's `core` and `miniwob`, where the package is not installed."""
ORIGIN = "http://pages.invalid"
"""A name that no resolver knows: what is not answered from the folder is answered by nothing."""
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".png": "image/png",
    ".gif": "image/gif",
    ".jpg": "image/jpeg",
    ".svg": "image/svg+xml",
    ".woff": "font/woff",
    ".ttf": "font/ttf",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True)
class Site:
    """The files that one page may load: MiniWoB's, and those of a person's own folder at /own/."""

    miniwob: Path
    own: Path | None = None

    def url(self, kind: str) -> str:
        """The address of a page kind."""
        return f"{ORIGIN}/{'own' if self.own else 'miniwob'}/{kind}.html"

    def read(self, path: str, nonce: str) -> tuple[bytes, str] | None:
        """The bytes and the content type behind an address's path; None where there is nothing, or it is outside.

        Scripts that stand in a page's file may run; scripts that come to be there later may not.
        """
        parts = PurePosixPath(path.lstrip("/")).parts
        root = self.own if self.own and parts[:1] == ("own",) else self.miniwob
        inner = parts[1:] if root is self.own else parts
        place = root.joinpath(*inner).resolve()
        kind = KINDS.get(place.suffix)
        if ".." in parts or kind is None or not place.is_relative_to(root.resolve()) or not place.is_file():
            return None
        content = place.read_bytes()
        if place.suffix == ".html":
            content = re.sub(rb"<script\b", f'<script nonce="{nonce}"'.encode(), content, flags=re.IGNORECASE)
        return content, kind

    def digest(self, kind: str) -> str:
        """Of a page's own file: 12 hex digits."""
        place = self.own / f"{kind}.html" if self.own else self.miniwob / "miniwob" / f"{kind}.html"
        return hashlib.sha256(place.read_bytes()).hexdigest()[:12]


def policy(nonce: str) -> str:
    """What a page may do, as Content-Security-Policy says it: no script but its file's, no address but its folder's."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "font-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    )


def find_miniwob() -> Path:
    """The folder with MiniWoB's pages, by MINIWOB or where the package lies; its code is not imported. Raises
    Unplayable."""
    said = os.environ.get(FOLDER)
    spec = None if said else find_spec("miniwob")
    places = (
        [Path(said)] if said else [Path(each) / "html" for each in (spec and spec.submodule_search_locations) or ()]
    )
    for place in places:
        if (place / "core" / "core.js").is_file() and (place / "miniwob").is_dir():
            return place
    if said:
        raise Unplayable(f"{FOLDER}={said} holds no core/core.js and no miniwob/.")
    raise Unplayable(
        "The world browser plays MiniWoB's pages: `pip install --no-deps miniwob==1.1.0`, or name the folder that "
        f"holds its core and miniwob in {FOLDER}."
    )
