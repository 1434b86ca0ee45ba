"""What can go wrong in a world, by name."""

from __future__ import annotations

from core.errors import TalkbackError


class Unplayable(TalkbackError):
    """A persona or a task that cannot be used as it is written; the message says where, and what is accepted."""

    code, status = "unplayable", 400


class UserUnavailable(TalkbackError):
    """The model that plays the person did not answer; nothing of the session is lost, and asking again is safe."""

    code, status, retryable = "user_unavailable", 503, True


class StackFailed(TalkbackError):
    """A private Talkback does not start, or a part of it ended; the sentence names the log."""

    code, status = "stack_failed", 500
