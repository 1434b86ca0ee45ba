"""Requests are /generate bodies, read and checked with SGLang's names, defaults and sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any
from uuid import uuid4

from gpu_workers.embedded.sampling import Params

KNOWN_PARAMS = frozenset(field.name for field in fields(Params)) | {"n", "stream_interval", "custom_params"}
GRAMMARS = ("json_schema", "regex")
UNSERVED = ("ebnf", "structural_tag", "choice", "stop_regex", "beam_width")


class Malformed(ValueError):
    """The body is not of the right shape; answered as SGLang does, in OpenAI's error object."""


class UnknownParameter(ValueError):
    """sampling_params breaks its contract; answered as SGLang does, with a plain string under `error`."""


@dataclass(frozen=True)
class Limits:
    """The limits of what the server can take."""

    vocabulary: int
    context_length: int
    max_tokens: int  # room for keys and values of one sequence


@dataclass(frozen=True)
class Ask:
    """One sequence that a request asks to generate or score."""

    rid: str
    ids: tuple[int, ...]
    params: Params
    adapter: str | None = None
    return_logprob: bool = False
    logprob_start: int = -1  # -1: no log-probs of the prompt
    top_logprobs: int = 0
    token_ids_logprob: tuple[int, ...] = ()
    text_in_logprobs: bool = False
    priority: int = 0
    interval: int = 1  # tokens from one word of it to the next; 0: nothing is said before the end


@dataclass(frozen=True)
class Body:
    """All of a request: `asks` has one entry unless the request was a list or asked for n > 1."""

    asks: tuple[Ask, ...]
    is_list: bool
    stream: bool


def read_body(body: Any, limits: Limits, encode: Callable[[str], Sequence[int]], *, interval: int = 1) -> Body:
    """Check a parsed JSON body; `interval` is that of streams that name none. Raises Malformed, or ValueError with a
    sentence for the client."""
    if not isinstance(body, dict):
        raise Malformed("the body must be a JSON object")
    text, input_ids = body.get("text"), body.get("input_ids")
    if input_ids is None and text is None:
        raise ValueError("Either text, input_ids or input_embeds should be provided.")
    if body.get("image_data"):
        raise ValueError("image_data is not served here: this engine reads text only.")
    prompts, is_list = _prompts(text, input_ids, encode)
    count = len(prompts)
    if count == 0:
        raise ValueError("The batch is empty.")

    def each(name: str, default: Any) -> list[Any]:
        """One value a prompt: a list gives each its own, anything else is for all."""
        value = default if body.get(name) is None else body[name]
        nested = bool(value) and any(isinstance(entry, list) for entry in value) if isinstance(value, list) else False
        if isinstance(value, list) and (nested or not isinstance(default, list)):
            if len(value) != count:
                raise ValueError(f"{name} has {len(value)} entries for {count} prompts.")
            return [default if entry is None else entry for entry in value]
        return [value] * count

    params = [_params(entry) for entry in each("sampling_params", {})]
    rids = body.get("rid")
    if rids is None:
        names = [uuid4().hex for _ in prompts]
    elif isinstance(rids, list):
        names = [str(rid) for rid in rids]
        if len(names) != count:
            raise ValueError(f"rid has {len(names)} entries for {count} prompts.")
    else:
        names = [str(rids)] if not is_list else [f"{rids}_{n}" for n in range(count)]
    if len(set(names)) != len(names):
        raise ValueError("Duplicate request IDs detected within the request.")
    adapters = each("lora_path", None)
    wants, starts = each("return_logprob", False), each("logprob_start_len", -1)
    tops, listed = each("top_logprobs_num", 0), each("token_ids_logprob", [])
    priorities = each("priority", 0)

    asks, stream = [], bool(body.get("stream", False))
    for n, ids in enumerate(prompts):
        param, copies, own = params[n]
        _check(ids, param, limits)
        start = int(starts[n]) if wants[n] else -1
        if start >= len(ids):
            raise ValueError(f"logprob_start_len={start} is higher than the number of input tokens {len(ids)}.")
        if type(tops[n]) is not int or not 0 <= tops[n] <= limits.vocabulary:
            raise ValueError(f"top_logprobs_num must be a whole number in [0, {limits.vocabulary}], got {tops[n]}.")
        if any(type(token) is not int or not 0 <= token < limits.vocabulary for token in listed[n]):
            raise ValueError(f"token_ids_logprob must lie in [0, {limits.vocabulary - 1}].")
        for copy in range(copies):
            seed = param.sampling_seed
            asks.append(
                Ask(
                    rid=names[n] if copies == 1 else f"{names[n]}_{copy}",
                    ids=ids,
                    params=param if seed is None or copy == 0 else replace(param, sampling_seed=seed + copy),
                    adapter=adapters[n] or None,
                    return_logprob=bool(wants[n]),
                    logprob_start=start,
                    top_logprobs=tops[n] if wants[n] else 0,
                    token_ids_logprob=tuple(listed[n]) if wants[n] else (),
                    text_in_logprobs=bool(body.get("return_text_in_logprobs", False)),
                    priority=int(priorities[n]),
                    interval=(own or interval) if stream else 0,
                )
            )
    return Body(tuple(asks), is_list or len(asks) > 1, stream)


def _prompts(text: Any, input_ids: Any, encode: Callable[[str], Sequence[int]]) -> tuple[list[tuple[int, ...]], bool]:
    if input_ids is None:
        if isinstance(text, str):
            return [tuple(encode(text))], False
        if isinstance(text, list) and all(isinstance(one, str) for one in text):
            return [tuple(encode(one)) for one in text], True
        raise Malformed("text must be a string or a list of strings")
    if not isinstance(input_ids, list):
        raise Malformed("input_ids must be a list of token ids, or a list of such lists")
    if input_ids and isinstance(input_ids[0], list):
        return [_ids(one) for one in input_ids], True
    return [_ids(input_ids)], False


