"""Make up log-probs that are always the same for a token."""

from __future__ import annotations


def logprob(token: int) -> float:
    """Made up, and always the same for a token."""
    return -(0.2 + (token % 11) / 10)


def adapter_shift(adapter: str | None) -> float:
    return 0.0 if adapter is None else -0.01 * (1 + sum(adapter.encode()) % 7)
