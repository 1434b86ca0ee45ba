"""A body that would end the engine is refused before it reaches it."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_workers.embedded.generate_requests import Limits, UnknownParameter, read_body
from gpu_workers.engine.native_wire import request
from gpu_workers.types import Sampling

LIMITS = Limits(vocabulary=10, context_length=1000, max_tokens=1000)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"top_logprobs_num": -1, "return_logprob": True}, "top_logprobs_num"),
        ({"top_logprobs_num": 11, "return_logprob": True}, "top_logprobs_num"),
        ({"top_logprobs_num": "2", "return_logprob": True}, "top_logprobs_num"),
        ({"token_ids_logprob": [1.5], "return_logprob": True}, "token_ids_logprob"),
        ({"sampling_params": {"json_schema": {"type": "object"}, "max_new_tokens": 4}}, "json_schema must be"),
        ({"sampling_params": {"json_schema": "{}", "regex": "a", "max_new_tokens": 4}}, "Only one of"),
        ({"image_data": ["data:image/png;base64,AA=="]}, "image_data is not served"),
        ({"sampling_params": {"ebnf": "a", "max_new_tokens": 4}}, "ebnf is not served"),
        ({"sampling_params": {"stop": [1], "max_new_tokens": 4}}, "stop must be"),
        ({"sampling_params": {"stop": 1, "max_new_tokens": 4}}, "stop must be"),
        ({"sampling_params": {"stream_interval": 0, "max_new_tokens": 4}}, "stream_interval must be"),
        ({"sampling_params": {"stream_interval": True, "max_new_tokens": 4}}, "stream_interval must be"),
        ({"sampling_params": {"stop_token_ids": [10], "max_new_tokens": 4}}, "stop_token_ids must lie"),
        ({"sampling_params": {"stop_token_ids": [-1], "max_new_tokens": 4}}, "stop_token_ids must lie"),
        ({"sampling_params": {"stop_token_ids": ["x"], "max_new_tokens": 4}}, "stop_token_ids must be"),
    ],
)
def test_what_the_engine_could_not_bear_is_refused(body: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, UnknownParameter), match=said):
        read_body({"input_ids": [1, 2]} | body, LIMITS, lambda text: [])


def test_the_same_within_bounds_is_taken() -> None:
    params = {"stop": ["a", ""], "stop_token_ids": [9], "max_new_tokens": 4}
    body = read_body(
        {"input_ids": [1], "top_logprobs_num": 10, "return_logprob": True, "sampling_params": params},
        LIMITS,
        lambda text: [],
    )
    (ask,) = body.asks
    assert (ask.top_logprobs, ask.params.stop, ask.params.stop_token_ids) == (10, ("a",), frozenset({9}))


@pytest.mark.parametrize(
    ("stream", "params", "interval"),
    [
        (True, {}, 16),  # the server's
        (True, {"stream_interval": 4}, 4),
        (False, {}, 0),  # no reader sees it before the end
        (False, {"stream_interval": 4}, 0),
    ],
)
def test_a_stream_names_its_own_interval_and_what_is_no_stream_has_none(
    stream: bool, params: dict[str, Any], interval: int
) -> None:
    asked = {"input_ids": [1], "stream": stream, "sampling_params": params | {"max_new_tokens": 4}}
    assert read_body(asked, LIMITS, lambda text: [], interval=16).asks[0].interval == interval


def test_a_top_p_of_nothing_is_asked_for_in_a_way_that_an_engine_takes() -> None:
    """SGLang's own range begins above 0."""
    sent = request([1], Sampling(top_p=0, max_new_tokens=4), None, "id", 0)
    (ask,) = read_body(sent, LIMITS, lambda text: []).asks
    assert 0 < ask.params.top_p <= 1e-6
