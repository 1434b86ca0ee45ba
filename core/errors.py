"""Root of all failures that have a name."""


class TalkbackError(Exception):
    """A failure that callers decide on: `code` for machines, `status` for HTTP, `retryable` for workers.

    The message is one sentence for a person, and says what to do next where there is something to do.
    """

    code = "internal_error"
    status = 500
    retryable = False
    param: str | None = None
    """The field of the request that is at fault, where there is one: messages.0.role"""
    retry_after_s: float | None = None
    """When the same request may succeed."""


class IllegalMove(TalkbackError):
    """The row is not in a state from which this move is allowed, or another process moved it first."""

    code, status = "conflict", 409
