"""The grammar restricts which tokens may come next in a reply, as llguidance works it out."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from llguidance import LLMatcher, LLTokenizer
from torch import Tensor

from gpu_workers.schemas.compiler import BLANKS

KEPT = 64
"""Grammars that are kept compiled."""


class Grammar:
    """Follow one reply through its grammar."""

    def __init__(self, matcher: LLMatcher, vocabulary: int) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._bits = np.zeros((vocabulary + 31) // 32, dtype=np.int32)

    def barred(self) -> Tensor:
        """True for each token that may not come next (V,). Once the grammar is done only an end token may. Raises
        ValueError when the grammar has grown beyond its limits."""
        self._matcher.unsafe_compute_mask_ptr(self._bits.ctypes.data, self._bits.nbytes)
        if self._matcher.is_error():
            raise ValueError(self._matcher.get_error())
        allowed = np.unpackbits(self._bits.view(np.uint8), bitorder="little")[: self._vocabulary]
        return torch.from_numpy(allowed == 0)

    def take(self, token: int) -> None:
        """This token came. Raises ValueError as `barred` does, and when it was not allowed."""
        if not self._matcher.consume_token(token):
            raise ValueError(self._matcher.get_error() or f"token {token} is not allowed here")

    def copy(self) -> Grammar:
        return Grammar(self._matcher.deep_copy(), self._vocabulary)


class Grammars:
    """Compile grammars for one tokenizer, which is taken apart when the first one is asked for. Thread-safe."""

    def __init__(self, tokenizer: Any, vocabulary: int, eos_ids: Collection[int]) -> None:
        self._source, self._vocabulary, self._eos_ids = tokenizer, vocabulary, sorted(eos_ids)
        self._tokenizer: LLTokenizer | None = None
        self._made: OrderedDict[str, Grammar] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many are kept compiled."""
        return len(self._made)

    def start(self, *, json_schema: str = "", regex: str = "") -> Grammar:
        """A grammar at its beginning. Raises ValueError with a sentence when the schema or the expression is none, and
        for a keyword of JSON Schema that cannot be enforced."""
        what = "JSON schema" if json_schema else "regular expression"
        try:
            source = (
                LLMatcher.grammar_from_json_schema(
                    json_schema, overrides={"whitespace_pattern": BLANKS, "lenient": False}
                )
                if json_schema
                else LLMatcher.grammar_from_regex(regex)
            )
        except ValueError as error:
            raise ValueError(f"The {what} cannot be used: {error}.") from error
        with self._lock:
            made = self._made.pop(source, None) or self._compile(source, what)
            self._made[source] = made
            if len(self._made) > KEPT:
                self._made.popitem(last=False)
            return made.copy()

    def _compile(self, source: str, what: str) -> Grammar:
        if self._tokenizer is None:
            from llguidance.hf import from_tokenizer

            self._tokenizer = from_tokenizer(self._source, n_vocab=self._vocabulary, eos_token=self._eos_ids)
        matcher = LLMatcher(self._tokenizer, source, log_level=0)
        if matcher.is_error():
            reason = " ".join(matcher.get_error().split())
            raise ValueError(f"The {what} cannot be used: {reason[:300]}.")
        return Grammar(matcher, self._vocabulary)
