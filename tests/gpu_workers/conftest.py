"""The tiny model's words, for tests of grammars and of the schemas that are compiled to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from benchmarks.tiny import VOCABULARY
from gpu_workers.embedded.grammar import Grammars

END = 2


class Words:
    """Grammars of the tiny tokenizer, asked in words."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.grammars = Grammars(self.tokenizer, VOCABULARY, {END})

    def takes(self, text: str, **grammar: str) -> bool:
        """Whether a reply that is `text` and then ends satisfies the grammar."""
        held = self.grammars.start(**grammar)
        for token in [*self.tokenizer.encode(text, add_special_tokens=False), END]:
            if held.barred()[token]:
                return False
            held.take(token)
        return True


@pytest.fixture(scope="module")
def words(tiny_model: Path) -> Words:
    return Words(tiny_model)
