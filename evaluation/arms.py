"""What people's thumbs say of the two checkpoints of a trial, and the trial's end once that is enough.

One vote a conversation, its first thumb: what follows it is said by the same person of the same talk, and the test
counts votes as if each stood alone. A conversation counts for the arm that the trial's hash gave it, and only with
replies that this arm wrote; keys that are pinned were never drawn. Reviewers know what they look at, and they were not
drawn either: of a trial with reviewers only the thumbs are shown, and a person says how it ended.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chat.models import Turn
from checkpoints import notices, trials
from checkpoints.models import Checkpoint, Trial
from checkpoints.notice_rows import Notice
from checkpoints.rulings import SAYS
from core import statistics
from core.statistics import Arm, Reading
from feedback.models import Feedback

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Side:
    """One checkpoint's part in a trial."""

    checkpoint: Checkpoint
    votes: Arm
    """One a conversation."""
    replies: int
    thumbs: int
    """All of them."""


@dataclass(frozen=True)
class Standing:
    """A trial as it stands, or as it stood when it ended."""

    trial: Trial
    live: Side
    candidate: Side
    reading: Reading | None
    """None: reviewers only."""

    @property
    def evidence(self) -> dict[str, Any]:
        """For the trial's row."""
        said = {name: asdict(side.votes) for name, side in (("live", self.live), ("candidate", self.candidate))}
        return said | ({"reading": asdict(self.reading)} if self.reading else {})


def standing(trial: Trial) -> Standing:
    """Read the thumbs given in this trial."""
    served = Turn.objects.filter(
        checkpoint__in=(trial.checkpoint_id, trial.against_id),
        line=Turn.Line.MAIN,
        created_at__gte=trial.since,
        session__key__checkpoint=None,
    )
    if trial.ended_at:
        served = served.filter(created_at__lt=trial.ended_at)
    replies = Counter(served.order_by().values_list("checkpoint", flat=True))
    given = Feedback.objects.standing().filter(turn__in=served, kind=Feedback.Kind.THUMB, value__in=(1, -1))
    votes: dict[Any, tuple[int, int]] = {}
    thumbs: Counter[int] = Counter()
    rows = given.order_by("created_at", "pk").values_list("turn__session", "turn__checkpoint", "value")
    for session, checkpoint, value in rows:
        if trial.share and trials.falls_to(trial.pk, session, trial.share) != (checkpoint == trial.checkpoint_id):
            continue  # asked for by its number
        thumbs[checkpoint] += 1
        votes.setdefault(session, (checkpoint, value))
    counts = Counter(votes.values())

    def side(checkpoint: Checkpoint) -> Side:
        arm = Arm(counts[checkpoint.pk, 1], counts[checkpoint.pk, -1])
        return Side(checkpoint, arm, replies[checkpoint.pk], thumbs[checkpoint.pk])

    live, candidate = side(trial.against), side(trial.checkpoint)
    reading = statistics.compare(live.votes, candidate.votes, share=trial.share / 100) if trial.share else None
    return Standing(trial, live, candidate, reading)


def settle() -> int:
    """End the trials that were overtaken, and those of which enough is known; operators hear of the latter. Returns how
    many ended."""
    ended = trials.end_overtaken()
    running = Trial.objects.filter(ended_at=None).exclude(share=0)
    for trial in running.select_related("checkpoint", "against", "line").order_by("pk"):
        now = standing(trial)
        if now.reading is None or now.reading.verdict == "unknown":
            continue
        said = sentence(now)
        if trials.end(trial, outcome=now.reading.verdict, reason=said, evidence=now.evidence):
            ended += 1
            is_bad = now.reading.verdict == "worse"
            level = Notice.Level.WARNING if is_bad else Notice.Level.INFO
            over = SAYS["trial over"] % {"checkpoint": trial.checkpoint, "verdict": now.reading.verdict}
            text = f"{over} {said} {SAYS['trial over, then']}"
            notices.tell(f"trial {trial.line_id}", text, level=level, checkpoint=trial.checkpoint)
            log.info("%s", text)
    return ended


def sentence(now: Standing) -> str:
    """What the votes say so far, for people.

    The interval is of the difference of the two rates, in points of a hundred.
    """
    new, old = now.candidate.votes, now.live.votes
    told = {
        "ups": new.ups,
        "votes": new.votes,
        "candidate": now.candidate.checkpoint,
        "live_ups": old.ups,
        "live_votes": old.votes,
        "live": now.live.checkpoint,
    }
    if now.reading is None:
        return _(SAYS["votes"]) % told
    told["low"], told["high"] = (
        f"{'+' if edge > 0 else '−' if edge < 0 else ''}{abs(edge) * 100:.0f}"
        for edge in (now.reading.low, now.reading.high)
    )
    return _(SAYS["votes apart"]) % told


def verdict(now: Standing) -> str:
    """What is known, or how many more votes it takes."""
    if now.reading is None:
        return _("Reviewers know what they look at, so no test decides: you say how it ended.")
    if now.reading.verdict != "unknown":
        return _("Known: %(verdict)s. The next sweep ends the trial.") % {"verdict": _(now.reading.verdict)}
    if now.reading.needed is None:
        said = _("Not yet known, and more than %(votes)s votes away at these rates.")
        return said % {"votes": statistics.MOST_VOTES}
    said = ngettext(
        "Not yet known. About %(n)s more conversation with a thumb, if these rates stay.",
        "Not yet known. About %(n)s more conversations with a thumb, if these rates stay.",
        now.reading.needed,
    )
    return said % {"n": now.reading.needed}
