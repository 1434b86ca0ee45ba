"""The wire format is SGLang's native HTTP interface: it writes requests and reads answers and refusals. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import orjson

from gpu_workers.engine.stamps import weights_in
from gpu_workers.errors import AdapterMissing, EngineGarbled, EngineRefused, EngineUnavailable, KeyRefused, NoRoom
from gpu_workers.types import Sampling, Top


def request(
    ids: Sequence[int],
    sampling: Sampling,
    adapter: str | None,
    request_id: str,
    priority: int,
    pictures: Sequence[str] = (),
) -> dict[str, Any]:
    """Write the body that /generate is sent. SGLang puts the tokens of `pictures`, which are data: URLs, in place of
    the placeholders among the ids, in their order."""
    params: dict[str, Any] = {
        "max_new_tokens": sampling.max_new_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.nucleus,
        "top_k": sampling.top_k,
        "frequency_penalty": sampling.frequency_penalty,
        "presence_penalty": sampling.presence_penalty,
        "repetition_penalty": sampling.repetition_penalty,
        "ignore_eos": sampling.ignore_eos,
    }
    if sampling.stop:
        params["stop"] = list(sampling.stop)
    if sampling.stop_token_ids:
        params["stop_token_ids"] = list(sampling.stop_token_ids)
    if sampling.seed is not None:
        params["sampling_seed"] = sampling.seed
    if not sampling.skip_special_tokens:
        params["skip_special_tokens"] = False
    if sampling.json_schema:
        params["json_schema"] = sampling.json_schema
    if sampling.regex:
        params["regex"] = sampling.regex
    body: dict[str, Any] = {
        "input_ids": list(ids),
        "sampling_params": params,
        "return_logprob": True,
        "rid": request_id,
    }
    if sampling.top_logprobs:
        body["top_logprobs_num"] = sampling.top_logprobs
    if adapter and not weights_in(adapter):
        body["lora_path"] = adapter
    if pictures:
        body["image_data"] = list(pictures)
    if priority:
        body["priority"] = priority  # larger is sooner; SGLang ignores it unless launched to heed it
    return body


class Cut:
    """Cut growing text: give out what can no longer become a part of a stop string."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = stop
        self._text = ""
        self._given = 0

    def whole(self, text: str) -> str:
        """All text so far; at a stop the server takes the stop string away, so it may become shorter."""
        self._text = text
        begun = max(
            (n for s in self._stop for n in range(1, len(s) + 1) if text.endswith(s[:n])),
            default=0,
        )
        return self._give(len(text) - begun)

    def more(self, text: str) -> str:
        """What came since."""
        return self.whole(self._text + text)

    def rest(self) -> str:
        """What was held back, once nothing more comes."""
        return self._give(len(self._text))

    def _give(self, end: int) -> str:
        start, self._given = self._given, max(self._given, end)
        return self._text[start : self._given]


def events(lines: Iterable[bytes]) -> tuple[list[dict[str, Any]], Exception | Literal["done"] | None]:
    """Read the events in these lines, and what ended them: [DONE], or an error among them."""
    found: list[dict[str, Any]] = []
    for line in lines:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            return found, "done"
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            return found, EngineGarbled(f"The engine's stream is not JSON: {data[:200].decode(errors='replace')}")
        if not isinstance(event, dict):
            return found, EngineGarbled("The engine's stream holds an event that is no object.")
        if "error" in event:
            error = event["error"]
            code = error.get("code") if isinstance(error, dict) else None
            return found, _failure(code if isinstance(code, int) else 400, _message(event))
        found.append(event)
    return found, None


def content_of(status: int, content: bytes) -> Any:
    """Read an answer; None where it is no JSON. Raises what a status other than 200 stands for, and EngineGarbled
    for a page."""
    if status != 200:
        raise refusal(status, content)
    if is_page(content):
        raise no_engine()
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None  # some admin routes answer with a line of text, or with nothing


def is_page(content: bytes) -> bool:
    """Tell whether this is HTML, which no engine sends.

    >>> is_page(b" <!doctype html>"), is_page(b'{"text": "<p>"}')
    (True, False)
    """
    return content.lstrip()[:1] == b"<"


def no_engine() -> EngineGarbled:
    return EngineGarbled("What answers in the engine's place is no engine: it sent a page. ENGINE_URL must name one.")


@contextmanager
def understood() -> Iterator[None]:
    """Read an answer in here: where it is not as the interface has it, EngineGarbled is raised."""
    try:
        yield
    except NOT_UNDERSTOOD as error:
        raise garbled(error) from error


NOT_UNDERSTOOD = (KeyError, TypeError, ValueError, IndexError, AttributeError)
"""How reading an answer fails that has another shape."""


def garbled(error: Exception) -> EngineGarbled:
    return EngineGarbled(f"The engine's answer cannot be read ({type(error).__name__}: {error}).")


def refusal(status: int, content: bytes) -> EngineRefused | EngineUnavailable:
    """Return the error that a status other than 200 stands for, with the server's own sentence."""
    if status < 500 and is_page(content):
        return no_engine()
    try:
        message = _message(orjson.loads(content))
    except orjson.JSONDecodeError:
        message = content.decode(errors="replace").strip()
    return _failure(status, message)


