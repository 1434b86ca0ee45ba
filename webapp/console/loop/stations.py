"""Say how each stop of the loop stands: its figure, its mood, a sentence. Reads no rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext, pgettext

from checkpoints.models import SHARED, Checkpoint
from gate import agent_part
from training.models import Run
from webapp import heartbeats
from webapp.amounts import span
from webapp.console.loop.facts import Facts

PHASES = (
    *(gettext_noop("starting"), gettext_noop("loading"), gettext_noop("learning"), gettext_noop("teacher")),
    *(gettext_noop("learning, after chat"), gettext_noop("teacher, after chat"), gettext_noop("saving")),
    gettext_noop("finished"),
)
"""What a run's row says that it is at, in English."""

SILENT_S = 60
"""A run that has not been heard for this long has lost its learner."""


@dataclass(frozen=True)
class Station:
    """One stop of the loop and how it stands there."""

    key: str
    title: str
    figure: str
    mood: str
    """idle | working | waiting (for something of its own accord) | you (for a person) | stuck (for a repair)"""
    sentence: str
    since: datetime | None = None
    done: int = 0
    total: int = 0

    @property
    def percent(self) -> int:
        return round(100 * self.done / self.total) if self.total else 0


def stations(facts: Facts) -> list[Station]:
    """Each stop of the loop, in the order a lesson passes them."""
    return [_talk(facts), _judge(facts), _batch(facts), _learn(facts), _examine(facts), _approve(facts), _live(facts)]


def missing(facts: Facts, queue: str) -> str:
    """Why no worker takes work from this queue, as a sentence; empty when one does.

    >>> missing(facts, "judge")  # doctest: +SKIP
    'Waiting for a judge worker: none has answered for 40 s.'
    """
    if facts.silences is None:
        return _("Waiting for Redis, which does not answer: what is due is sent again once it is back.")
    silence = facts.silences.get(queue)
    if silence is None and queue == "judge":
        return _("Waiting for a judge worker: none has answered yet.")
    if silence is None:
        return _("Waiting for a learn worker: none has answered yet.")
    if silence <= heartbeats.LOST_S:
        return ""
    told = {"span": span(silence)}
    if queue == "judge":
        return _("Waiting for a judge worker: none has answered for %(span)s.") % told
    return _("Waiting for a learn worker: none has answered for %(span)s.") % told


def _talk(facts: Facts) -> Station:
    turns, title = facts.counts["turns"], pgettext("stop", "Talk")
    every = sum(turns.values())
    figure = ngettext("%(n)s turn", "%(n)s turns", every) % {"n": every}
    if n := turns["answering"]:
        said = ngettext("%(n)s reply being written.", "%(n)s replies being written.", n) % {"n": n}
        return Station("talk", title, figure, "working", said, facts.oldest["turns"].get("answering"))
    if n := turns["served"]:
        said = ngettext(
            "%(n)s reply waiting for what comes back: a next message, a thumb, a correction.",
            "%(n)s replies waiting for what comes back: a next message, a thumb, a correction.",
            n,
        ) % {"n": n}
        return Station("talk", title, figure, "idle", said, facts.oldest["turns"].get("served"))
    said = _("Every reply was answered.") if every else _("No conversation yet.")
    return Station("talk", title, figure, "idle", said)


def _judge(facts: Facts) -> Station:
    turns, title = facts.counts["turns"], pgettext("stop", "Judge")
    due, since = turns["observed"], facts.oldest["turns"].get("observed")
    if not due:
        n = turns["judged"]
        figure = _("%(n)s judged") % {"n": n}
        if facts.stopped:
            said = _(
                "Every judge has stopped: votes teach nothing. Measure one anew or overrule the floor, under Judges."
            )
            return Station("judge", title, figure, "you", said)
        if facts.unknown:
            said = _("No judge was measured: votes are shown, and count for nothing. Measure now, under Judges.")
            return Station("judge", title, figure, "you", said)
        judged = ngettext("%(n)s turn judged.", "%(n)s turns judged.", n) % {"n": n}
        return Station("judge", title, figure, "idle", judged if n else _("Nothing to judge yet."))
    figure = _("%(n)s due") % {"n": due}
    if absent := missing(facts, "judge"):
        return Station("judge", title, figure, "stuck", absent, since)
    said = ngettext("Judging %(n)s turn.", "Judging %(n)s turns.", due) % {"n": due}
    return Station("judge", title, figure, "working", said, since)


def _batch(facts: Facts) -> Station:
    batch = facts.batch
    ready, needed, is_full = batch.ready, batch.size, not batch.wanting
    figure = _("%(part)s of %(whole)s") % {"part": ready, "whole": needed}
    if ready > needed:
        figure = _("%(n)s ready") % {"n": ready}
    title = pgettext("stop", "Batch")
    since = facts.oldest["samples"].get("ready")
    if is_full and facts.busy:
        busy = _("Waiting for the learner, which is busy with %(run)s.") % {"run": name_of(facts.run)}
        said = f"{batch.lessons} {busy}"
    elif is_full and facts.held:
        return Station("batch", title, figure, "waiting", facts.held, since, needed, needed)
    elif is_full:
        absent = missing(facts, "learn")
        said = f"{batch.lessons} {absent or _('The next run takes them.')}"
        return Station("batch", title, figure, "stuck" if absent else "working", said, since, needed, needed)
    else:
        said = batch.full_sentence
    return Station("batch", title, figure, "waiting", said, since, min(ready, needed), needed)


