"""A catalogue of a few words, whatever the real one says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils.translation import trans_real

CONTEXT = "\x04"
"""Between a context and its words, in a catalogue."""


@pytest.fixture
def german(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have German say `words`, each by its English message ("context\x04message" where it has a context)."""

    def say(words: dict[str, str]) -> None:
        found: Any = trans_real.translation("de")
        first = found._catalog._catalogs[0]
        for message, said in words.items():
            monkeypatch.setitem(first, message, said)

    return say
