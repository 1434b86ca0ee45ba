"""A step is one packed forward: the next token of each sequence that is generating, and a slice of the prompts.

It runs on the model's thread alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from torch import Tensor

from gpu_workers.embedded.adapters import Adapter
from gpu_workers.embedded.metrics import Metrics
from gpu_workers.embedded.model import Model, Piece
from gpu_workers.embedded.sampling import Row, draw
from gpu_workers.embedded.scheduler import Scheduler
from gpu_workers.embedded.sequences import Finish, Sequence, StepOutput, beyond, chosen, tops


class Stepper:
    """Step the sequences that the scheduler plans, and end those that are done."""

    def __init__(
        self,
        model: Model,
        scheduler: Scheduler,
        metrics: Metrics,
        *,
        weight_version: str,
        keeps: Callable[[Adapter | None], bool],
        original_logprobs: bool,
    ) -> None:
        """`keeps` tells whether what was computed with an adapter may stay for prompts that begin alike."""
        self.weight_version = weight_version
        self._model, self._scheduler, self._metrics = model, scheduler, metrics
        self._keeps, self._original = keeps, original_logprobs

    def step(self) -> bool:
        """Run one packed forward, and send each sequence what it drew. False when there was nothing to do."""
        planned = self._scheduler.plan()
        if not planned:
            return False
        pieces: list[Piece] = []
        wanted: list[int] = []
        readers = []
        row = 0
        for sequence, n in planned:
            assert sequence.kv is not None
            start = sequence.computed
            pieces.append(Piece(sequence.tokens[start : start + n].tolist(), start, sequence.kv, sequence.adapter))
            first = sequence.first_scored
            scored = [i for i in range(start, start + n) if first <= i < sequence.prompt_length - 1]
            is_last = start + n == sequence.length
            rows = [row + i - start for i in scored]
            if is_last and sequence.ask.params.max_new_tokens > 0:
                rows.append(row + n - 1)
            readers.append((sequence, scored, is_last, len(wanted), len(rows)))
            wanted.extend(rows)
            row += n
        began = time.perf_counter()
        logits = self._model.forward(pieces, wanted or [row - 1])
        drawing: list[tuple[Sequence, int]] = []
        for sequence, scored, is_last, at, count in readers:
            if scored:
                sequence.note_prompt(scored, logits[at : at + len(scored)])
            if is_last and count > len(scored):
                drawing.append((sequence, at + count - 1))
            elif is_last:
                self.end(sequence, {"type": "length", "length": 0})
        if drawing:
            self._draw(drawing, logits)
        self._metrics.step(time.perf_counter() - began, len(drawing))
        return True

    def _draw(self, drawing: list[tuple[Sequence, int]], logits: Tensor) -> None:
        rows = []
        for sequence, at in list(drawing):
            p = sequence.ask.params
            early = sequence.output_length < p.min_new_tokens and sequence.grammar is None
            barred = (self._model.eos_ids | p.stop_token_ids) if early else frozenset()
            try:
                outside = None if sequence.grammar is None else sequence.grammar.barred()
            except ValueError as error:
                drawing.remove((sequence, at))
                self.end(sequence, beyond(error))
                continue
            rows.append(Row(p, sequence.sampler, sequence.counts, barred, outside))
        if not rows:
            return
        ids, logprobs = draw(logits[[at for _, at in drawing]], rows, original=self._original)
        self._metrics.drawn(len(ids))
        now = time.time()
        for n, (sequence, _) in enumerate(drawing):
            ask, token = sequence.ask, ids[n]
            if sequence.prompt_done is None:
                sequence.prompt_done = now
                self._metrics.first_token(now - sequence.arrived)
                self._metrics.prompt(sequence.prompt_length, sequence.cached_tokens or 0)
            sequence.tokens[sequence.length] = token
            sequence.length += 1
            sequence.counts[token] += 1
            sequence.stamp(self.weight_version)
            output = sequence.pending
            output.ids.append(token)
            if ask.return_logprob:
                output.logprobs.append((float(logprobs[n, token]), token))
                if ask.top_logprobs:
                    output.tops += tops(logprobs[n : n + 1], ask.top_logprobs)
                if ask.token_ids_logprob:
                    output.chosen += chosen(logprobs[n : n + 1], ask.token_ids_logprob)
            finish = self._finish(sequence, token)
            if sequence.grammar is not None and finish is None:
                try:
                    sequence.grammar.take(token)
                except ValueError as error:
                    finish = beyond(error)
            if finish is not None:
                self.end(sequence, finish)
            elif sequence.is_due:
                self._say(sequence)

    def _finish(self, sequence: Sequence, token: int) -> Finish | None:
        """A stop string comes before a stop token, and that before the length: SGLang's order."""
        p = sequence.ask.params
        heeded = not p.ignore_eos or sequence.grammar is not None  # behind the end of a grammar nothing can come
        is_stop = heeded and (token in self._model.eos_ids or token in p.stop_token_ids)
        if not is_stop or p.no_stop_trim:
            matched = sequence.text.add(token)
            if matched is not None:
                return {"type": "stop", "matched": matched}
        if is_stop:
            return {"type": "stop", "matched": token}
        if sequence.output_length >= p.max_new_tokens:
            return {"type": "length", "length": p.max_new_tokens}
        return None

    def _say(self, sequence: Sequence, finish: Finish | None = None) -> None:
        output, sequence.pending = sequence.pending, StepOutput()
        output.text, output.finish, output.weight_version = sequence.text.so_far, finish, self.weight_version
        sequence.sink(output)

    def end(self, sequence: Sequence, finish: Finish) -> None:
        """Say the last word, give the place back, and keep what was computed for those who begin alike."""
        self._scheduler.leave(sequence, keeps=self._keeps(sequence.adapter))
        if finish.get("type") != "stop" or not isinstance(finish.get("matched"), str):
            sequence.text.finish()
        sequence.finished = time.time()
        self._metrics.request(finish["type"], sequence.finished - sequence.arrived)
        self._say(sequence, finish)
