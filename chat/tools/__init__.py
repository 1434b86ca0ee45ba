"""Tools of MCP servers in a person's chat: which there are, which a chat may use, and their calls."""
