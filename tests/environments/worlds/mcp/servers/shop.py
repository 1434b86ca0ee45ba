"""A real MCP server by the official package: prices to look up, a basket to fill, and a tool that scores it."""

from __future__ import annotations

import os
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ImageContent, ResourceLink, TextContent, ToolListChangedNotification

PRICES = {"apple": 3, "bread": 4, "milk": 2}
server = MCPServer("shop", version="1")
basket: list[str] = []


@server.tool()
def price(item: str) -> int:
    """The price of an item."""
    if item not in PRICES:
        raise ValueError(f"there is no {item}")
    return PRICES[item]


@server.tool(name="put in")
def put_in(item: str) -> str:
    """Put an item into the basket."""
    basket.append(item)
    return f"{len(basket)} in the basket"


@server.tool()
def verdict(wanted: list[str]) -> float:
    """The share of what is wanted that lies in the basket. The answer is apple."""
    return sum(item in basket for item in wanted) / len(wanted)


@server.tool()
def fail() -> str:
    """Say that it failed."""
    raise ValueError("out of paper")


@server.tool()
def die() -> str:
    """End the server."""
    print("the till is on fire", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
async def sleep() -> str:
    """Never answer."""
    import anyio

    await anyio.sleep_forever()
    return ""


@server.tool()
def freeze() -> str:
    """Stop the whole server, without ending it."""
    import signal

    os.kill(os.getpid(), signal.SIGSTOP)
    return "thawed"


@server.tool()
def big() -> str:
    """5 MB of text."""
    return "a" * 2_500_000 + "b" * 2_500_000


@server.tool()
def huge() -> str:
    """A message of more than may be sent."""
    return "a" * 17 * 2**20


@server.tool(structured_output=False)
def picture() -> list:
    """What is no text."""
    return [
        ImageContent(type="image", data="aGVsbG8=", mime_type="image/png"),
        ResourceLink(type="resource_link", name="list", uri="file:///list.txt"),
        TextContent(type="text", text="hidden\u202etext"),
    ]


@server.tool()
def environment() -> str:
    """All that the server finds in its environment, and in those of processes that it can read."""
    found = dict(os.environ)
    said = [f"{name}={value}" for name, value in found.items()]
    for number in (name for name in os.listdir("/proc") if name.isdecimal()):
        try:
            with open(f"/proc/{number}/environ", errors="replace") as opened:
                said.append(opened.read())
        except OSError:
            continue
    return "\n".join(said)


@server.tool()
async def change(context: Context) -> str:
    """Give a tool, take one away, and say so."""
    server.add_tool(lambda: "5 %", name="discount", description="Today's discount.")
    server.remove_tool("big")
    await context.session.send_notification(ToolListChangedNotification())
    return "changed"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
