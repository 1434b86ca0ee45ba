"""Show one group: its attempts side by side, step by step, what each step is worth, and why it teaches or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET

from episodes.models import Episode, Group
from webapp.console.doors import for_signed_in, person
from webapp.console.worlds import endings, playback, sights, standings, task_names, worth
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
        return str(endings.WORDS[self.episode.ending])

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
        "names": task_names.names([shown.task], user),
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
        told = {"part": over, "whole": max(len(episodes), group.attempts or 0)}
        return _("It is being played: %(part)s of %(whole)s attempts are over.") % told
    if now.state == "short":
        return now.reason
    if group.split == Group.Split.HELDOUT:
        return _("It is held out: it examines, and never teaches.")
    if found.is_learned:
        names = f" {_('and')} ".join(_("run %(number)s") % {"number": run.pk} for run in found.runs)
        return ngettext(
            "It taught: %(runs)s learned from %(n)s step of it.",
            "It taught: %(runs)s learned from %(n)s steps of it.",
            found.teaching,
        ) % {"runs": names, "n": found.teaching}
    if group.judged_at is None:
        told = {"part": now.counted, "whole": now.opened}
        return _("It is complete: %(part)s of %(whole)s attempts count. Its steps are being judged.") % told
    if found.unknown:
        return _("It is complete and judged.")
    if not found.teaching:
        return _("It teaches nothing: at no step do its attempts differ.")
    waits = _("It waits for training.")
    if found.in_run:
        waits = _("It is in run %(number)s.") % {"number": found.in_run}
    teaches = ngettext(
        "It teaches: %(n)s step of it have peers to compare with.",
        "It teaches: %(n)s steps of it have peers to compare with.",
        found.teaching,
    ) % {"n": found.teaching}
    return f"{teaches} {waits}"


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
