"""Turns that were served, by one checkpoint and by another, and samples that wait."""

from tests.ready_samples import *  # noqa: F403  fixtures
from tests.served_turns import *  # noqa: F403  fixtures
