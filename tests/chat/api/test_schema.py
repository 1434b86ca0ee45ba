"""Whatever is sent, the API answers as its own schema says, and never breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any, get_args
from uuid import uuid4

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from pydantic import BaseModel, ValidationError
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from benchmarks.patience import crowd
from chat.api.messages import AnthropicRequest
from chat.api.request import ChatRequest
from chat.api.responses_request import ResponsesRequest
from chat.api_keys import ApiKey
from feedback.api import Saying
from webapp.api import api

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

drawn, laid_out = (schemathesis.openapi.from_dict(api.get_openapi_schema()) for _ in range(2))
drawn.config.phases.coverage.enabled = False  # a hundred cases of each operation: each value at its bounds, and beyond
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


SETTINGS = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@drawn.parametrize()
@SETTINGS
def test_every_answer_is_one_that_the_schema_foresees(case, site, key):
    call(case, site, key)


@pytest.mark.repeats
@laid_out.parametrize()
@SETTINGS
def test_every_answer_at_each_bound_is_one_that_the_schema_foresees(case, site, key):
    call(case, site, key)


def call(case: schemathesis.Case, site: str, key: ApiKey) -> None:
    ApiKey.objects.filter(pk=key.pk).update(scopes=["chat", "feedback", "episodes"])
    case.headers = {**(case.headers or {}), "Authorization": f"Bearer {key.secret}"}
    case.call_and_validate(base_url=site, checks=CHECKS, timeout=30 * crowd())


def test_no_two_shapes_go_by_one_name():
    """The schema knows a shape by its name alone, wherever it stands."""
    named: dict[str, type] = {}
    for model in shapes():
        assert named.setdefault(model.__name__, model) is model, model


def shapes() -> Iterator[type[BaseModel]]:
    """Every shape of every operation, and those inside."""
    waiting: list[Any] = [
        model
        for bound in api._get_bound_routers()
        for view in bound.path_operations.values()
        for operation in view.operations
        for model in (*operation.models, *operation.response_models.values())
    ]
    seen = set()
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in seen:
            seen.add(kind)
            waiting += [field.annotation for field in kind.model_fields.values()]
            if kind.__module__.partition(".")[0] in ("chat", "feedback", "episodes", "webapp"):
                yield kind


def test_the_page_shows_every_operation_and_loads_nothing_from_elsewhere(client):
    page = client.get("/v1/docs").content.decode()
    assert 'href="/v1/openapi.json"' in page
    assert not re.search(r'(src|href)="[^"/#]*//', page)
    assert "<script>" not in page
    main = page.split("<main", 1)[1].split("</main>")[0]
    assert "<script" not in main
    for path, methods in api.get_openapi_schema()["paths"].items():
        for method, operation in methods.items():
            assert f"<code>{method.upper()} {path}</code></p>" in main, path
            assert operation["summary"] in unescape(main)
    assert len(page.encode()) < 200_000
    linked, there = set(re.findall(r'href="#(\w+)"', main)), set(re.findall(r' id="([\w-]+)"', main))
    assert linked <= there


def test_every_example_on_the_page_is_a_body_that_the_api_takes(client, key, engine):
    engine.says("Light, bent by rain.")
    ApiKey.objects.filter(pk=key.pk).update(scopes=["chat", "feedback", "episodes"])
    page = unescape(client.get("/v1/docs").content.decode())
    commands = re.findall(
        r'curl -X POST "http://testserver([^"]+)"(?:(?!</code>).)*?-d \'(.*?)\'</code>', page, re.DOTALL
    )
    statuses = {}
    for path, body in commands:
        there = path.replace("{exam}", "1").replace("{episode}", str(uuid4()))
        asked = {"data": body, "content_type": "application/json", "headers": {"Authorization": f"Bearer {key.secret}"}}
        statuses[path] = client.post(there, **asked).status_code
    # What is about a reply or an episode of one's own finds none; the others are answered.
    assert statuses == {
        "/v1/chat/completions": 200,
        "/v1/responses": 200,
        "/v1/messages": 200,
        "/v1/messages/count_tokens": 200,
        "/v1/feedback": 404,
        "/v1/episodes": 200,
        "/v1/episodes/exams/{exam}/close": 404,
        "/v1/episodes/{episode}/close": 404,
        "/v1/episodes/{episode}/actions": 404,
    }


def test_the_schema_says_what_each_operation_needs_and_answers(client):
    said = client.get("/v1/openapi.json").json()
    assert said["paths"]["/v1/chat/completions"]["post"]["security"]
    assert "text/event-stream" in said["paths"]["/v1/chat/completions"]["post"]["responses"]["200"]["content"]
    assert all("4XX" in operation["responses"] for path in said["paths"].values() for operation in path.values())


MANY = 5000
BROKEN: list[Any] = [0] * MANY
SAID = [{"role": "user", "content": "Hi"}]
NOTES = {str(number): 0 for number in range(MANY)}
CALLING = [{"role": "assistant", "tool_calls": BROKEN}]
RESULT = [{"type": "tool_result", "tool_use_id": "a", "content": BROKEN}]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        *(
            (ChatRequest, {"messages": SAID} | more)
            for more in (
                {"messages": BROKEN},
                {"messages": [{"role": "user", "content": BROKEN}]},
                {"messages": CALLING},
                {"tools": BROKEN},
                {"stop": BROKEN},
                {"metadata": NOTES},
            )
        ),
        *(
            (ResponsesRequest, {"input": "Hi"} | more)
            for more in (
                {"input": BROKEN},
                {"input": [{"role": "user", "content": BROKEN}]},
                {"input": [{"type": "reasoning", "summary": BROKEN}]},
                {"tools": BROKEN},
                {"tool_choice": {"type": "allowed_tools", "tools": BROKEN}},
                {"metadata": NOTES},
            )
        ),
        *(
            (AnthropicRequest, {"messages": SAID, "max_tokens": 9} | more)
            for more in (
                {"messages": BROKEN},
                {"messages": [{"role": "user", "content": BROKEN}]},
                {"messages": [{"role": "user", "content": RESULT}]},
                {"system": BROKEN},
                {"tools": BROKEN},
                {"stop_sequences": BROKEN},
            )
        ),
        (Saying, {"completion_id": "a", "thumb": "up", "tags": BROKEN}),
        (Saying, {"completion_id": "a", "thumb": "up"} | NOTES),
    ],
)
def test_of_thousands_of_faults_the_first_is_the_answer(kind, body):
    """No request waits while the others are found: all of them share one event loop."""
    with pytest.raises(ValidationError) as refused:
        kind.model_validate(body)
    assert refused.value.error_count() <= 4  # a union tells of each type that it tried
