"""What two tabs, a closed account, a server that lies in wait and a model that hides something come to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.utils import timezone

from chat import views
from chat.models import Session, Turn
from chat.tools import calls, leases, reaching, rounds
from chat.tools.calls import ToolCall, ToolLease
from chat.tools.servers import ToolServer
from core.network import outside
from judge.votes import evidence
from privacy import bin as chat_bin
from tests.chat.conftest import until
from tests.chat.tools.conftest import all_quiet, calling, calls_of, let_use, mark_safe, shown, turns_of
from tests.races import at_once

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

BUY = {"name": "buy", "description": "Buy it.", "schema": {"type": "object"}}


@pytest.fixture
def waiting(ana, engine, monkeypatch) -> list[ToolCall]:
    """Two calls of one reply that wait for their person's word."""
    server = ToolServer.objects.create(name="shop", url="http://shop.example", listed=[BUY])
    session = Session.objects.create(user=ana, tools=[tool.id for tool in server.tools])
    engine.says(calling(("buy", {"item": "bread"}), ("buy", {"item": "milk"})))
    turn = views.open_message(ana, session, text="Buy", message_id=session.pk, after=None)
    async_to_sync(rounds.answer)(turn, engine)
    return list(ToolCall.objects.select_related("turn__session").order_by("place"))


def test_of_allow_and_refuse_in_two_tabs_at_once_one_counts(waiting):
    first, second = waiting
    rounds.decide(second, "refuse")
    leased = at_once(lambda: rounds.decide(first, "once"), lambda: rounds.decide(first, "refuse"))
    first.refresh_from_db()
    # The one that came first is the last word of both calls, and takes the lease; the other changes nothing.
    assert [one is not None for one in leased].count(True) == 1
    assert first.status == ("allowed" if leased[0] is not None else "refused")
    assert ToolLease.objects.count() == 1


def test_of_the_words_on_two_calls_at_once_the_last_one_goes_on(waiting):
    leased = at_once(*[lambda call=call: rounds.decide(call, "once") for call in waiting])
    assert [one is not None for one in leased].count(True) == 1
    assert [call.status for call in ToolCall.objects.order_by("place")] == ["allowed", "allowed"]


def test_a_person_who_writes_on_as_another_tab_allows_is_refused_or_ends_the_call(waiting):
    first, second = waiting
    rounds.decide(second, "refuse")

    def writes_on():
        try:
            leases.check_idle(first.turn.session)
        except leases.ToolAtWork as refusal:
            return refusal
        return "idle"

    leased, wrote = at_once(lambda: rounds.decide(first, "once"), writes_on)
    first.refresh_from_db()
    assert (leased is None, wrote, first.status) in [
        (True, "idle", "refused"),
        (False, wrote if isinstance(wrote, leases.ToolAtWork) else None, "allowed"),
    ]


@pytest.fixture
async def sleeping(page, engine, session, shop, htmx) -> None:
    """A call at work that never ends by itself."""
    await let_use(session, shop, "sleep")
    await mark_safe(shop, "sleep")
    engine.says(calling(("sleep", {}), ("sleep", {})))
    message = {"text": "Sleep", "message_id": "0b6a3cf8-2f3c-4d5e-9a51-d5b2c8bb0003"}
    await page.post(f"/chats/{session.pk}/say/", message, headers=htmx)

    async def runs() -> bool:
        return await ToolCall.objects.filter(status="running").aexists()

    await until(runs, "the call", 60)


async def test_a_call_ends_when_its_chat_is_deleted_and_the_next_is_not_begun(sleeping, session):
    await sync_to_async(chat_bin.discard)(session)
    await all_quiet()
    assert [(call.status, call.result) for call in await calls_of(session)] == [
        ("stopped", rounds.TAKEN_AWAY),
        ("allowed", ""),
    ]
    assert not await ToolLease.objects.aexists()
    assert len(await turns_of(session)) == 1


async def test_a_call_ends_when_its_persons_account_is_closed(sleeping, session, ana):
    ana.is_active = False
    await ana.asave()
    await all_quiet()
    assert [call.status for call in await calls_of(session)] == ["stopped", "allowed"]
    assert len(await turns_of(session)) == 1


