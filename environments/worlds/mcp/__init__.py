"""MCP servers as worlds: their tools become an attempt's, and a task says how its outcome is checked."""
