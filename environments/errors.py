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


class SandboxUnavailable(TalkbackError):
    """No sandbox could be started: nothing of the task ran, so it says nothing of an agent."""

    code, status, retryable = "sandbox_unavailable", 503, True


class SandboxRefused(TalkbackError):
    """The task asks for what this kind of sandbox cannot hold to; the sentence says what, and which kind could."""

    code, status = "sandbox_refused", 400


class SandboxEnded(TalkbackError):
    """The sandbox ran, and ended or stopped answering: what ran in it used up its memory or killed its keeper."""

    code, status = "sandbox_ended", 409