async def test_a_call_ends_when_its_chat_is_gone_for_good(sleeping, session):
    await sync_to_async(session.delete)()
    await all_quiet()
    assert not await ToolCall.objects.aexists()


async def test_a_person_whose_account_was_closed_allows_nothing(waiting_page):
    page, call, person = waiting_page
    person.is_active = False
    await person.asave()
    answer = await page.post(f"/calls/{call.pk}/", {"word": "once"})
    assert answer.status_code == 302
    assert answer["Location"].startswith("/accounts/") or "login" in answer["Location"]
    await call.arefresh_from_db()
    assert call.status == "waiting"


@pytest.fixture
async def waiting_page(say, page, engine, session, shop, ana):
    await let_use(session, shop, "price")
    engine.says(calling(("price", {"item": "bread"})))
    await say("Price?")
    (call,) = await calls_of(session)
    return page, call, ana


async def test_nothing_hides_in_what_a_person_is_asked_to_allow(say, engine, session, shop, page):
    await let_use(session, shop, "price")
    engine.says(calling(("price", {"item": "bread\u202efdp.exe\u200b"}), ("pri\u202ece", {})))
    await say("Price?")
    drawn = await shown(page, session)
    assert "bread⟨U+202E⟩fdp.exe⟨U+200B⟩" in drawn
    assert not {"\u202e", "\u200b"} & set(drawn)


async def test_a_name_that_means_another_tool_by_the_time_it_is_called_calls_none(say, engine, session, shop):
    """The model was shown the shop's price; while it wrote, its person took that away and gave it another's."""
    await let_use(session, shop, "price")
    listed = [{"name": "price", "description": "Pays it.", "schema": {"type": "object"}}]
    other = await ToolServer.objects.acreate(name="bank", url="http://bank.example", listed=listed)
    engine.says("Hm.")
    await say("Price?")
    (turn,) = await turns_of(session)
    made = [{"id": "c", "type": "function", "function": {"name": "price", "arguments": "{}"}}]
    message = {"role": "assistant", "content": "", "tool_calls": made}
    await Turn.objects.filter(pk=turn.pk).aupdate(finish_reason="tool_calls", message=message)
    await Session.objects.filter(pk=session.pk).aupdate(tools=[tool.id for tool in other.tools])
    await mark_safe(other, "price")
    lease = await sync_to_async(leases.take)(turn)
    (call,) = await sync_to_async(rounds.prepare)(turn, lease)
    assert (call.status, call.result) == (
        "failed",
        "Error: the tool price is another than before: ask for it once more.",
    )


@pytest.mark.parametrize(
    ("status", "result", "reads"),
    [
        ("done", "4", ["4"]),
        ("failed", "Error: out of paper", ["Error: out of paper"]),
        ("refused", "Error: the person refused this call.", ["Error: the person refused this call."]),
        ("failed", "Error: The server shop failed: it did not answer in time.", []),
        ("failed", "Error: The tool price of shop was turned off by an operator.", []),
        ("broken", calls.BROKEN_OFF, []),
        ("stopped", "Error: the person stopped this call.", []),
    ],
)
def test_what_became_of_a_server_is_no_evidence_against_a_reply(waiting, status, result, reads):
    first = waiting[0]
    ToolCall.objects.update(status=status, result=result)
    said = [{"role": "tool", "tool_call_id": call.call_id, "content": result} for call in waiting]
    Turn.objects.filter(pk=first.turn_id).update(next_state=said)
    seen = evidence.of(Turn.objects.get(pk=first.turn_id))
    assert [text for _, text in seen.next_state] == reads * 2
    assert seen.next_role == ("tool" if reads else "")


