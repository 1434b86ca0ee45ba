"""Tell how far a turn has come: one short label, and the sentence behind it. Reads no rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chat.models import Turn
from chat.search import keeping
from checkpoints.models import SHARED, Checkpoint
from judge.models import Hint, Judgement
from judge.samples import ledger
from judge.samples.ledger import Stands
from judge.samples.sample_rows import Reason
from training.batches import Filling
from training.models import Run, Sample
from webapp.journeys.ballots import Ballot
from webapp.journeys.verdict_words import colour, joined, sentence, spoken, unlearned, verdict


@dataclass(frozen=True)
class Journey:
    """Where a turn stands. `stage` is for code, `label` fits a chip, `detail` is a sentence or two, `tone` colours."""

    stage: str
    """writing | served | judging | judged | batch | learning | trained | unused | closed"""
    label: str
    detail: str
    tone: str = ""
    """The verdict's colour: good, bad, or none where there is no verdict; active while something is at work."""
    done: int = 0
    total: int = 0
    """A part of a whole, where the stage has one: samples of a batch, steps of a run, votes of a verdict."""
    beside: str = ""
    """What stands beside the verdict: whose word it was, and whose outranks it (judge.votes.precedence)."""
    removed: int = 0
    """How many personal details were taken out of what is learned."""
    filling: Filling | None = None
    """The next training, where the turn is a lesson of it."""
    line: str = SHARED
    """Whose training that is."""
    spent: str = ""
    """Why nothing more that is said of it can teach, as a sentence; empty where it can."""
    guess: Hint | None = None
    """What a judge found that the person wants, while it is taught or waits for a person."""

    @property
    def before_filling(self) -> str:
        """`detail` without the sentence that says when training starts."""
        return self.detail.removesuffix(self.filling.full_sentence) if self.filling else self.detail


@dataclass(frozen=True)
class Batch:
    """The next batch, as far as it is filled, and who waits for it."""

    filling: Filling = field(default_factory=lambda: Filling(1))
    places: Mapping[int, int] = field(default_factory=dict)
    """Sample pk to its place among those that wait, from 1, as runs take them."""


def tell(turn: Turn, judgement: Judgement | None, ballot: Ballot, batch: Batch) -> Journey:
    """The journey, from what is known. Nothing is asked of the database here."""
    status = Turn.Status
    if turn.kind == keeping.IMPORTED:
        return Journey("unused", _("imported"), unlearned(Reason.IMPORTED))
    if turn.status == status.ANSWERING:
        return Journey("writing", _("writing"), spoken(Stands.WRITING), "active")
    if turn.status == status.CLOSED:
        return closed(turn)
    if turn.line == Turn.Line.SIDE:
        why = joined(unlearned(Reason.SIDE), _("Titles and summaries are side requests."))
        return Journey("unused", _("side request"), why)
    if not (turn.learns and turn.session.learns):
        why = joined(unlearned(Reason.OFF), _("The conversation itself is stored."))
        return Journey("unused", _("off the record"), why)
    if turn.status == status.SERVED and turn.pictures:
        return Journey("unused", _("holds a picture"), unlearned(Reason.PICTURE))
    if turn.status == status.SERVED:
        waits = joined(spoken(Stands.UNANSWERED), _("Your next message, a thumb or a correction will be judged."))
        if turn.is_cut:
            waits = joined(_("It was cut off at its length limit."), ASKED_OF_HALF)
        return Journey("served", _("not taught yet"), waits)
    if turn.status == status.OBSERVED:
        sample = judgement.sample if judgement else None
        if judgement is not None and sample is not None and sample.status == Sample.Status.CLAIMED:
            return of_sample(judgement, ballot, batch)  # the verdict waits for the run's end
        votes = 2 * settings.JUDGE_VOTES
        said = spoken(Stands.JUDGING)
        if 0 < ballot.asked <= votes:
            cast = _("%(n)s of up to %(most)s votes are in.") % {"n": ballot.asked, "most": votes}
            said = f"{said} {cast}"
        return Journey("judging", _("being judged"), said, "active", ballot.asked, votes)
    if judgement is None:
        return Journey("judged", _("judged"), _("A verdict stands."))
    if judgement.sample is None:
        if judgement.reason_code == Reason.TRUNCATED.code:
            return Journey("unused", _("cut short"), half())
        why = judgement.reason or ledger.told(turn, judgement).sentence
        if judgement.reason_code == Reason.KEPT.code:
            said = sentence(judgement, ballot, spoken(Reason.KEPT))
            return Journey("unused", _("kept for examining"), said, colour(judgement))
        label = _("unclear") if judgement.reason_code == "unclear" else verdict(judgement) or _("not taught")
        tone = "" if judgement.reason_code == "unclear" else colour(judgement)
        return Journey("unused", label, sentence(judgement, ballot, unlearned(why)), tone)
    return of_sample(judgement, ballot, batch)


