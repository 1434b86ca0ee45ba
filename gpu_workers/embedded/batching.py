"""The batcher runs continuous batching: one thread owns the model; sequences join and leave between any two tokens.

Other threads talk to it through a queue of calls, and hear from it through each sequence's `sink`. What a step does is
in stepping.py, which sequences it steps in scheduler.py.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import abc
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from torch import Tensor

from core import memory
from gpu_workers.embedded.adapters import Adapter
from gpu_workers.embedded.grammar import Grammar
from gpu_workers.embedded.metrics import Metrics
from gpu_workers.embedded.model import Model
from gpu_workers.embedded.requests import Ask
from gpu_workers.embedded.sampling import Sampler
from gpu_workers.embedded.scheduler import Scheduler
from gpu_workers.embedded.sequences import Sequence, StepOutput
from gpu_workers.embedded.stepping import Stepper
from gpu_workers.embedded.text import Decode, Text

log = logging.getLogger(__name__)

T = TypeVar("T")

IDLE_S = 2.0
"""After so long without a request the allocator gives back what the last ones used."""


@dataclass
class _Update:
    """New weights that wait for running sequences to end."""

    state: dict[str, Tensor]
    folder: str
    version: str | None
    done: Future[int]


class Batcher:
    """Own a model on a thread of its own. All methods may be called from any thread; futures tell when it is done."""

    def __init__(
        self,
        model: Model,
        decode: Callable[[abc.Sequence[int], bool, bool], str],
        *,
        max_running: int,
        max_tokens: int,
        weight_version: str,
        kept_bytes: int | None = None,
        chunk: int = 0,
        original_logprobs: bool = False,
    ) -> None:
        """`max_tokens` bounds the keys and values of running and kept sequences together, `kept_bytes` what stays when
        nothing runs: kept sequences and adapters (None: `max_tokens` alone does). `chunk` is how many prompt tokens a
        step reads at least, 0: as few as let the replies in progress keep pace."""
        self.metrics = Metrics()
        self.max_running, self.max_tokens = max_running, max_tokens
        self._model, self._decode = model, decode
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._scheduler = Scheduler(model.new_kv, max_running=max_running, max_tokens=max_tokens, chunk=chunk)
        self._stepper = Stepper(
            model,
            self._scheduler,
            self.metrics,
            weight_version=weight_version,
            keeps=lambda adapter: not self._is_unloading(adapter),
            original_logprobs=original_logprobs,
        )
        self._kept_bytes = kept_bytes
        self._adapters: dict[str, Adapter] = {}
        self._bound_kept()
        self._is_trimmed = True
        self._paused: Literal["abort", "retract", "in_place"] | None = None
        self._updates: list[_Update] = []
        self._unloads: list[tuple[Adapter, Future[None]]] = []
        self._flushes: list[tuple[float, Future[bool]]] = []
        self._orders = 0
        self._thread = threading.Thread(target=self._run, name="batcher", daemon=True)
        self.failed: BaseException | None = None
        self.on_failure: Callable[[], None] = lambda: None

    # Called from other threads

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the step that is running; open requests end as aborted."""
        self._calls.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def submit(
        self, asks: abc.Sequence[tuple[Ask, Callable[[StepOutput], None]]], grammars: abc.Sequence[Grammar | None] = ()
    ) -> list[Sequence]:
        """Queue these; sinks are called on the model's thread. `grammars` are one an ask, or none at all. Raises
        KeyError naming an adapter that is not loaded."""
        made = []
        for (ask, sink), grammar in zip(asks, grammars or [None] * len(asks), strict=True):
            adapter = None if ask.adapter is None else self._adapters[ask.adapter]
            p = ask.params
            self._orders += 1
            tokens = np.empty(len(ask.ids) + p.max_new_tokens, dtype=np.int64)
            tokens[: len(ask.ids)] = ask.ids
            decode = self._decoder(p.skip_special_tokens, p.spaces_between_special_tokens)
            text = Text(decode, p.stop, p.no_stop_trim)
            sampler = Sampler(p.sampling_seed)
            sequence = Sequence(ask, adapter, sink, self._orders, text, sampler, tokens, len(ask.ids), grammar)
            if ask.logprob_start >= 0:  # nothing precedes the first of these tokens: its log-prob is null
                sequence.prompt_logprobs.append((None, ask.ids[ask.logprob_start]))
                sequence.prompt_tops.append(None)
                sequence.prompt_chosen.append(None)
            made.append(sequence)
        self._calls.put(lambda: self._scheduler.join(made))
        return made

    def abort(self, sequences: abc.Sequence[Sequence] | None) -> None:
        """End these, or all (None), with what they have."""
        self._calls.put(lambda: self._abort(sequences))

    def abort_id(self, rid: str) -> None:
        self._calls.put(lambda: self._abort([s for s in self._scheduler.sequences if s.ask.rid == rid]))

    def pause(self, mode: Literal["abort", "retract", "in_place"]) -> Future[None]:
        return self._call(lambda: self._pause(mode))

    def resume(self) -> Future[None]:
        return self._call(self._resume)

    def flush(self, timeout_s: float = 0) -> Future[bool]:
        """Forget all prefixes; False, and nothing forgotten, when requests have not ended within `timeout_s`."""
        done: Future[bool] = _promise()
        self._calls.put(lambda: self._flushes.append((time.monotonic() + timeout_s, done)))
        return done

    def add_adapter(self, adapter: Adapter) -> Future[None]:
        """Raises KeyError when the name is taken."""
        return self._call(lambda: self._add_adapter(adapter))

    def remove_adapter(self, name: str) -> Future[None]:
        """Refuse the name from now on; done when its last request has ended. Raises KeyError for an unknown name."""
        done: Future[None] = _promise()
        self._calls.put(lambda: self._remove_adapter(name, done))
        return done

    def adapters(self) -> dict[str, str]:
        return {name: adapter.path for name, adapter in list(self._adapters.items())}

    def update(self, state: dict[str, Tensor], folder: str, version: str | None, *, abort: bool) -> Future[int]:
        """Put new weights in place: at once when paused, else when what runs has ended. Gives how many are paused."""
        done: Future[int] = _promise()

        def queue_up() -> None:
            if abort:
                self._abort(None)
            self._updates.append(_Update(state, folder, version, done))

        self._calls.put(queue_up)
        return done

    @property
    def weight_version(self) -> str:
        """The version of the weights that answer, as replies are stamped."""
        return self._stepper.weight_version

    @property
    def is_paused(self) -> bool:
        return self._paused is not None

    def counts(self) -> dict[str, float]:
        """How many run, wait and are paused, and how full the memory is; read without waiting for the thread."""
        scheduler, used = self._scheduler, self._scheduler.used
        return {
            "num_running_reqs": 0 if self._paused else len(scheduler.running),
            "num_queue_reqs": len(scheduler.waiting),
            "num_paused_reqs": len(scheduler.sequences) if self._paused else 0,
            "token_usage": used / self.max_tokens,
            "num_used_tokens": used,
            "max_total_num_tokens": self.max_tokens,
            "lora_adapters_loaded": len(self._adapters),
            "prefix_cache_sequences": len(scheduler.cache),
        }

    def holdings(self) -> dict[str, float]:
        """Bytes of what lies in memory; read without waiting for the thread."""
        scheduler, size = self._scheduler, self._model.bytes_per_token
        adapters = {id(one): one for one in list(self._adapters.values())}
        return {
            "memory_weights_bytes": self._model.bytes,
            "memory_kv_running_bytes": scheduler.used_by_sequences * size,
            "memory_kv_kept_bytes": scheduler.cache.tokens * size,
            "memory_adapters_bytes": sum(adapter.bytes for adapter in adapters.values()),
            "memory_resident_bytes": memory.resident_bytes(),
        }

    def _call(self, work: Callable[[], T]) -> Future[T]:
        done: Future[T] = _promise()

        def run() -> None:
            try:
                done.set_result(work())
            except Exception as error:
                done.set_exception(error)

        self._calls.put(run)
        return done

    # On the model's thread

    def _run(self) -> None:
        try:
            while True:
                idle = not self._can_step()
                call = self._next_call(wait=idle)
                while call is not _NONE:
                    if call is None:
                        self._abort(None)
                        return
                    call()
                    call = self._next_call(wait=False)
                self._settle()
                if self._can_step():
                    if self._stepper.step():
                        self._is_trimmed = False
                    self._settle()  # before the next wait: a request may be waiting for what has just ended
        except Exception as error:
            self.failed = error
            log.exception("the model's thread has failed")
            for sequence in self._scheduler.sequences:
                self._stepper.end(sequence, {"type": "abort", "message": "The engine has failed.", "status_code": 500})
            self.on_failure()

    def _next_call(self, wait: bool) -> Any:
        deadlines = [deadline for deadline, _ in self._flushes]
        timeout_s = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        if wait and timeout_s is None and not self._is_trimmed:
            try:
                return self._calls.get(timeout=IDLE_S)
            except queue.Empty:
                memory.trim()
                self._is_trimmed = True
        try:
            return self._calls.get(block=wait, timeout=timeout_s)
        except queue.Empty:
            return _NONE

    def _can_step(self) -> bool:
        if self._paused:
            return False
        scheduler = self._scheduler
        return bool(scheduler.running) or (bool(scheduler.waiting) and (not self._updates or scheduler.is_answering))

    def _settle(self) -> None:
        """Do what waits for sequences to end, and let the next ones in."""
        if self._updates and (self._paused or not self._scheduler.is_answering):
            for update in self._updates:
                self._apply(update)
            self._updates.clear()
        still = []
        for adapter, done in self._unloads:
            if any(sequence.adapter is adapter for sequence in self._scheduler.sequences):
                still.append((adapter, done))
            else:
                self._scheduler.forget(adapter.instance)
                done.set_result(None)
        self._unloads = still
        waiting = []
        for deadline, flushed in self._flushes:
            if not self._scheduler.sequences:
                self._scheduler.cache.forget()
                flushed.set_result(True)
            elif time.monotonic() >= deadline:
                flushed.set_result(False)
            else:
                waiting.append((deadline, flushed))
        self._flushes = waiting
        if not self._paused:
            self._scheduler.admit(only_begun=bool(self._updates))

    def _apply(self, update: _Update) -> None:
        try:
            self._model.set_weights(update.state, update.folder)
        except Exception as error:
            update.done.set_exception(error)
            return
        self._scheduler.renew()
        if update.version is not None:
            self._stepper.weight_version = update.version
        update.done.set_result(len(self._scheduler.sequences))

    def _is_unloading(self, adapter: Adapter | None) -> bool:
        return adapter is not None and self._adapters.get(adapter.name) is not adapter

    # Calls from outside

    def _abort(self, sequences: abc.Sequence[Sequence] | None) -> None:
        everything = self._scheduler.sequences
        for sequence in everything if sequences is None else [s for s in sequences if s in everything]:
            self._stepper.end(
                sequence,
                {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None},
            )

    def _pause(self, mode: Literal["abort", "retract", "in_place"]) -> None:
        self._paused = mode
        if mode == "abort":
            self._abort(None)
        elif mode == "retract":
            self.metrics.retracted += self._scheduler.step_back()

    def _resume(self) -> None:
        self._paused = None

    def _add_adapter(self, adapter: Adapter) -> None:
        if adapter.name in self._adapters:
            raise KeyError(adapter.name)
        self._adapters[adapter.name] = adapter
        self._bound_kept()

    def _remove_adapter(self, name: str, done: Future[None]) -> None:
        adapter = self._adapters.pop(name, None)
        if adapter is None:
            done.set_exception(KeyError(name))
        else:
            self._unloads.append((adapter, done))
            self._bound_kept()

    def _bound_kept(self) -> None:
        """Leave to kept sequences what adapters leave of the memory."""
        if self._kept_bytes is not None:
            left = self._kept_bytes - sum(adapter.bytes for adapter in self._adapters.values())
            self._scheduler.keep_at_most(max(0, left) // self._model.bytes_per_token)

    def _decoder(self, skip_special: bool, spaces: bool) -> Decode:
        return lambda ids: self._decode(ids, skip_special, spaces)


_NONE = object()


def _promise() -> Future[Any]:
    """A future that its reader cannot cancel: one who leaves must not upset the thread that keeps it."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future
