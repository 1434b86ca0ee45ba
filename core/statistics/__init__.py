"""Statistics: how sure a share, a mean or a difference is, and when enough is known to stop. Pure.

| question | answer |
|---|---|
| a share, looked at once | `wilson` |
| a mean of paired changes | `bootstrap` |
| means, differences and ratios over seeds and prompts | `average`, `difference`, `ratio` |
| two arms' rates, looked at after every vote | `compare` |
| choices between two sides, looked at after every choice | `Tally` |
"""

from core.statistics.means import (
    LEVEL,
    Bounds,
    Interval,
    Pair,
    Values,
    average,
    bootstrap,
    difference,
    mean,
    ratio,
    share,
    standard_error,
    wilson,
)
from core.statistics.sequential import (
    ALPHA,
    MARGIN,
    MOST_CHOICES,
    MOST_VOTES,
    Arm,
    Reading,
    Tally,
    compare,
    count_arms,
)

__all__ = [
    "ALPHA",
    "LEVEL",
    "MARGIN",
    "MOST_CHOICES",
    "MOST_VOTES",
    "Arm",
    "Bounds",
    "Interval",
    "Pair",
    "Reading",
    "Tally",
    "Values",
    "average",
    "bootstrap",
    "compare",
    "count_arms",
    "difference",
    "mean",
    "ratio",
    "share",
    "standard_error",
    "wilson",
]
