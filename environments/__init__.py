"""Worlds that play: users who talk to Talkback through its public API, as any client does."""
