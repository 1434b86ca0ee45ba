"""Turns that were served, a person who speaks of them, and judges that count."""

from tests.played_steps import group, judge_all, no_worker, play  # noqa: F401  fixtures
from tests.served_turns import *  # noqa: F403  fixtures
