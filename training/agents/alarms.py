"""Notice where agents get longer and not better: where a policy chooses when to stop, step values favour going on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from django.utils.translation import gettext_noop

from checkpoints import notices
from checkpoints.models import Checkpoint
from training.models import Run, Sample

RUNS = 3
"""In so many runs one after the other it has to grow."""

LOOKED_AT = 20
"""How many of a line's newest runs are looked at for those that played the same worlds."""

SAYS = {
    "longer": gettext_noop(
        "Attempts grew longer for %(runs)s runs, from %(first)s to %(last)s steps, and success did not grow "
        "(%(before)s %%, now %(now)s %%)."
    ),
    "cut": gettext_noop(
        "More attempts were cut off for %(runs)s runs, from %(first)s %% to %(last)s %%, and success did not grow "
        "(%(before)s %%, now %(now)s %%)."
    ),
    "told": gettext_noop("%(run)s, which made %(checkpoint)s:"),
    "then": gettext_noop("Look at its attempts before it answers."),
}
"""What rows and notices say, kept in English (webapp.serving.retold)."""


def raised(run: Run, figures: Mapping[str, Any]) -> list[str]:
    """What is worrying about this run's figures beside those of the line's runs before it on the same worlds."""
    runs = Run.objects.filter(line=run.line_id, status=Run.Status.FINISHED, again=None, pk__lt=run.pk)
    earlier = {one.pk: one.agents for one in runs.exclude(agents={}).order_by("-pk")[:LOOKED_AT]}
    worlds = _worlds([run.pk, *earlier])
    alike = [told for pk, told in earlier.items() if worlds.get(pk) == worlds.get(run.pk)]
    return sentences([*alike[:RUNS][::-1], figures])


def tell(run: Run, checkpoint: Checkpoint) -> None:
    """Let operators know of what the run's figures say."""
    if sentences := run.agents.get("alarms"):
        said = " ".join((SAYS["told"] % {"run": run, "checkpoint": checkpoint}, *sentences, SAYS["then"]))
        notices.tell(f"agents {run.line_id}", said, checkpoint=checkpoint)


def sentences(figures: Sequence[Mapping[str, Any]]) -> list[str]:
    """What grew from run to run through all of these, the oldest first, while success did not.

    >>> told = [{"mean_length": n, "truncated_share": 0.0, "success": 0.5} for n in (4.0, 5.0, 5.5, 7.0)]
    >>> sentences(told)
    ['Attempts grew longer for 3 runs, from 4.0 to 7.0 steps, and success did not grow (50 %, now 50 %).']
    >>> sentences(told[1:]), sentences([*told[:3], told[3] | {"success": 0.6}])
    ([], [])
    """
    if len(figures) <= RUNS:
        return []
    seen = figures[-RUNS - 1 :]
    before, now = seen[0]["success"], seen[-1]["success"]
    if now > before:
        return []
    success = {"runs": RUNS, "before": _percent(before), "now": _percent(now)}
    found = []
    if _grows(lengths := [one["mean_length"] for one in seen]):
        grew = {"first": f"{lengths[0]:.1f}", "last": f"{lengths[-1]:.1f}"}
        found.append(SAYS["longer"] % (success | grew))
    if _grows(cut := [one["truncated_share"] for one in seen]):
        grew = {"first": _percent(cut[0]), "last": _percent(cut[-1])}
        found.append(SAYS["cut"] % (success | grew))
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _grows(values: Sequence[float]) -> bool:
    return all(later > earlier for earlier, later in pairwise(values))


def _worlds(runs: Sequence[int]) -> dict[int, set[str]]:
    """Which worlds the samples of these runs were played in."""
    found: dict[int, set[str]] = {}
    rows = Sample.objects.filter(run__in=runs, episode__isnull=False).order_by()
    for run, world in rows.values_list("run", "episode__group__world").distinct():
        found.setdefault(run, set()).add(world)  # type: ignore[arg-type]  # a value of a run is never null here
    return found
