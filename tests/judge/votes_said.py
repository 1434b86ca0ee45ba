"""What judges are scripted to say, and what comes of it."""

from __future__ import annotations

from chat.models import Turn

HINT = "Add the numbers before you reply."
YES = rf"They name a change. \boxed{{1}} [HINT_START]{HINT}[HINT_END]"
SCORE, TELL = "Judge the", "Does what came back say"  # how the two questions are told apart


def again(turn: Turn) -> Turn:
    turn.refresh_from_db()
    if turn.status == Turn.Status.JUDGED:
        turn.move(Turn.Status.OBSERVED)
    return Turn.objects.get(pk=turn.pk)
