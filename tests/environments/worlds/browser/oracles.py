"""For each page kind an agent that knows how it is solved, by what an agent reads and does. Nothing looks behind."""

from __future__ import annotations

from tests.environments.worlds.browser import controls, sites
from tests.environments.worlds.browser.solving import ORACLES

__all__ = ["ORACLES", "controls", "sites"]
