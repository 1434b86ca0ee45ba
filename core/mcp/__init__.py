"""MCP servers (modelcontextprotocol.io): reach one, read its tools, call them. All that a server says is a stranger's.

`link` and `streams` need the package `mcp`, which is optional: what imports them looks for it first (`is_installed`).
"""

from __future__ import annotations

import importlib.util

MISSING = "MCP servers are spoken to by the package mcp: install it with `pip install 'talkback[worlds]'`."


def is_installed() -> bool:
    return importlib.util.find_spec("mcp") is not None
