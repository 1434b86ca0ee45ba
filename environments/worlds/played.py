"""What became of an attempt, and of many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from core.statistics import Bounds, wilson
from environments.worlds.base import Ending

Standing = Ending | Literal["left", "before"]
"""left: Talkback could not be told, and the episode's lease ends it; before: an earlier player began this attempt."""
COUNT: tuple[Standing, ...] = ("solved", "failed", "gave_up", "truncated")
"""These say something of the agent, unless the window was full."""


@dataclass(frozen=True)
class Played:
    """One attempt. What is not known of one that was begun before is empty."""

    world: str
    task: str
    split: str
    group: str
    attempt: int
    status: Standing
    episode: str = ""
    model: str = ""
    outcome: float | None = None
    truncated_by: Literal["", "horizon", "context"] = ""
    checks: Mapping[str, bool | float] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    """{completion id: -1 to 1}: what the world said of single steps by its rule."""
    steps: int = 0
    """Replies."""
    invalid: int = 0
    """Of the replies: those with a call that no tool takes, and those that call nothing."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    reason: str = ""
    """Why it is void, left or cut off, or how a harness failed, where there is a sentence."""
    exit_status: int | None = None
    """Of a harness that was started for it, as a shell says it."""

    @property
    def counts(self) -> bool:
        """Whether it says something of the agent: a world's failure does not, nor does a window that was full."""
        return self.status in COUNT and self.truncated_by != "context"

    def row(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"counts": self.counts}


@dataclass(frozen=True)
class Figures:
    """Of attempts that count; shares are of those, 0 to 1."""

    attempts: int
    """All of them."""
    counted: int
    solved: int
    success: float
    interval: Bounds
    """Wilson's, 95 %, as if attempts at one task were independent."""
    steps: float
    """Mean."""
    truncated: float
    """Of those that ended, a full window as well."""
    invalid: float
    """Of all their replies."""
    tokens_solved: float | None
    """Tokens sampled by all attempts for each that solved; None: none did."""

    @classmethod
    def of(cls, played: Iterable[Played]) -> Figures:
        every = list(played)
        ended = [one for one in every if one.status in COUNT]
        counted = [one for one in ended if one.counts]
        solved = sum(one.status == "solved" for one in counted)
        steps = sum(one.steps for one in counted)
        whole = max(1, len(counted))
        return cls(
            attempts=len(every),
            counted=len(counted),
            solved=solved,
            success=solved / whole,
            interval=wilson(solved, len(counted)),
            steps=steps / whole,
            truncated=sum(one.status == "truncated" for one in ended) / max(1, len(ended)),
            invalid=sum(one.invalid for one in counted) / max(1, steps),
            tokens_solved=sum(one.completion_tokens for one in every) / solved if solved else None,
        )


HEADING = (
    f"{'task':<32} {'counted':>7} {'solved':>6} {'success':>18} {'steps':>5} {'cut':>5} {'invalid':>7} {'tokens':>7}"
)


def table(played: Sequence[Played]) -> str:
    """A line a task, one for all, and a sentence for what did not count. `tokens` are those sampled for each solved
    attempt."""
    tasks: dict[str, list[Played]] = {}
    for one in played:
        tasks.setdefault(one.task, []).append(one)
    lines = [HEADING, *(_line(task, Figures.of(each)) for task, each in sorted(tasks.items()))]
    lines.append(_line("all", Figures.of(played)))
    for status, sentence in WORDS.items():
        if of := [one for one in played if one.status == status]:
            why = next((one.reason for one in of if one.reason), "")
            lines.append(f"{len(of)} {sentence}{f' {why}' if why else ''}")
    if full := sum(one.truncated_by == "context" for one in played):
        lines.append(f"{full} filled the model's window, and do not count: a shorter --max-tokens, or a larger window.")
    return "\n".join(lines)


WORDS: Mapping[Standing, str] = {
    "infra_error": "void, for the world failed.",
    "cancelled": "called off.",
    "left": "left to their lease, which ends them as infra_error.",
    "before": "begun by an earlier player: those that ended stay as they are, and a lease ends the others. "
    "--seed NUMBER draws other tasks, --night NAME plays these again.",
}


def _line(name: str, of: Figures) -> str:
    low, high = of.interval
    success = f"{of.success:.2f} ({low:.2f} to {high:.2f})" if of.counted else "-"
    tokens = f"{of.tokens_solved:.0f}" if of.tokens_solved is not None else "-"
    return (
        f"{name[:32]:<32} {of.counted:>7} {of.solved:>6} {success:>18} {of.steps:>5.1f} {of.truncated:>5.2f} "
        f"{of.invalid:>7.2f} {tokens:>7}"
    )