def _message(content: Any) -> str:
    """The sentence in any of SGLang's error shapes.

    >>> _message({"error": {"message": "too long"}}), _message({"error": "unknown field"}), _message({"message": "no"})
    ('too long', 'unknown field', 'no')
    """
    if not isinstance(content, dict):
        return str(content)
    error = content.get("error")
    if isinstance(error, dict):
        return str(error.get("message", error))
    for sentence in (error, content.get("message"), content.get("error_message")):
        if sentence:
            return str(sentence)
    return str(content)


_NOT_LOADED = re.compile(r"LoRA adapter.*(not loaded|never been loaded)", re.IGNORECASE)
_NO_ROOM = re.compile(r"adapters are loaded, and no more fit|LoRA adapters when trying to evict", re.IGNORECASE)


def _failure(status: int, message: str) -> EngineRefused | EngineUnavailable:
    if status >= 500 or status in (408, 429):
        return EngineUnavailable(f"The engine failed ({status}): {message}")
    if status in (401, 403):
        return KeyRefused("The engine refuses this key: check ENGINE_API_KEY and ENGINE_ADMIN_KEY.")
    if _NO_ROOM.search(message):
        return NoRoom(message)
    if _NOT_LOADED.search(message):
        return AdapterMissing(message)
    return EngineRefused(message or f"The engine answered {status}.")


def finish_reason(meta: Mapping[str, Any]) -> str | None:
    """Read stop, length, abort or None; an abort that carries a status is the server's own failure and raises."""
    reason = meta.get("finish_reason")
    if reason is None:
        return None
    if reason["type"] == "abort" and reason.get("status_code"):
        raise _failure(int(reason["status_code"]), str(reason.get("message", "")))
    return str(reason["type"])


def logprobs_of(entries: Sequence[Sequence[Any]]) -> tuple[float, ...]:
    """Read the first of each [log-prob, id, text]."""
    return tuple(float(entry[0]) for entry in entries)


def likeliest(rows: Sequence[Any], count: int) -> Top:
    """Read the likeliest tokens beside each of so many; a token that could not come has no log-prob and is left out."""
    if rows and len(rows) != count:
        raise EngineGarbled(f"The engine returned {len(rows)} lists of likely tokens for {count} tokens.")
    return tuple(tuple((int(id), float(logprob)) for logprob, id, *_ in row if logprob is not None) for row in rows)


def chosen_of(rows: Sequence[Any], ids: Sequence[int]) -> tuple[float, ...]:
    """Read the log-probs of the ids that were named, at one place, in their order.

    >>> chosen_of([[[-0.5, 7, None], [-2.0, 9, None]]], [9, 7])
    (-2.0, -0.5)
    """
    found = {int(id): logprob for logprob, id, *_ in (rows[0] or ())} if len(rows) == 1 else {}
    if any(found.get(id) is None for id in ids):
        raise EngineGarbled(f"The engine does not say how likely each of {len(ids)} tokens is.")
    return tuple(float(found[id]) for id in ids)


def agree(ids: Sequence[int], logprobs: Sequence[float]) -> None:
    """Check the lengths. Raises EngineGarbled unless there is a log-prob for each id."""
    if len(ids) != len(logprobs):
        raise EngineGarbled(f"The engine returned {len(logprobs)} log-probs for {len(ids)} tokens.")


def nameless(entries: Sequence[Sequence[Any]], ids: Sequence[int]) -> set[int]:
    """List the ids that these log-probs call 0. Raises EngineGarbled where they are of other tokens.

    >>> nameless([[-1.5, 8, None], [-2.0, 0, None]], [8, 511])
    {511}
    """
    pairs = list(zip((entry[1] for entry in entries), ids, strict=False))
    if len(entries) != len(ids) or any(said not in (id, 0) for said, id in pairs):
        raise _other_tokens(ids)
    return {id for said, id in pairs if said != id}


def confirm(entries: Sequence[Sequence[Any]], named: Sequence[Any], ids: Sequence[int]) -> None:
    """Check log-probs asked again. Raises EngineGarbled unless what is called 0 is, by its own name, as likely as it
    says."""
    nameless(entries, ids)
    if len(named) != len(ids):
        raise _other_tokens(ids)
    for (logprob, said, *_), others, id in zip(entries, named, ids, strict=True):
        if said != id and not any(one == id and math.isclose(p, logprob, abs_tol=1e-4) for p, one, *_ in others or ()):
            raise _other_tokens(ids)


def _other_tokens(ids: Sequence[int]) -> EngineGarbled:
    return EngineGarbled(f"The engine scored other tokens than the {len(ids)} it was given.")


def samples(text: str) -> dict[str, float]:
    """Read Prometheus text to name and value, summed over labels.

    >>> samples('# HELP x\\nsglang:num_running_reqs{model="m"} 2.0\\n')
    {'num_running_reqs': 2.0}
    """
    sums: dict[str, float] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            name = name.partition("{")[0].removeprefix("sglang:")
            sums[name] = sums.get(name, 0.0) + float(value)
    return sums
