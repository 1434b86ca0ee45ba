"""Send one reply, token by token, at the engine's speed."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, Protocol
from uuid import uuid4

from benchmarks.scripted.engine import Engine
from benchmarks.scripted.logprobs import adapter_shift, logprob


class Reader(Protocol):
    """The connection that asked: it takes a whole answer, or a stream of events."""

    is_full: bool

    def whole(self, status: int, content: str) -> None: ...

    def begin_stream(self) -> None: ...

    def stream(self, event: str, last: bool = False) -> None: ...


class Generation:
    """One reply under way, on the connection that asked for it."""

    def __init__(self, engine: Engine, connection: Reader, body: dict[str, Any]) -> None:
        self.engine, self.connection, self.body = engine, connection, body
        self.ids: list[int] = body["input_ids"]
        self.rid = str(body.get("rid") or uuid4().hex)
        self.streams = bool(body.get("stream"))
        self.reply, self.ends = engine.reply(self.ids, body.get("sampling_params") or {})
        self.adapter = body.get("lora_path") or None
        self.cached = engine.cached(self.ids, self.adapter)
        self.tops = int(body.get("top_logprobs_num") or 0)
        self.arrived = time.time()
        self.sent = 0
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + engine.first_s
        """When the next token is; for a whole reply, the first one and then the last."""
        self._waits = not self.streams
        self._timer: asyncio.TimerHandle | None = None
        engine.asked += 1
        engine.prompt_tokens += len(self.ids)
        engine.cached_tokens += self.cached
        engine.running[self.rid] = self
        engine.calls.append(
            {"at": self.arrived, **{k: v for k, v in body.items() if k != "input_ids"}, "ids": tuple(self.ids)}
        )
        # What the events of this reply have in common, written once.
        self._meta = (
            f'"meta_info":{{"id":{json.dumps(self.rid)},"prompt_tokens":{len(self.ids)},'
            f'"weight_version":{json.dumps(engine.version)},"num_retractions":0,"cached_tokens":{self.cached},'
            '"cached_tokens_details":null,"reasoning_tokens":0,"dp_rank":null,"finish_reason":'
        )
        self.version = engine.version  # it ends with the weights it began with, as on a server that drains
        self.shift = adapter_shift(self.adapter)

    def start(self) -> None:
        if self.streams:
            self.connection.begin_stream()
        if not self.engine.paused:
            self.go_on()

    def rest(self) -> None:
        """Say nothing until go_on()."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def go_on(self) -> None:
        self._due = max(self._due, self._loop.time())
        self._step()

    def flows(self) -> None:
        """The reader takes more again: what was sampled meanwhile goes out in one piece."""
        if self._timer is None and not self.engine.paused:
            self._step()

    def abort(self, lost: bool = False) -> None:
        """End with what there is. `lost`: no reader is left to hear it."""
        self.rest()
        self.engine.running.pop(self.rid, None)
        self.engine.aborted.append({"rid": self.rid, "at": time.time(), "tokens": self.sent})
        if not lost:
            finish = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
            if self.streams:
                self.connection.stream(self._event(self.sent, self.sent, finish), last=True)
            else:
                self.connection.whole(200, self._answer(self.sent, finish))

    def _step(self) -> None:
        """Send every token that is due. The clock is the schedule's: a late step sends several at once."""
        self._timer = None
        pace, total, now = self.engine.pace_s, len(self.reply.ids), self._loop.time()
        if now + 0.0005 < self._due:
            self._timer = self._loop.call_at(self._due, self._step)
            return
        if not self.streams:
            if self._waits:  # for the last token instead of the first
                self._waits, self._due = False, self._due + pace * max(0, total - 1)
                self._step()
            else:
                self._end()
            return
        if self.connection.is_full:
            return  # flows() comes back here
        upto = self.sent + 1 + (int((now - self._due) / pace) if pace else 0)
        if upto >= total:
            self._end()
            return
        self.connection.stream(self._event(self.sent, upto, None))
        self._due += pace * (upto - self.sent)
        self.sent = upto
        self._timer = self._loop.call_at(self._due, self._step)

    def _end(self) -> None:
        first, self.sent = self.sent, len(self.reply.ids)
        self.engine.running.pop(self.rid, None)
        self.engine.tokens += self.sent
        if not self.streams:
            if self.ends == "error":
                self.connection.whole(500, json.dumps({"error": {"message": "The script says so."}}))
            else:
                self.connection.whole(200, self._answer(self.sent, self.reply.finish))
        elif self.ends == "error":
            error = {"message": "The script says so.", "type": "server_error", "code": 500, "retryable": False}
            if self.sent > first:
                self.connection.stream(self._event(first, self.sent, None))
            self.connection.stream(json.dumps({"error": error}), last=True)
        else:
            self.connection.stream(self._event(first, self.sent, self.reply.finish), last=True)

    def _event(self, first: int, upto: int, finish: dict[str, Any] | None) -> str:
        ids = self.reply.ids[first:upto]
        text = "".join(self.reply.pieces[first:upto])
        logprobs = ",".join([f"[{logprob(one) + self.shift:.7g},{one},null]" for one in ids])
        more = ""
        if finish is not None:
            span = {"version": self.version, "start": 0, "end": upto}
            more = f',"weight_versions":[{json.dumps(span)}],"e2e_latency":{time.time() - self.arrived:.6f}'
        if self.tops:
            more += f',"output_top_logprobs":{json.dumps([self._top(one) for one in ids])}'
        return (
            f'{{"text":{json.dumps(text)},"output_ids":[{",".join(map(str, ids))}],{self._meta}'
            f'{json.dumps(finish) if finish else "null"},"completion_tokens":{upto},'
            f'"output_token_logprobs":[{logprobs}],"output_token_logprobs_length":{upto}{more}}}}}'
        )

    def _top(self, token: int) -> list[list[Any]]:
        """The sampled token and its neighbours, each a little less likely."""
        ids = [(token + n) % self.engine.vocabulary for n in range(self.tops)]
        return [[round(logprob(token) + self.shift - n, 7), one, None] for n, one in enumerate(ids)]

    def _answer(self, upto: int, finish: dict[str, Any]) -> str:
        answer = json.loads(self._event(0, upto, finish))
        answer["text"] = self.reply.text if upto == len(self.reply.ids) else answer["text"]
        return json.dumps(answer)
