"""Turns that were served, by one checkpoint and by another."""

from tests.served_turns import *  # noqa: F403  fixtures