def _learn(facts: Facts) -> Station:
    run, title = facts.run, pgettext("stop", "Learn")
    if facts.held:
        since = facts.pause.since if facts.pause else run.moved_at if run and run.status == Run.Status.QUEUED else None
        figure = pgettext("learning", "paused") if facts.pause else pgettext("learning", "waits")
        if run and run.status == Run.Status.QUEUED:
            figure = name_of(run)
        return Station("learn", title, figure, "waiting", facts.held, since)
    if run is None:
        said = _("Training starts by itself once there are enough lessons.")
        return Station("learn", title, _("no run"), "idle", said)
    if run.status == Run.Status.QUEUED:
        absent = missing(facts, "learn")
        said = absent or _("Waiting for the learner to take it up.")
        return Station("learn", title, name_of(run), "stuck" if absent else "waiting", said, run.moved_at)
    if run.status == Run.Status.RUNNING:
        return _running(facts, run, title)
    if run.status == Run.Status.FAILED:
        figure = _("run %(number)s failed") % {"number": run.pk}
        return Station("learn", title, figure, "idle", run.error or _("It failed."), run.finished_at)
    figure = _("run %(number)s done") % {"number": run.pk}
    return Station("learn", title, figure, "idle", _("No run at work."), run.finished_at)


def _running(facts: Facts, run: Run, title: str) -> Station:
    silence = (facts.now - (run.heartbeat_at or run.moved_at)).total_seconds()
    if silence > SILENT_S:
        said = _("Its learner has been silent for %(span)s; the run is taken up again or its samples go back.") % {
            "span": span(silence)
        }
        return Station("learn", title, name_of(run), "stuck", said, run.started_at)
    done = round(100 * run.progress.get("share", 0))
    phase = _(str(run.progress.get("phase", "starting"))).capitalize()
    said = f"{phase}."
    if left := run.progress.get("eta_s"):
        said = _("%(phase)s, about %(span)s to go.") % {"phase": phase, "span": span(left)}
    return Station("learn", title, name_of(run), "working", said, run.started_at, done, 100)


def name_of(run: Run | None) -> str:
    """A run as a sentence names it."""
    return _("run %(number)s") % {"number": run.pk} if run else ""


def _examine(facts: Facts) -> Station:
    candidate, examination, title = facts.candidate, facts.examination, pgettext("stop", "Examine")
    if candidate is None:
        said = _("The gate examines each candidate by itself.")
        return Station("examine", title, _("no candidate"), "idle", said)
    since = candidate.moved_at
    if absent := missing(facts, "judge"):
        return Station("examine", title, candidate.name, "stuck", absent, since)
    if examination is None:
        said = _("Waiting for a judge worker to be free.")
        return Station("examine", title, candidate.name, "waiting", said, since)
    against = {"against": examination.against}
    if examination.progress.get("phase") == "agents":
        ended, wanted = agent_part.count_played(agent_part.of(examination))
        told = {**against, "part": ended, "whole": wanted}
        said = _("Agents play against %(against)s: %(part)s of %(whole)s attempts.") % told
        return Station("examine", title, candidate.name, "working", said, examination.started_at, ended, wanted)
    done, total = examination.progress.get("done", 0), examination.progress.get("total", 0)
    said = _("Against %(against)s.") % against
    if total:
        said = _("Against %(against)s: %(part)s of %(whole)s questions.") % {**against, "part": done, "whole": total}
    return Station("examine", title, candidate.name, "working", said, examination.started_at, done, total)


def _approve(facts: Facts) -> Station:
    title = pgettext("stop", "Approve")
    if facts.approved:
        said = _("Approved: it goes live once the engine has answered its probe.") + of_line(facts.approved)
        return Station("approve", title, facts.approved.name, "working", said, facts.approved.moved_at)
    if facts.passed:
        waiting = facts.counts["checkpoints"]["passed"] - facts.on_hold
        said = _("It passed the gate and waits for a person.")
        if facts.endorsed_by:
            said = _("It passed the gate and waits for a second yes, after %(who)s’s.") % {"who": facts.endorsed_by}
        said += of_line(facts.passed)
        if (more := waiting - 1) > 0:
            said += " " + ngettext("%(n)s more after it.", "%(n)s more after it.", more) % {"n": more}
        return Station("approve", title, facts.passed.name, "you", said, facts.passed.moved_at)
    if facts.on_hold:
        said = _("Put on hold by a person until it is released.")
        return Station("approve", title, _("%(n)s on hold") % {"n": facts.on_hold}, "idle", said)
    return Station("approve", title, _("nothing"), "idle", _("Nothing is waiting for you."))


def _live(facts: Facts) -> Station:
    said = _("It writes every new reply, but for those of teams with a line of their own.")
    return Station("live", pgettext("stop", "Live"), facts.live.name, "idle", said, facts.live.moved_at)


def of_line(checkpoint: Checkpoint) -> str:
    """Whose it is, where it is not everybody's, as a sentence to go on with."""
    if checkpoint.line_id == SHARED:
        return ""
    return " " + _("It is of the line “%(line)s”.") % {"line": checkpoint.line}
