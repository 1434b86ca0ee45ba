"""A scripted engine as a process: SGLang's native HTTP interface with no model behind it, at a steady speed.

    python -m gpu_workers.scripted --model DIR --port 30000 [--script FILE.jsonl] [--tokens-per-second 50]

For tests and yardsticks that need an engine whose words, speed and cost are known: the ids are those of DIR's own
tokenizer, the log-probs are made up, and two hundred streams at 50 tokens a second cost a fraction of a core. Output is
incremental, as with --incremental-streaming-output; answers and errors have the shapes of `gpu_workers.embedded`.

Each line of FILE is `{"to": REGEX, "says": TEXT, "times": N or null, "finish_reason": "stop"}`: `TEXT` answers the
next N prompts (null: all) in which REGEX is found (left out: any prompt). The first line that fits answers; where none
does, --otherwise is said. finish_reason may be stop, length, abort, or error: a server that fails after its last word.
`POST /script` adds such a line at the end, and `DELETE /script` forgets all of them.

`GET /calls` tells what was asked: {"asked": generate calls so far, "running": replies under way, "aborted": [{"rid",
"at", "tokens"}], "prompts": [decoded, the last of --keep, oldest first], "calls": [the same with their parameters]}.
Times are seconds since the epoch. Scoring is no generate call, and is counted as "scored".
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import json
import os
import re
import signal
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import uuid4

import httptools
from tokenizers import Tokenizer

from core.textfiles import read_lines
from gpu_workers.boxes import choice_logprobs
from gpu_workers.embedded.text import Text

OPEN = ("/health", "/ready", "/metrics", "/calls", "/script")  # answered without a key
ADMIN = frozenset(
    {
        *("/load_lora_adapter", "/unload_lora_adapter", "/update_weights_from_disk", "/pause_generation"),
        *("/continue_generation", "/flush_cache", "/abort_request"),
    }
)
PARAMS = frozenset(
    {
        *("max_new_tokens", "temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty"),
        *("repetition_penalty", "min_new_tokens", "n", "stop", "stop_token_ids", "stop_regex", "ignore_eos"),
        *("skip_special_tokens", "spaces_between_special_tokens", "no_stop_trim", "logit_bias", "json_schema"),
        *("regex", "ebnf", "structural_tag", "choice", "sampling_seed", "stream_interval", "beam_width"),
        "custom_params",
    }
)
REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 503: "Service Unavailable"}
BLOCK = 64
"""Prompts are remembered in blocks of so many tokens, by which `cached_tokens` is told."""
BLOCKS = 65536
"""How many blocks are remembered: four million tokens."""


class Refused(Exception):
    """What is asked cannot be served: 400."""


@dataclass
class Line:
    says: str
    to: re.Pattern[str] | None = None
    left: int | None = 1
    """Answers left; None: for ever."""
    finish_reason: str = "stop"

    @classmethod
    def read(cls, line: dict[str, Any]) -> Line:
        if unknown := line.keys() - {"to", "says", "times", "finish_reason"}:
            raise Refused(f"a line of the script knows no {sorted(unknown)[0]!r}")
        reason = line.get("finish_reason", "stop")
        if reason not in ("stop", "length", "abort", "error"):
            raise Refused(f"finish_reason cannot be {reason!r}")
        if not isinstance(line.get("says"), str):
            raise Refused("a line of the script lacks what it says")
        try:
            to = re.compile(line["to"], re.S) if line.get("to") else None
        except re.error as error:
            raise Refused(f"no regular expression: {error}") from error
        return cls(line["says"], to, line.get("times", 1), reason)


@dataclass(frozen=True)
class Reply:
    """One answer, token by token, ready to be sent."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    """The text that each token brings."""
    finish: dict[str, Any]
    text: str


class Replies:
    """What the script's words are in tokens."""

    def __init__(self, tokenizer: Tokenizer, end: int | None) -> None:
        self._tokenizer, self._end = tokenizer, end

    @lru_cache(maxsize=1024)  # noqa: B019  one of these lives as long as the process
    def reply(
        self, says: str, reason: str, most: int, stop: tuple[str, ...], ends: bool, skip: bool, keep: bool
    ) -> Reply:
        """`ends` false: the words are said over and over until `most` tokens, as with ignore_eos."""
        ids = list(self._tokenizer.encode(says, add_special_tokens=False).ids)
        if not ends and ids:
            ids = (ids * (most // len(ids) + 1))[:most]
        elif reason == "stop" and self._end is not None:
            ids.append(self._end)
        text = Text(lambda some: str(self._tokenizer.decode(list(some), skip_special_tokens=skip)), stop, keep)
        finish: dict[str, Any] = {"type": reason, "length": len(ids)} if reason == "length" else {"type": reason}
        if reason == "stop" and self._end is not None:
            finish["matched"] = self._end
        if reason in ("abort", "error"):
            finish = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
        pieces: list[str] = []
        given = 0
        for token in ids[:most]:
            matched = text.add(token)
            pieces.append(text.so_far[given:])
            given = max(given, len(text.so_far))
            if matched is not None:
                finish = {"type": "stop", "matched": matched}
                break
        else:
            text.finish()
            if len(ids) > most or not ends:
                finish = {"type": "length", "length": most}
            if pieces:
                pieces[-1] += text.so_far[given:]
        return Reply(tuple(ids[: len(pieces)]), tuple(pieces), finish, text.so_far)


class Engine:
    """What the connections share: the script, what is loaded, what was asked."""

    def __init__(self, options: argparse.Namespace) -> None:
        folder = Path(options.model)
        self.model = str(folder)
        self.tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        config = json.loads((folder / "config.json").read_text())
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
        self.lines = [Line.read(json.loads(line)) for line in lines if line.strip()]
        self.adapters: dict[str, str] = {}
        self.version = options.weight_version
        self.paused: str | None = None
        self.running: dict[str, Strand] = {}
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
        prompt: str | None = None
        for line in self.lines:
            if line.to is not None:
                prompt = self.decoded(ids) if prompt is None else prompt
                if not line.to.search(prompt):
                    continue
            if line.left is not None:
                line.left -= 1
                if line.left <= 0:
                    self.lines.remove(line)
            return line
        return Line(self.otherwise, None, None)

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

    def check(self, body: dict[str, Any]) -> None:
        """Raises Refused, in the words of the embedded engine."""
        ids, params = body.get("input_ids"), body.get("sampling_params") or {}
        if not isinstance(ids, list) or not ids or any(type(one) is not int for one in ids):
            raise Refused("input_ids must be a list of token ids.")
        if any(not 0 <= one < self.vocabulary for one in ids):
            raise Refused(f"input_ids must lie in [0, {self.vocabulary - 1}].")
        if not isinstance(params, dict) or (unknown := sorted(params.keys() - PARAMS)):
            raise Refused(f"unknown field `{unknown[0] if isinstance(params, dict) else params}`")
        if (params.get("n") or 1) != 1:
            raise Refused("The scripted engine gives one reply a request.")
        most = params.get("max_new_tokens", 128)
        if (len(ids) >= self.context_length and most > 0) or len(ids) > self.context_length:
            raise Refused(
                f"The input ({len(ids)} tokens) is longer than the model's context length "
                f"({self.context_length} tokens)."
            )
        if len(ids) + most > self.context_length:
            raise Refused(
                f"Requested token count exceeds the model's maximum context length of {self.context_length} tokens. "
                f"You requested a total of {len(ids) + most} tokens: {len(ids)} tokens from the input messages and "
                f"{most} tokens for the completion. Please reduce the number of tokens in the input messages or the "
                f"completion to fit within the limit."
            )
        if (adapter := body.get("lora_path")) and adapter not in self.adapters:
            raise Refused(
                f"The following requested LoRA adapters are not loaded: {adapter}\n"
                f"Loaded adapters: {list(self.adapters)}."
            )

    # Everything but /generate: a path, what it answers.

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        route = path.strip("/").replace("/", "_")
        handle = cast(Callable[[str, Any], tuple[int, Any]] | None, getattr(self, f"do_{route}", None))
        if handle is None:
            return 404, {"detail": "Not Found"}
        try:
            return handle(method, body if isinstance(body, dict) else {})
        except Refused as refused:
            return 400, {"error": {"message": str(refused)}}

    def do_v1_models(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        def card(name: str, root: str, parent: str | None, length: int | None) -> dict[str, Any]:
            return {
                "id": name,
                "object": "model",
                "created": int(time.time()),
                "owned_by": "sglang",
                "root": root,
                "parent": parent,
                "max_model_len": length,
            }

        cards = [card(self.model, self.model, None, self.context_length)]
        cards += [card(name, path, self.model, None) for name, path in self.adapters.items()]
        return 200, {"object": "list", "data": cards}

    def do_model_info(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        return 200, {
            "model_path": self.model,
            "served_model_name": self.model,
            "tokenizer_path": self.model,
            "is_generation": True,
            "weight_version": self.version,
        }

    def do_server_info(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        return 200, {
            "engine": "talkback-scripted",
            "model_path": self.model,
            "served_model_name": self.model,
            "weight_version": self.version,
            "context_length": self.context_length,
            "max_total_num_tokens": 1 << 22,
            "max_running_requests": 4096,
            "enable_lora": True,
            "enable_priority_scheduling": True,
            "internal_states": [{}],
        }

    def do_ready(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        return (503 if self.paused else 200), ""

    def do_health(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        return 200, ""

    def do_metrics(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        figures = {
            "num_running_reqs": len(self.running),
            "num_queue_reqs": 0,
            "prompt_tokens_total": self.prompt_tokens,
            "cached_tokens_total": self.cached_tokens,
            "generation_tokens_total": self.tokens,
            "num_requests_total": self.asked,
            "num_aborted_requests_total": len(self.aborted),
        }
        return 200, "".join(f"sglang:{name} {float(value)}\n" for name, value in figures.items())

    def do_load_lora_adapter(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        name, path = body.get("lora_name"), body.get("lora_path")
        if not name or not path:
            raise Refused("lora_name and lora_path are needed")
        if name in self.adapters:
            return self._loaded(f"Failed to load LoRA adapter {name} because it is already loaded")
        self.adapters[str(name)] = str(path)
        return self._loaded(None)

    def do_unload_lora_adapter(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        name = body.get("lora_name")
        if self.adapters.pop(str(name), None) is None:
            return self._loaded(f"LoRA with name {name} does not exist. Loaded LoRAs: {list(self.adapters)}")
        return self._loaded(None)

    def _loaded(self, problem: str | None) -> tuple[int, Any]:
        content = {"success": problem is None, "error_message": problem or "", "loaded_adapters": self.adapters}
        return (400 if problem else 200), content

    def do_update_weights_from_disk(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.version = str(body.get("weight_version") or self.version)
        return 200, {"success": True, "message": "Succeeded to update model weights.", "num_paused_requests": 0}

    def do_pause_generation(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.paused = body.get("mode", "abort")
        for strand in list(self.running.values()):
            strand.abort() if self.paused == "abort" else strand.rest()
        return 200, {"message": "Generation paused successfully.", "status": "ok"}

    def do_continue_generation(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.paused = None
        for strand in list(self.running.values()):
            strand.go_on()
        return 200, {"message": "Generation continued successfully.", "status": "ok"}

    def do_flush_cache(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        if self.running:
            return 400, "Flush cache failed.\n"
        self._blocks.clear()
        return 200, "Cache flushed.\n"

    def do_abort_request(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        for rid, strand in list(self.running.items()):
            if body.get("abort_all") or rid == body.get("rid"):
                strand.abort()
        return 200, ""

    def do_script(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        if method == "DELETE":
            self.lines.clear()
        elif method == "POST":
            self.lines.append(Line.read(body))
        return 200, {"lines": len(self.lines)}

    def do_calls(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        calls = [{name: value for name, value in call.items() if name != "ids"} for call in self.calls]
        prompts = [self.decoded(call["ids"]) for call in self.calls]
        return 200, {
            "asked": self.asked,
            "scored": self.scored,
            "running": len(self.running),
            "aborted": list(self.aborted),
            "prompts": prompts,
            "calls": calls,
        }


class Strand:
    """One reply under way, on the connection that asked for it."""

    def __init__(self, engine: Engine, connection: Connection, body: dict[str, Any]) -> None:
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


class Connection(asyncio.Protocol):
    """HTTP/1.1, one request after another."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.is_full = False
        """The reader does not take what is sent."""
        self._transport: asyncio.Transport
        self._parser = httptools.HttpRequestParser(self)
        self._strand: Strand | None = None
        self._clear()

    def _clear(self) -> None:
        self._target, self._authorization = b"", b""
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._strand is not None:
            strand, self._strand = self._strand, None
            strand.abort(lost=True)

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        if self._strand is not None:
            self._strand.flows()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"authorization":
            self._authorization = value

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        path = urlsplit(self._target.decode("latin-1")).path
        authorization, raw = self._authorization, b"".join(self._body)
        self._clear()
        if not self._allows(path, authorization):
            self.whole(401, json.dumps({"error": "Unauthorized"}))
            return
        try:
            body = json.loads(raw) if raw else {}
        except ValueError as error:
            self.whole(400, json.dumps({"object": "error", "message": f"the body is not JSON ({error})", "code": 400}))
            return
        if path == "/generate":
            self._generate(body)
            return
        status, content = self.engine.answer(self._parser.get_method().decode(), path, body)
        self.whole(status, content if isinstance(content, str) else json.dumps(content))

    def _allows(self, path: str, given: bytes) -> bool:
        if path.startswith(OPEN):
            return True
        engine = self.engine
        key = (engine.admin_key or engine.api_key) if path in ADMIN else engine.api_key
        return not key or hmac.compare_digest(given, b"Bearer " + key.encode())

    def _generate(self, body: Any) -> None:
        streams = isinstance(body, dict) and bool(body.get("stream"))
        try:
            if not isinstance(body, dict):
                raise Refused("the body must be a JSON object")
            if "input_ids" not in body and isinstance(body.get("text"), str):
                body["input_ids"] = self.engine.tokenizer.encode(body["text"]).ids
            self.engine.check(body)
            if (body.get("sampling_params") or {}).get("max_new_tokens") == 0:
                self.whole(200, json.dumps(scored(self.engine, body)))
                return
            strand = Strand(self.engine, self, body)
        except Refused as refused:
            if streams:
                error = {"message": str(refused), "type": "invalid_request_error", "code": 400, "retryable": False}
                self.begin_stream()
                self.stream(json.dumps({"error": error}), last=True)
            else:
                self.whole(400, json.dumps({"error": {"message": str(refused)}}))
            return
        self._strand = strand
        strand.start()

    def whole(self, status: int, content: str) -> None:
        """The whole response; the connection then waits for the next request."""
        self._strand = None
        data = content.encode()
        kind = "application/json" if content[:1] in ("{", "[") else "text/plain"
        head = f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}\r\ncontent-type: {kind}\r\n"
        self._transport.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)

    def begin_stream(self) -> None:
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
            b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
        )

    def stream(self, event: str, last: bool = False) -> None:
        data = f"data: {event}\n\n".encode()
        if last:
            self._strand = None
            data += b"data: [DONE]\n\n"
        self._transport.write(b"%x\r\n%b\r\n%b" % (len(data), data, b"0\r\n\r\n" if last else b""))


def logprob(token: int) -> float:
    """Made up, and always the same for a token."""
    return -(0.2 + (token % 11) / 10)


def adapter_shift(adapter: str | None) -> float:
    return 0.0 if adapter is None else -0.01 * (1 + sum(adapter.encode()) % 7)


def scored(engine: Engine, body: dict[str, Any]) -> dict[str, Any]:
    """Log-probs of the prompt's tokens from logprob_start_len on; the first is null, as it has none."""
    ids, start = body["input_ids"], int(body.get("logprob_start_len", -1))
    engine.scored += 1
    shift = adapter_shift(body.get("lora_path") or None)
    meta: dict[str, Any] = {
        "id": str(body.get("rid") or uuid4().hex),
        "finish_reason": {"type": "length", "length": 0},
        "prompt_tokens": len(ids),
        "completion_tokens": 0,
        "cached_tokens": engine.cached(ids, body.get("lora_path") or None),
        "weight_version": engine.version,
        "output_token_logprobs": [],
        "output_token_logprobs_length": 0,
        "input_token_logprobs": [],
    }
    if body.get("return_logprob") and start >= 0:
        entries: list[list[Any]] = [[round(logprob(one) + shift, 7), one, None] for one in ids[start:]]
        entries[0][0] = None
        meta["input_token_logprobs"] = entries
        if choices := body.get("token_ids_logprob"):  # of the last place only: what the script's box says there
            says = engine.answer_to(ids[:-1])
            found = choice_logprobs(says, [engine.decoded([one]) for one in choices])
            row = [[round(p, 7), one, None] for p, one in zip(found, choices, strict=True)]
            meta["input_token_ids_logprobs"] = [None, *([row] * (len(entries) - 1))]
    return {"text": "", "output_ids": [], "meta_info": meta}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gpu_workers.scripted", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", "--model-path", required=True, help="a model folder; its tokenizer and window count")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--script", help="a file of lines, see above")
    parser.add_argument("--otherwise", default="I see.", help="what is said to a prompt that no line fits")
    parser.add_argument("--tokens-per-second", type=float, default=50.0, help="for each stream; 0: as fast as it goes")
    parser.add_argument("--first-token-s", type=float, default=0.0, help="from a request's arrival to its first token")
    parser.add_argument("--context-length", type=int, default=0, help="0: as the model's config.json says")
    parser.add_argument("--weight-version", default="base")
    parser.add_argument("--keep", type=int, default=100, help="how many prompts GET /calls still knows")
    parser.add_argument("--api-key", default=os.environ.get("ENGINE_API_KEY", ""))
    parser.add_argument("--admin-api-key", default=os.environ.get("ENGINE_ADMIN_KEY", ""))
    return parser.parse_args(arguments)


async def serve(options: argparse.Namespace) -> None:
    """Answer until SIGTERM or SIGINT."""
    loop, engine, ended = asyncio.get_running_loop(), Engine(options), asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, ended.set)
    server = await loop.create_server(lambda: Connection(engine), options.host, options.port, backlog=2048)
    await ended.wait()
    server.close()


def main(arguments: Sequence[str]) -> int:
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve(parse(arguments)))
    else:
        uvloop.run(serve(parse(arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
