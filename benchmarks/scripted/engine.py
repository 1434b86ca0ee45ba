"""Hold what the connections share: the script, what is loaded, what was asked."""

from __future__ import annotations

import argparse
import json
from collections import OrderedDict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from tokenizers import Tokenizer

from benchmarks.scripted.boxes import choice_logprobs
from benchmarks.scripted.logprobs import adapter_shift, logprob
from benchmarks.scripted.replies import Replies, Reply
from benchmarks.scripted.script import Line, Script
from core.textfiles import read_lines

BLOCK = 64
"""Prompts are remembered in blocks of so many tokens, by which `cached_tokens` is told."""
BLOCKS = 65536
"""How many blocks are remembered: four million tokens."""


class Running(Protocol):
    """A reply under way, which can be ended, be held back and go on."""

    def abort(self) -> None: ...

    def rest(self) -> None: ...

    def go_on(self) -> None: ...


class Engine:
    """What the connections share: the script, what is loaded, what was asked."""

    def __init__(self, options: argparse.Namespace) -> None:
        folder = Path(options.model)
        self.model = str(folder)
        self.tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        config = json.loads((folder / "config.json").read_text())
        self.picture_id: int | None = config.get("image_token_id") if "vision_config" in config else None
        """What stands for a picture in a prompt, for a model that sees."""
        end = config.get("eos_token_id")
        named = self.tokenizer.token_to_id("<|im_end|>")
        self.replies = Replies(self.tokenizer, named if named is not None else end[0] if isinstance(end, list) else end)
        self.vocabulary = int(config.get("vocab_size") or self.tokenizer.get_vocab_size())
        self.context_length = options.context_length or int(config.get("max_position_embeddings") or 32768)
        self.pace_s = 1 / options.tokens_per_second if options.tokens_per_second else 0.0
        self.first_s = options.first_token_s
        self.otherwise = options.otherwise
        self.api_key, self.admin_key = options.api_key, options.admin_api_key
        lines = read_lines(options.script) if options.script else []
        self.script = Script(Line.read(json.loads(line)) for line in lines if line.strip())
        self.adapters: dict[str, str] = {}
        self.version = options.weight_version
        self.paused: str | None = None
        self.running: dict[str, Running] = {}
        self.asked = self.scored = self.tokens = self.prompt_tokens = self.cached_tokens = 0
        self.aborted: deque[dict[str, Any]] = deque(maxlen=10_000)
        self.calls: deque[dict[str, Any]] = deque(maxlen=options.keep)
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def reply(self, ids: Sequence[int], params: dict[str, Any]) -> tuple[Reply, str]:
        """What the script answers, and how the reply is to end."""
        line = self._line(ids)
        stop = params.get("stop") or ()
        reply = self.replies.reply(
            line.says,
            line.finish_reason,
            int(params.get("max_new_tokens", 128)),
            (stop,) if isinstance(stop, str) else tuple(stop),
            not params.get("ignore_eos"),
            bool(params.get("skip_special_tokens", True)),
            bool(params.get("no_stop_trim", False)),
        )
        return reply, line.finish_reason

    def answer_to(self, ids: Sequence[int]) -> str:
        """What the script says after this prompt."""
        return self._line(ids).says

    def _line(self, ids: Sequence[int]) -> Line:
        return self.script.take(lambda: self.decoded(ids)) or Line(self.otherwise, None, None)

    def decoded(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False))

    def cached(self, ids: Sequence[int], adapter: str | None) -> int:
        """How many of the prompt's first tokens were there before, in whole blocks; from now on all of them are."""
        seen, known, count = hash(adapter), True, 0
        for start in range(0, len(ids) - 1 - BLOCK, BLOCK):
            seen = hash((seen, *ids[start : start + BLOCK]))
            known = known and seen in self._blocks
            count += BLOCK if known else 0
            self._blocks[seen] = None
            self._blocks.move_to_end(seen)
        while len(self._blocks) > BLOCKS:
            self._blocks.popitem(last=False)
        return count

    def forget_prompts(self) -> None:
        """Empty the cache that `cached` tells of."""
        self._blocks.clear()

    def score(self, body: dict[str, Any]) -> dict[str, Any]:
        """Log-probs of the prompt's tokens from logprob_start_len on; the first is null, as it has none."""
        ids, start = body["input_ids"], int(body.get("logprob_start_len", -1))
        self.scored += 1
        shift = adapter_shift(body.get("lora_path") or None)
        meta: dict[str, Any] = {
            "id": str(body.get("rid") or uuid4().hex),
            "finish_reason": {"type": "length", "length": 0},
            "prompt_tokens": len(ids),
            "completion_tokens": 0,
            "cached_tokens": self.cached(ids, body.get("lora_path") or None),
            "weight_version": self.version,
            "output_token_logprobs": [],
            "output_token_logprobs_length": 0,
            "input_token_logprobs": [],
        }
        if body.get("return_logprob") and start >= 0:
            entries: list[list[Any]] = [[round(logprob(one) + shift, 7), one, None] for one in ids[start:]]
            entries[0][0] = None
            meta["input_token_logprobs"] = entries
            if choices := body.get("token_ids_logprob"):  # of the last place only: what the script's box says there
                says = self.answer_to(ids[:-1])
                found = choice_logprobs(says, [self.decoded([one]) for one in choices])
                row = [[round(p, 7), one, None] for p, one in zip(found, choices, strict=True)]
                meta["input_token_ids_logprobs"] = [None, *([row] * (len(entries) - 1))]
        return {"text": "", "output_ids": [], "meta_info": meta}