def _ids(ids: Any) -> tuple[int, ...]:
    if not isinstance(ids, list) or any(type(token) is not int for token in ids):
        raise Malformed("input_ids must hold whole numbers")
    return tuple(ids)


def _params(given: Any) -> tuple[Params, int, int | None]:
    """The checked parameters, how many replies are wanted, and the stream's own interval."""
    if not isinstance(given, dict):
        raise UnknownParameter("invalid type: sampling_params must be an object")
    for name in UNSERVED:
        if given.get(name):
            raise ValueError(f"{name} is not served by the embedded engine.")
    allowed = KNOWN_PARAMS | set(UNSERVED)
    if unknown := sorted(given.keys() - allowed):
        raise UnknownParameter(f"unknown field `{unknown[0]}`, expected one of {', '.join(sorted(allowed))}")
    values = {name: value for name, value in given.items() if value is not None and name in KNOWN_PARAMS}
    interval = values.pop("stream_interval", None)
    if interval is not None and (type(interval) is not int or interval < 1):
        raise ValueError(f"stream_interval must be a whole number of at least 1, got {interval}.")
    values.pop("custom_params", None)
    copies = values.pop("n", 1)
    if type(copies) is not int or not 1 <= copies <= 64:
        raise ValueError(f"n must be in [1, 64], got {copies}.")
    stop = values.pop("stop", ())
    stops = [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list | tuple) or any(not isinstance(one, str) for one in stops):
        raise UnknownParameter("invalid type: stop must be a string or a list of strings")
    values["stop"] = tuple(one for one in stops if one)
    stop_ids = values.get("stop_token_ids", [])
    if not isinstance(stop_ids, list) or any(type(token) is not int for token in stop_ids):
        raise UnknownParameter("invalid type: stop_token_ids must be a list of whole numbers")
    values["stop_token_ids"] = frozenset(stop_ids)
    values["logit_bias"] = {int(token): float(bias) for token, bias in values.get("logit_bias", {}).items()}
    for name in ("max_new_tokens", "min_new_tokens", "top_k", "sampling_seed"):
        if name in values and type(values[name]) is not int:
            raise UnknownParameter(f"invalid type: {name} must be a whole number")
    for name in GRAMMARS:
        if name in values and not isinstance(values[name], str):
            raise UnknownParameter(f"invalid type: {name} must be a string")
    for name in ("temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty"):
        if name in values and (isinstance(values[name], bool) or not isinstance(values[name], int | float)):
            raise UnknownParameter(f"invalid type: {name} must be a number")
    params = Params(**values)
    _verify(params)
    return params, copies, interval


def _verify(params: Params) -> None:
    if params.json_schema and params.regex:
        raise ValueError("Only one of json_schema and regex can be set.")
    if not math.isfinite(params.temperature) or params.temperature < 0:
        raise ValueError(f"temperature must be a non-negative finite number, got {params.temperature}.")
    if not 0 < params.top_p <= 1:
        raise ValueError(f"top_p must be in (0, 1], got {params.top_p}.")
    if not 0 <= params.min_p <= 1:
        raise ValueError(f"min_p must be in [0, 1], got {params.min_p}.")
    if params.top_k < 1 and params.top_k != -1:
        raise ValueError(f"top_k must be -1 (disable) or at least 1, got {params.top_k}.")
    for name in ("frequency_penalty", "presence_penalty"):
        if not -2 <= getattr(params, name) <= 2:
            raise ValueError(f"{name} must be in [-2, 2], got {getattr(params, name)}.")
    if not 0 < params.repetition_penalty <= 2:
        raise ValueError(f"repetition_penalty must be in (0, 2] (1.0 = no penalty), got {params.repetition_penalty}.")
    if params.max_new_tokens < 0:
        raise ValueError(f"max_new_tokens must be at least 0, got {params.max_new_tokens}.")
    if not 0 <= params.min_new_tokens <= params.max_new_tokens:
        raise ValueError(
            f"min_new_tokens must be in [0, max_new_tokens({params.max_new_tokens})], got {params.min_new_tokens}."
        )


def _check(ids: Sequence[int], params: Params, limits: Limits) -> None:
    if not ids:
        raise ValueError("input_ids cannot be empty.")
    if any(not 0 <= token < limits.vocabulary for token in ids):
        raise ValueError(f"input_ids must lie in [0, {limits.vocabulary - 1}].")
    if any(not 0 <= token < limits.vocabulary for token in params.stop_token_ids):
        raise ValueError(f"stop_token_ids must lie in [0, {limits.vocabulary - 1}].")
    if any(not 0 <= token < limits.vocabulary for token in params.logit_bias):
        raise ValueError(f"logit_bias must has keys in [0, {limits.vocabulary - 1}].")
    if (len(ids) >= limits.context_length and params.max_new_tokens > 0) or len(ids) > limits.context_length:
        raise ValueError(
            f"The input ({len(ids)} tokens) is longer than the model's context length ({limits.context_length} tokens)."
        )
    total = len(ids) + params.max_new_tokens
    if total > limits.context_length:
        raise ValueError(
            f"Requested token count exceeds the model's maximum context length of {limits.context_length} tokens. "
            f"You requested a total of {total} tokens: {len(ids)} tokens from the input messages and "
            f"{params.max_new_tokens} tokens for the completion. Please reduce the number of tokens in the input "
            f"messages or the completion to fit within the limit."
        )
    if total > limits.max_tokens:
        raise ValueError(
            f"{total} tokens do not fit into the engine's memory for {limits.max_tokens}: ask for less, or start it "
            f"with a larger --max-total-tokens."
        )
