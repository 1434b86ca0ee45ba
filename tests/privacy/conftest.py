"""Turns that were served, and a person who may take back what they said."""

from tests.served_turns import *  # noqa: F403  fixtures
