"""What an environment's rewards come to. Nothing is clipped: a reward out of range says that the range is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from environments.worlds.base import WorldFailed


@dataclass(frozen=True)
class Rewards:
    lowest: float = -1.0
    highest: float = 1.0
    counts: Literal["last", "sum"] = "last"
    """Of which the outcome is made: the last reward of an episode, or the sum of all; both lie in the range."""

    def read(self, said: Any) -> float | None:
        """A step's reward; None where it has none. Raises WorldFailed unless it is finite and within the range."""
        if said is None:
            return None
        if not isinstance(said, int | float) or not math.isfinite(said):
            raise WorldFailed(f"The OpenEnv server's reward is {str(said)[:40]!r}, which is no finite number.")
        return self._within(float(said), "reward")

    def _within(self, value: float, what: str) -> float:
        if not self.lowest <= value <= self.highest:
            raise WorldFailed(
                f"The OpenEnv server's {what} is {value:g}, and {self.lowest:g} to {self.highest:g} was said: say "
                'another range in a file\'s "rewards".'
            )
        return value

    def score(self, reward: float | None) -> float | None:
        """A step's score: the reward by the greatest that may be, so that 0 stays 0.

        >>> Rewards(0, 10).score(5.0), Rewards(-1, 1).score(-0.5), Rewards().score(None)
        (0.5, -0.5, None)
        """
        return None if reward is None else reward / max(abs(self.lowest), abs(self.highest))

    def outcome(self, rewards: Sequence[float | None]) -> float:
        """-1 to 1: where the last reward, or the sum, lies in the range. Raises WorldFailed where there was none.

        >>> Rewards(0, 1).outcome([None, 0.25]), Rewards(0, 4, "sum").outcome([1.0, 2.0])
        (-0.5, 0.5)
        """
        given = [reward for reward in rewards if reward is not None]
        if not given:
            raise WorldFailed("The OpenEnv server gave no reward in the whole episode.")
        value = given[-1] if self.counts == "last" else self._within(sum(given), "sum of rewards")
        return 2 * (value - self.lowest) / (self.highest - self.lowest) - 1


@dataclass(frozen=True)
class End:
    """Whether an episode is over. Terminated is the environment's end; truncated is a limit of time."""

    terminated: bool
    truncated: bool

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> End:
        """Read one of a server's answers: of its newer form (terminated, truncated), or of that with `done` alone.

        >>> End.of({"done": True}), End.of({"done": True, "observation": {"truncated": True}})
        (End(terminated=True, truncated=False), End(terminated=False, truncated=True))
        """
        held = said.get("observation")
        held = held if isinstance(held, Mapping) else {}
        about = held.get("metadata")
        truncated = any(place.get("truncated") is True for place in (said, held, about) if isinstance(place, Mapping))
        if "terminated" in said:
            return cls(said["terminated"] is True, truncated)
        return cls(said.get("done") is True and not truncated, truncated)
