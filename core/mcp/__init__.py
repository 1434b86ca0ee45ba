"""MCP servers (modelcontextprotocol.io): reach one, read its tools, call them. All that a server says is a stranger's.

`link` and `streams` import the package `mcp`, which is heavy: they are imported where they are used.
"""
