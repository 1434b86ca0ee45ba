"""Check what is asked of the scripted engine."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from benchmarks.scripted.engine import Engine
from benchmarks.scripted.errors import Refused

PARAMS = frozenset(
    {
        *("max_new_tokens", "temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty"),
        *("repetition_penalty", "min_new_tokens", "n", "stop", "stop_token_ids", "stop_regex", "ignore_eos"),
        *("skip_special_tokens", "spaces_between_special_tokens", "no_stop_trim", "logit_bias", "json_schema"),
        *("regex", "ebnf", "structural_tag", "choice", "sampling_seed", "stream_interval", "beam_width"),
        "custom_params",
    }
)


def check_pictures(engine: Engine, ids: list[int], pictures: Any) -> None:
    """As SGLang does: one picture for each placeholder, in order, and none for a model that sees none."""
    places = ids.count(engine.picture_id) if engine.picture_id is not None else 0
    if pictures is None and not places:
        return
    if engine.picture_id is None:
        raise Refused("This model takes no pictures.")
    given = pictures if isinstance(pictures, list) else []
    if places != len(given):
        raise Refused(f"prompt has {places} image placeholder token(s) but {len(given)} image(s) were provided")
    for n, url in enumerate(given):
        if not isinstance(url, str) or not url.startswith("data:image/"):
            raise Refused(f"Invalid image: {n}")
        b64decode(url.partition(";base64,")[2], validate=True)


def check(engine: Engine, body: dict[str, Any]) -> None:
    """Check a request to /generate. Raises Refused, in the words of the embedded engine."""
    ids, params = body.get("input_ids"), body.get("sampling_params") or {}
    if not isinstance(ids, list) or not ids or any(type(one) is not int for one in ids):
        raise Refused("input_ids must be a list of token ids.")
    if any(not 0 <= one < engine.vocabulary for one in ids):
        raise Refused(f"input_ids must lie in [0, {engine.vocabulary - 1}].")
    if not isinstance(params, dict) or (unknown := sorted(params.keys() - PARAMS)):
        raise Refused(f"unknown field `{unknown[0] if isinstance(params, dict) else params}`")
    if (params.get("n") or 1) != 1:
        raise Refused("The scripted engine gives one reply a request.")
    check_pictures(engine, ids, body.get("image_data"))
    most = params.get("max_new_tokens", 128)
    if (len(ids) >= engine.context_length and most > 0) or len(ids) > engine.context_length:
        raise Refused(
            f"The input ({len(ids)} tokens) is longer than the model's context length ({engine.context_length} tokens)."
        )
    if len(ids) + most > engine.context_length:
        raise Refused(
            f"Requested token count exceeds the model's maximum context length of {engine.context_length} tokens. "
            f"You requested a total of {len(ids) + most} tokens: {len(ids)} tokens from the input messages and "
            f"{most} tokens for the completion. Please reduce the number of tokens in the input messages or the "
            f"completion to fit within the limit."
        )
    if (adapter := body.get("lora_path")) and adapter not in engine.adapters:
        raise Refused(
            f"The following requested LoRA adapters are not loaded: {adapter}\n"
            f"Loaded adapters: {list(engine.adapters)}."
        )
