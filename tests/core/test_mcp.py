"""What an MCP server says is a stranger's: names, results and answers that mean harm."""

from __future__ import annotations

import asyncio
import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from core.mcp.offered import Listed, Offered
from core.mcp.places import NoPlace, Places
from core.mcp.results import cut, cut_again
from tests.chat.conftest import until


async def test_a_program_waits_for_a_place_and_has_it_when_another_ends():
    places, ended, order = Places(1), asyncio.Event(), []

    async def run(name: str) -> None:
        async with places.held(60):
            order.append(name)
            await ended.wait()

    async def has_begun(name: str) -> bool:
        return order[-1:] == [name]

    first = asyncio.create_task(run("first"))
    await until(lambda: has_begun("first"), "the first")
    with pytest.raises(NoPlace, match=r"^1 programs of tools run already, .* none ended within 0 s\. Try again\.$"):
        places.take(0)
    with pytest.raises(NoPlace):
        async with places.held(0):
            pass
    second = asyncio.create_task(run("second"))
    first.cancel()  # it ends by a fault: its place is free all the same
    await until(lambda: has_begun("second"), "the second")
    ended.set()
    await second
    places.take(0)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("pri\u200bce", "its name holds characters that are not seen"),
        ("price\x00", "its name holds characters that are not seen"),
        ("p" * 129, "its name has 129 characters, and at most 128 are read"),
    ],
    ids=["no width", "nul", "long"],
)
def test_a_tool_whose_name_passes_for_another_or_fits_no_column_is_not_offered(name, why):
    offered = Offered()
    offered.read([Listed(name, "", {"type": "object"}), Listed("price", "", {"type": "object"})])
    assert [*offered.tools] == ["price"]
    assert offered.left_out[0].endswith(f" is not offered: {why}.")


def test_a_result_that_is_cut_already_is_cut_shorter_still():
    # 4,000 of 5,000 are kept at first, then 1,000: 4,000 characters are left out in all.
    assert cut_again(cut("a" * 2500 + "b" * 2500, 4000), 1000) == (
        "a" * 500 + "\n[4,000 characters left out]\n" + "b" * 500
    )


@pytest.mark.parametrize("note", ["1", ",", "9" * 3000], ids=["short", "no number", "long"])
def test_a_note_that_a_server_wrote_itself_keeps_no_result_long(note):
    said = f"a\n[{note} characters left out]\n" + "b" * 3900
    # A half before and a half after the note, and the note, which has at most 50 characters.
    assert len(cut_again(said, 1000)) <= 1000 + 50


class Packed(BaseHTTPRequestHandler):
    """Answers with 64 MB in some 64 kB."""

    def do_POST(self) -> None:
        said = gzip.compress(b"0" * 2**26)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *words: object) -> None:
        """Nothing is printed."""


async def test_an_answer_that_unpacks_to_more_is_refused_before_it_is_read():
    import httpx2

    from core.mcp.streams import _Bounded

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Packed)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    transport = _Bounded(httpx2.AsyncHTTPTransport())
    try:
        async with httpx2.AsyncClient(transport=transport) as client:
            with pytest.raises(httpx2.ReadError, match="packed"):
                await client.post(f"http://127.0.0.1:{httpd.server_address[1]}/mcp", json={})
    finally:
        httpd.shutdown()
        httpd.server_close()
