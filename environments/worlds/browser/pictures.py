"""Screenshots of an attempt in a folder, with a page that shows them beside what was done."""

from __future__ import annotations

from html import escape
from pathlib import Path

HEAD = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; img-src 'self' file:; style-src 'unsafe-inline'\"><title>{0}</title>"
    "<style>body{{font:15px sans-serif;margin:2em}}figure{{display:flex;gap:1em}}pre{{white-space:pre-wrap}}</style>"
    "<h1>{0}</h1>\n"
)


class Pictures:
    """`index.html` and a PNG a step."""

    def __init__(self, folder: Path, title: str) -> None:
        self.folder, self.count = folder, 0
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "index.html").write_text(HEAD.format(escape(title)))

    def keep(self, action: str, text: str, picture: bytes) -> None:
        """Add what was done, what the agent read then, and how it looked."""
        name = f"{self.count:02}.png"
        self.count += 1
        (self.folder / name).write_bytes(picture)
        with (self.folder / "index.html").open("a") as page:
            page.write(
                f'<h2>{escape(action)}</h2><figure><img src="{name}" alt="The page after step {self.count - 1}">'
                f"<pre>{escape(text)}</pre></figure>\n"
            )
