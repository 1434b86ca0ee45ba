"""Send scripts, styles and drawings with gzip to those that take it. Pages come plain: what they hold beside what a
person sent could be guessed from how well both are compressed together (BREACH)."""

from __future__ import annotations

import gzip
import re
from functools import cached_property
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from typing import Any

from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import NOT_MODIFIED_HEADERS, Response, StaticFile

WORTH_IT = 0.8
"""A file that keeps more than this share of its size is sent as it is: pictures, fonts."""

REFUSED = re.compile(r"q=0(\.0*)?")
VARY = ("Vary", "Accept-Encoding")


def takes_gzip(accepts: str) -> bool:
    """Whether an Accept-Encoding names gzip, and not to refuse it.

    >>> takes_gzip("br, gzip;q=0.5"), takes_gzip("gzip;q=0, identity"), takes_gzip("*")
    (True, False, False)
    """
    for one in accepts.lower().split(","):
        name, _, weight = one.partition(";")
        if name.strip() == "gzip":
            return not REFUSED.fullmatch(weight.strip())
    return False


class Packed:
    """A file as whitenoise serves it, and with gzip. It is compressed when it is first asked for, once a process."""

    def __init__(self, path: str, plain: StaticFile) -> None:
        self.path, self.plain = Path(path), plain

    @cached_property
    def body(self) -> bytes | None:
        """None where it is not worth it."""
        whole = self.path.read_bytes()
        packed = gzip.compress(whole, 9, mtime=0)
        return packed if len(packed) <= WORTH_IT * len(whole) else None

    @cached_property
    def headers(self) -> list[tuple[str, str]]:
        """The plain file's, but for its length and its ETag, by which caches tell the two apart."""
        assert self.body is not None
        own = {"ETag": self.etag, "Content-Length": str(len(self.body)), "Content-Encoding": "gzip"}
        _, _, plain = self.plain.alternatives[0]
        return [*((name, value) for name, value in plain if name not in own), *own.items(), VARY]

    @property
    def etag(self) -> str:
        return f'{self.plain.etag[:-1]}-gzip"'

    def get_response(self, method: str, asked: dict[str, Any]) -> Response:
        if method not in ("GET", "HEAD") or self.body is None:
            return self.plain.get_response(method, asked)
        if (
            asked.get("HTTP_IF_RANGE", self.plain.etag) != self.plain.etag
        ):  # the rest of another form than the plain one
            asked = {name: value for name, value in asked.items() if name != "HTTP_RANGE"}
        if "HTTP_RANGE" in asked or not takes_gzip(asked.get("HTTP_ACCEPT_ENCODING", "")):
            answer = self.plain.get_response(method, asked)
            return Response(answer.status, [*answer.headers, VARY], answer.file)
        if self.is_known(asked):
            kept = [(name, value) for name, value in self.headers if name in NOT_MODIFIED_HEADERS]
            return Response(HTTPStatus.NOT_MODIFIED, kept, None)
        return Response(HTTPStatus.OK, self.headers, BytesIO(self.body) if method == "GET" else None)

    def is_known(self, asked: dict[str, Any]) -> bool:
        """A proxy may have made its ETag a weak one."""
        if known := asked.get("HTTP_IF_NONE_MATCH"):
            return self.etag in (one.strip().removeprefix("W/") for one in known.split(","))
        return bool(self.plain.is_not_modified(asked))


class StaticFiles(WhiteNoiseMiddleware):
    """Serves static/ as it stands: nothing is built, and nothing is written."""

    def get_static_file(self, path: str, url: str, stat_cache: dict[str, Any] | None = None) -> StaticFile | Packed:
        plain = super().get_static_file(path, url, stat_cache)
        is_packed_already = len(plain.alternatives) > 1  # beside a file of STATIC_ROOT lies what whitenoise made of it
        has_no_date = plain.etag is None  # as in images that are built alike each time
        return plain if is_packed_already or has_no_date else Packed(path, plain)
