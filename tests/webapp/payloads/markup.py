"""Read a page as a browser does, and say what a hostile text got out of its place to become."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

from tests.webapp.payloads import texts

ADDRESSES = {
    *("href", "src", "action", "formaction", "xlink:href", "poster", "data", "srcset", "cite", "background", "ping"),
    *("hx-get", "hx-post", "hx-put", "hx-patch", "hx-delete", "ws-connect"),
}
SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
IGNORED = re.compile(r"[\t\r\n]|^[\x00-\x20]+")
"""What a browser drops of an address before it looks for the scheme."""
NEVER = ("style", "srcdoc", texts.ATTRIBUTE)
EMPTY = {"application/json"}
"""Scripts without an address: those that hold no program."""


class Page(HTMLParser):
    """`shapes`: (element, attribute) of all that there is; `faults`: what no page of ours may have."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.shapes: set[tuple[str, str]] = set()
        self.faults: list[str] = []
        self.text: list[str] = []
        self.feed(markup)
        self.close()
        if texts.EVALUATED in "".join(self.text):
            self.faults.append("a template of a text was run")

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.shapes |= {(tag, ""), *((tag, name) for name, _ in attributes)}
        held = {name: value or "" for name, value in attributes}
        if tag == texts.ELEMENT or (tag == "script" and not held.get("src") and held.get("type") not in EMPTY):
            self.faults.append(f"<{tag}>: {self.get_starttag_text()}"[:200])
        for name, value in held.items():
            if name.startswith("on") or name in NEVER or not self.is_ours(tag, name, value):
                self.faults.append(f"<{tag} {name}>: {self.get_starttag_text()}"[:200])

    def is_ours(self, tag: str, name: str, value: str) -> bool:
        """Whether this attribute may say this."""
        if name in ADDRESSES:
            scheme = SCHEME.match(IGNORED.sub("", value))
            is_picture = tag == "img" and value.startswith("data:image/")
            return scheme is None or scheme[1].lower() in ("http", "https") or is_picture
        if name in ("hx-vals", "hx-headers"):  # htmx would run what is no JSON
            try:
                return isinstance(json.loads(value), dict)
            except ValueError:
                return False
        return not (name.startswith(("hx-", "class", "id", "http-equiv")) and texts.RUN in value)

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        if "zz" in data:
            self.faults.append(f"a comment: {data}"[:200])

    def handle_pi(self, data: str) -> None:
        self.faults.append(f"an instruction: {data}"[:200])

    def unknown_decl(self, data: str) -> None:
        self.faults.append(f"a declaration: {data}"[:200])
