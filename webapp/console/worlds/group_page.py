"""Show one group: its attempts side by side, step by step, what each step is worth, and why it teaches or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from episodes.models import Episode, Group
from webapp.console.board import counted
from webapp.console.doors import for_signed_in, person
from webapp.console.worlds import endings, playback, sights, standings, worth
from webapp.console.worlds.playback import Step
from webapp.console.worlds.worth import GroupWorth, Worth

BESIDE = 16
"""How many attempts stand side by side."""


@dataclass(frozen=True)
class Cell:
    """One step of one attempt."""

    step: Step
    worth: Worth
    episode: UUID

    @property
    def tone(self) -> str:
        """Its colour: by what was said of the step itself."""
        return "" if not self.worth.score else "good" if self.worth.score > 0 else "bad"


@dataclass(frozen=True)
class Column:
    episode: Episode
    why: str
    steps: Sequence[Step]
    left_out: str
    """Why none of its steps counts."""

    @property
    def ending(self) -> str:
        return endings.WORDS[self.episode.ending]

    @property
    def tone(self) -> str:
        return endings.TONES.get(self.episode.ending, "")


@dataclass(frozen=True)
class Row:
    """One step index over the attempts that are shown."""

    number: int
    cells: Sequence[Cell | None]
    """None: the attempt did not come so far."""

    @property
    def came(self) -> int:
        return sum(cell is not None for cell in self.cells)


@for_signed_in
@require_GET
def group(request: HttpRequest, pk: int) -> HttpResponse:
    user = person(request)
    rows = standings.annotated(sights.groups(user)).select_related("checkpoint", "user")
    shown: Group = get_object_or_404(rows, pk=pk)
    episodes = list(shown.episodes.order_by("attempt"))
    found, first = worth.of(shown, episodes), _first(request.GET.get("from", ""))
    beside = episodes[first : first + BESIDE]
    steps = playback.steps(beside, user, brief=True)
    context = {
        "group": shown,
        "tone": standings.TONES.get(shown.state, ""),  # type: ignore[attr-defined]  # it is annotated
        "state_in_words": standings.NAMES[shown.state],  # type: ignore[attr-defined]  # it is annotated
        "teaches": teaches(shown, episodes, found),
        "worth": found,
        "columns": [
            Column(one, endings.why(one, len(steps[one.pk])), steps[one.pk], worth.why_not(one)) for one in beside
        ],
        "rows": _rows(beside, steps, found),
        "first": first + 1,
        "last": first + len(beside),
        "total": len(episodes),
        "before": max(0, first - BESIDE) if first else None,
        "after": first + BESIDE if first + BESIDE < len(episodes) else None,
    }
    return render(request, "worlds/group.html", context)


def teaches(group: Group, episodes: Sequence[Episode], found: GroupWorth) -> str:
    """Whether the group teaches, and why not, in a sentence."""
    now = group.standing()
    if now.state == "playing":
        over = sum(one.status != Episode.Status.PLAYING for one in episodes)
        return f"It is being played: {over} of {max(len(episodes), group.attempts or 0)} attempts are over."
    if now.state == "short":
        return now.reason
    if group.split == Group.Split.HELDOUT:
        return "It is held out: it examines, and never teaches."
    if found.is_learned:
        names = " and ".join(str(run) for run in found.runs)
        return f"It taught: {names} learned from {counted(found.teaching, 'step')} of it."
    if group.judged_at is None:
        return f"It is complete: {now.counted} of {now.opened} attempts count. Its steps are being judged."
    if found.unknown:
        return "It is complete and judged."
    if not found.teaching:
        return "It teaches nothing: at no step do its attempts differ."
    waits = f"It is in run {found.in_run}." if found.in_run else "It waits for training."
    return f"It teaches: {counted(found.teaching, 'step')} of it have peers to compare with. {waits}"


def _rows(episodes: Sequence[Episode], steps: Mapping[UUID, Sequence[Step]], found: GroupWorth) -> list[Row]:
    longest = max((len(steps[one.pk]) for one in episodes), default=0)
    return [Row(n + 1, [_cell(one, steps[one.pk], n, found) for one in episodes]) for n in range(longest)]


def _cell(episode: Episode, steps: Sequence[Step], n: int, found: GroupWorth) -> Cell | None:
    if n >= len(steps):
        return None
    return Cell(steps[n], of_step(episode, steps[n], found), episode.pk)


def of_step(episode: Episode, step: Step, found: GroupWorth) -> Worth:
    """What a step is worth: with the score that is known before it is judged, and why its attempt does not count."""
    known = found.steps.get((episode.pk, step.sample_step), Worth())
    score = step.score if known.score is None else known.score
    return Worth(score, known.value, known.advantage, known.left_out or worth.why_not(episode))


def _first(said: str) -> int:
    return int(said) if said.isdecimal() and said.isascii() and len(said) < 7 else 0