def closed(turn: Turn) -> Journey:
    if turn.finish_reason == "error":
        return Journey("closed", _("failed"), joined(_("The reply failed."), unlearned(Reason.STOPPED)), "bad")
    if turn.finish_reason == "abort":
        return Journey("closed", _("stopped"), unlearned(Reason.STOPPED))
    return Journey("closed", _("not taught"), unlearned(Stands.CLOSED))


ASKED_OF_HALF = gettext_lazy(
    "What you ask for, or write in its place, teaches. A thumb does not: it may be for what is missing."
)


def half() -> str:
    return f"{unlearned(Reason.TRUNCATED)} {ASKED_OF_HALF}"


def waits(judgement: Judgement, sample: Sample, ballot: Ballot, batch: Batch) -> Journey:
    """The journey of a turn whose sample no run has."""
    filling, place = batch.filling, batch.places.get(sample.pk)
    ready, size = filling.ready, filling.size
    if sample.step is not None and not (sample.drop_reason or sample.run_id):
        step = _("It is a step of an attempt, learned together with all of its group.")
        said = joined(step, filling.full_sentence)
        return Journey("batch", _("waits with its group"), sentence(judgement, ballot, said), colour(judgement))
    if place is None:
        left = None if sample.drop_reason else sample.run_id or sample.passed_by_id
        aside = _("Run %(run)s left it aside: “Learn now” in the console takes it up.") % {"run": left}
        said = aside if left else _("No run takes it as things are: by the recipe, or since it was taken back.")
        return Journey("batch", _("set aside"), sentence(judgement, ballot, said), colour(judgement))
    label = _("lesson %(place)s of %(all)s") % {"place": place, "all": size if place <= size else ready}
    said = sentence(judgement, ballot, joined(_("It is a lesson."), filling.full_sentence))
    return Journey("batch", label, said, colour(judgement), min(ready, size), size, filling=filling)


def of_sample(judgement: Judgement, ballot: Ballot, batch: Batch) -> Journey:
    """The journey of a turn that made a sample."""
    sample = judgement.sample
    assert sample is not None
    if sample.status == Sample.Status.READY:
        return waits(judgement, sample, ballot, batch)
    if sample.status == Sample.Status.STALE:
        why = sample.drop_reason or str(Stands.STALE)
        return Journey("unused", _("not taught"), sentence(judgement, ballot, unlearned(why)), colour(judgement))
    run = sample.run
    if sample.status == Sample.Status.CLAIMED or run is None or run.checkpoint is None:
        return learning(judgement, ballot, run)
    if sample.left_out:
        group = _("%(checkpoint)s learned from its group.") % {"checkpoint": run.checkpoint}
        said = f"{group} {unlearned(sample.left_out)}"
        return Journey("trained", _("not learned"), sentence(judgement, ballot, said), colour(judgement))
    return trained(judgement, ballot, run.checkpoint)


def learning(judgement: Judgement, ballot: Ballot, run: Run | None) -> Journey:
    if run is None or run.status == Run.Status.QUEUED:
        said = sentence(judgement, ballot, _("It is about to be learned."))
        return Journey("learning", _("waits for training"), said, "active")
    progress: Mapping[str, Any] = run.progress or {}
    done = int(100 * (progress.get("share") or 0))
    has_share = "share" in progress
    label = _("training %(share)s %%") % {"share": done} if has_share else _("training")
    eta_s = progress.get("eta_s")
    said = _("Run %(run)s is learning it.") % {"run": run.pk}
    if eta_s and eta_s > 30:
        left = _("About %(n)s min to go.") % {"n": max(1, round(eta_s / 60))}
        said = f"{said} {left}"
    return Journey("learning", label, sentence(judgement, ballot, said), "active", done, 100 if has_share else 0)


def trained(judgement: Judgement, ballot: Ballot, checkpoint: Checkpoint) -> Journey:
    now = {
        Checkpoint.Status.CANDIDATE: _("The gate is examining it."),
        Checkpoint.Status.PASSED: _("It passed the gate and waits for a person's yes."),
        Checkpoint.Status.APPROVED: _("It was approved and is about to go live."),
        Checkpoint.Status.LIVE: _("It is live: it writes the replies now."),
        Checkpoint.Status.RETIRED: _("It was live and is not any more."),
        Checkpoint.Status.REJECTED: _("It was rejected and will not answer."),
    }[Checkpoint.Status(checkpoint.status)]
    by = _("Learned by %(checkpoint)s.") % {"checkpoint": checkpoint}
    label = _("taught to %(checkpoint)s") % {"checkpoint": checkpoint}
    return Journey("trained", label, sentence(judgement, ballot, f"{by} {now}"), colour(judgement))
