"""Count the votes on a turn."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.utils.translation import gettext as _

from judge.models import Vote


@dataclass(frozen=True)
class Ballot:
    """The votes on one turn."""

    scores: Sequence[int | None] = ()
    hints: int = 0
    """Hint votes that offered one."""
    asked: int = 0
    """Votes of both kinds, failed ones too."""
    failed: int = 0
    hintless: int = 0
    """Hint votes that found none; the others of them failed."""


def count_votes(votes: Iterable[Vote]) -> dict[UUID, Ballot]:
    """The newest vote of each place, by turn: a vote asked for again counts once. `votes`: by their number."""
    newest: dict[tuple[UUID, str, int], Vote] = {}
    for vote in votes:
        newest[vote.turn_id, vote.question, vote.index] = vote
    cast: dict[UUID, list[Vote]] = defaultdict(list)
    for vote in newest.values():
        cast[vote.turn_id].append(vote)
    ballots: dict[UUID, Ballot] = {}
    for pk, votes in cast.items():
        scores = [vote.score for vote in votes if vote.question == Vote.Question.SCORE]
        readings = [vote for vote in votes if vote.question == Vote.Question.HINT]
        hints = sum(1 for vote in readings if vote.hint)
        hintless = sum(1 for vote in readings if not vote.hint and not vote.failure)
        ballots[pk] = Ballot(scores, hints, len(votes), sum(1 for vote in votes if vote.failure), hintless)
    return ballots


def tally(ballot: Ballot) -> str:
    """The votes, counted.

    >>> tally(Ballot([1, 1, -1, None], asked=4, failed=1))
    '2 good, 1 bad, 1 failed'
    """
    counts = Counter(ballot.scores)
    words = ((1, _("%(n)s good")), (-1, _("%(n)s bad")), (0, _("%(n)s neutral")))
    said = [word % {"n": counts[score]} for score, word in words if counts[score]]
    if ballot.failed:
        said.append(_("%(n)s failed") % {"n": ballot.failed})
    return ", ".join(said) or _("no votes")
