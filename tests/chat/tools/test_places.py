"""Places for servers' programs: waiting for one takes nothing of a call's time, and each is given back at the end."""

from __future__ import annotations

import pytest

from chat.tools import reaching, rounds
from chat.tools.calls import ToolCall
from core.mcp.places import Places
from core.mcp.programs import Own
from tests.chat.tools.conftest import raw_server

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

TOOL = {"name": "price", "description": "Price.", "inputSchema": {"type": "object"}}


@pytest.fixture
def places(monkeypatch) -> Places:
    """One place in all."""
    places = Places(1)
    monkeypatch.setattr("core.mcp.places.places", places)
    return places


async def price_of(server) -> ToolCall:
    """A call of the server's tool, as a reply of the model made it."""
    await server.arefresh_from_db()
    (tool,) = server.tools
    return ToolCall(server=server, tool=tool.name, grant=tool.grant, name=tool.name, arguments="{}")


async def test_the_wait_for_a_place_takes_nothing_of_the_time_of_the_call(places, settings, tmp_path, monkeypatch):
    server = await raw_server(settings, tmp_path / "raw", [TOOL], "plain")
    call = await price_of(server)
    file = tmp_path / "raw" / "file.json"
    file.write_text(file.read_text().replace("plain", "mute"))
    monkeypatch.setattr(reaching, "WORK_S", 0.3)
    monkeypatch.setattr(reaching, "PLACE_S", 1.0)
    places.take(0)
    status, waited = await rounds.asked_of_server(call)
    assert (status, "none ended within 1 s" in waited) == ("failed", True)  # and not after the 0.3 s
    places.give_back()
    assert await rounds.asked_of_server(call) == ("failed", "Error: The server raw did not answer in time.")
    places.take(0)  # which it has left


async def test_a_program_that_cannot_be_ended_leaves_its_place(places, settings, tmp_path, monkeypatch):
    server = await raw_server(settings, tmp_path / "raw", [TOOL], "plain")
    call, ends = await price_of(server), Own.kill

    def cannot(self) -> None:
        ends(self)
        raise OSError("it was not ended")

    monkeypatch.setattr(Own, "kill", cannot)
    with pytest.raises(OSError, match="it was not ended"):
        await rounds.asked_of_server(call)
    places.take(0)