class Site(BaseHTTPRequestHandler):
    """A server by streamable HTTP that answers in JSON, and does not let go of a client that ends the session."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[str]] = []
    let_go: ClassVar[threading.Event]

    def do_POST(self) -> None:
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = said["method"]
        self.asked.append(method)
        if "id" not in said:
            self.answer(202)
        elif method == "initialize":
            about = {"protocolVersion": said["params"]["protocolVersion"], "capabilities": {"tools": {}}}
            self.answer(200, said["id"], {**about, "serverInfo": {"name": "site", "version": "1"}})
        elif method == "tools/list":
            self.answer(200, said["id"], {"tools": [{"name": "buy", "inputSchema": {"type": "object"}}]})
        else:
            self.answer(200, said["id"], {"content": [{"type": "text", "text": "bought"}]})

    def do_GET(self) -> None:
        self.asked.append("GET")
        self.answer(405)

    def do_DELETE(self) -> None:
        self.asked.append("DELETE")
        self.let_go.wait(60)
        self.answer(204)

    def answer(self, status: int, number: Any = None, result: Any = None) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode() if result else b""
        self.send_response(status)
        self.send_header("Mcp-Session-Id", "s-0")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def site() -> Iterator[int]:
    Site.asked.clear()
    Site.let_go = threading.Event()
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield httpd.server_address[1]
    Site.let_go.set()
    httpd.shutdown()
    httpd.server_close()


async def test_a_server_that_holds_on_at_the_end_costs_no_result(site, db, monkeypatch):
    monkeypatch.setattr("core.mcp.streams.LAST_S", 0.2)
    server = await ToolServer.objects.acreate(name="site", url=f"http://127.0.0.1:{site}/mcp")
    await reaching.look(server)
    (tool,) = server.tools
    began = timezone.now()
    answered = await reaching.call(server, "buy", tool.definition, {})
    assert reaching.text_of(answered) == "bought"

    async def held_twice() -> bool:
        return Site.asked.count("DELETE") == 2

    await until(held_twice, "the end of both sessions", 30)
    assert (timezone.now() - began).total_seconds() < 30  # and not the minute for which it is held


async def test_a_connection_goes_to_the_number_that_was_checked_and_the_name_is_not_looked_up_again(
    site, db, monkeypatch
):
    looked_up, real = [], outside.socket.getaddrinfo

    def look_up(host, *more, **options):
        if host == "site.example":
            looked_up.append(host)
            host = "127.0.0.1"
        return real(host, *more, **options)

    monkeypatch.setattr(outside.socket, "getaddrinfo", look_up)
    Site.let_go.set()
    server = await ToolServer.objects.acreate(name="site", url=f"http://site.example:{site}/mcp")
    await reaching.look(server)

    # Once a request: by the check. A connection by the name would look it up a second time, and could be led elsewhere.
    async def as_often() -> bool:
        return len(looked_up) == len(Site.asked) >= 4

    await until(as_often, "each request to be noted", 30)


async def test_a_name_that_leads_inside_from_now_on_is_reached_no_more(site, db, monkeypatch, settings):
    numbers = iter(["93.184.215.14", "127.0.0.1"])
    real = outside.socket.getaddrinfo

    def look_up(host, *more, **options):
        return real(next(numbers) if host == "site.example" else host, *more, **options)

    monkeypatch.setattr(outside.socket, "getaddrinfo", look_up)
    settings.TOOLS_INSIDE = False
    url = f"http://site.example:{site}/mcp"
    assert reaching.check_address(url).address == "93.184.215.14"  # as the operator's form asks
    server = await ToolServer.objects.acreate(name="site", url=url)
    with pytest.raises(reaching.ServerFailed, match=r"was not reached: site\.example \(127\.0\.0\.1\) is inside"):
        await reaching.look(server)
    assert Site.asked == []


async def test_a_server_that_keeps_its_connection_open_does_not_hold_a_page_for_ever(site, db, monkeypatch):
    monkeypatch.setattr("core.mcp.streams.LAST_S", 60.0)
    monkeypatch.setattr(reaching, "LOOK_S", 1.5)
    server = await ToolServer.objects.acreate(name="site", url=f"http://127.0.0.1:{site}/mcp")
    with pytest.raises(reaching.ServerFailed, match="The server site failed: "):
        await reaching.look(server)
    await server.arefresh_from_db()
    assert server.fault.startswith("The server site failed: ")
