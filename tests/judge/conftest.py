"""Turns that were served, a person who speaks of them, and judges that count."""

from tests.served_turns import *  # noqa: F403  fixtures
