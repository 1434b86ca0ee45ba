"""Scripts, styles and drawings come with gzip where it is taken; pages never do."""

from __future__ import annotations

import gzip
import os

import pytest
from django.urls import reverse

from installation.places import ROOT
from webapp.serving.headers import POLICY
from webapp.serving.static_files import StaticFiles, takes_gzip

SCRIPT = (ROOT / "static" / "chats" / "pushes.js").read_bytes()


def body(answer) -> bytes:
    return b"".join(answer.streaming_content)


@pytest.mark.parametrize("path", ["chats/pushes.js", "app.css", "vendor/htmx.min.js", "logo.svg"])
def test_text_is_compressed_for_those_who_take_it(client, path):
    whole = (ROOT / "static" / path).read_bytes()
    answer = client.get(f"/static/{path}", HTTP_ACCEPT_ENCODING="gzip, deflate, br")
    packed = body(answer)
    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed) == whole
    assert int(answer.headers["Content-Length"]) == len(packed) < 0.7 * len(whole)
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert answer.headers["Content-Security-Policy"] == POLICY


@pytest.mark.parametrize("accepts", [{}, {"HTTP_ACCEPT_ENCODING": "br"}, {"HTTP_ACCEPT_ENCODING": "gzip;q=0, br"}])
def test_others_get_it_plain(client, accepts):
    answer = client.get("/static/chats/pushes.js", **accepts)
    assert "Content-Encoding" not in answer.headers
    assert body(answer) == SCRIPT
    assert answer.headers["Content-Length"] == str(len(SCRIPT))
    assert answer.headers["Vary"] == "Accept-Encoding"  # a cache between keeps both


def test_each_form_has_an_etag_of_its_own_and_is_known_by_it(client):
    takes = {"HTTP_ACCEPT_ENCODING": "gzip"}
    packed, plain = (client.get("/static/chats/pushes.js", **one).headers["ETag"] for one in (takes, {}))
    assert packed != plain
    known = client.get("/static/chats/pushes.js", HTTP_IF_NONE_MATCH=packed, **takes)
    assert known.status_code == 304
    assert not body(known)
    assert (known.headers["ETag"], known.headers["Vary"]) == (packed, "Accept-Encoding")
    assert "Content-Encoding" not in known.headers
    assert client.get("/static/chats/pushes.js", HTTP_IF_NONE_MATCH=f"W/{packed}", **takes).status_code == 304
    assert client.get("/static/chats/pushes.js", HTTP_IF_NONE_MATCH=plain, **takes).status_code == 200
    assert client.get("/static/chats/pushes.js", HTTP_IF_NONE_MATCH=packed).status_code == 200
    assert client.get("/static/chats/pushes.js", HTTP_IF_NONE_MATCH=plain).status_code == 304


def test_its_head_has_the_length_and_no_body_and_a_part_comes_plain(client):
    whole, head = (
        getattr(client, how)("/static/chats/pushes.js", HTTP_ACCEPT_ENCODING="gzip") for how in ("get", "head")
    )
    assert head.headers["Content-Length"] == whole.headers["Content-Length"]
    assert body(head) == b""
    part = client.get("/static/chats/pushes.js", HTTP_ACCEPT_ENCODING="gzip", HTTP_RANGE="bytes=10-19")
    assert (part.status_code, body(part)) == (206, SCRIPT[10:20])
    assert client.post("/static/chats/pushes.js", HTTP_ACCEPT_ENCODING="gzip").status_code == 405


def test_the_rest_of_a_compressed_file_that_broke_off_is_no_part_of_the_plain_one(client):
    etag = client.get("/static/chats/pushes.js", HTTP_ACCEPT_ENCODING="gzip").headers["ETag"]
    again = client.get(
        "/static/chats/pushes.js", HTTP_ACCEPT_ENCODING="gzip", HTTP_RANGE="bytes=9-", HTTP_IF_RANGE=etag
    )
    assert (again.status_code, again.headers["ETag"]) == (200, etag)
    assert gzip.decompress(body(again)) == SCRIPT


def test_a_file_without_a_date_comes_plain(tmp_path):
    (tmp_path / "old.js").write_bytes(SCRIPT)
    os.utime(tmp_path / "old.js", (0, 0))
    served = StaticFiles(lambda request: None)
    found = served.get_static_file(str(tmp_path / "old.js"), "/static/old.js")
    assert found.get_response("GET", {"HTTP_ACCEPT_ENCODING": "gzip"}).file.read() == SCRIPT


def test_a_picture_that_gzip_makes_no_smaller_is_sent_as_it_is(client):
    answer = client.get("/static/icon-512.png", HTTP_ACCEPT_ENCODING="gzip")
    assert "Content-Encoding" not in answer.headers
    assert body(answer) == (ROOT / "static" / "icon-512.png").read_bytes()


@pytest.mark.django_db
def test_a_page_is_not_compressed(client):
    answer = client.get(reverse("login"), HTTP_ACCEPT_ENCODING="gzip")
    assert answer.status_code == 200
    assert "Content-Encoding" not in answer.headers


@pytest.mark.parametrize(
    ("accepts", "expected"),
    [("gzip", True), ("br;q=1.0, GZIP;q=0.001", True), ("", False), ("gzip;q=0.000", False), ("gzipped", False)],
)
def test_what_is_taken_is_read_from_its_name_and_weight(accepts, expected):
    assert takes_gzip(accepts) is expected
