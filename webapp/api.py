"""Assemble the API: every room's routes, one shape for every failure, one page that shows them all."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from ninja import NinjaAPI
from ninja.openapi.docs import DocsBase
from ninja.openapi.schema import OpenAPISchema
from pydantic.json_schema import models_json_schema

from chat.api import router as chat
from chat.api.answer_shapes import AnthropicError, Error
from episodes.api import router as episodes
from feedback import api as feedback
from webapp import api_reference, errors, learning_api
from webapp.serving.bodies import Bounded

ABOUT = """\
OpenAI's chat completions and responses and Anthropic's messages, answered by a model that learns from what is said.
Each request carries `Authorization: Bearer KEY`. What becomes of every parameter stands in docs/reference/api.md.
"""


class Page(DocsBase):
    """The routes to read, drawn here: no script is needed, and nothing is loaded from elsewhere."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        schema = api.get_openapi_schema()
        context = {
            "schema_url": self.get_openapi_url(api, kwargs),
            "about": schema["info"]["description"],
            "parts": api_reference.operations(schema, request.build_absolute_uri("/").rstrip("/")),
            "shapes": api_reference.shapes(schema),
        }
        return render(request, "system/api_reference.html", context)


class Api(NinjaAPI):
    """Every operation's failures are in its schema, which is made once."""

    @cached_property
    def _schema(self) -> OpenAPISchema:
        schema = super().get_openapi_schema()
        (_, shapes) = models_json_schema(
            [(Error, "serialization"), (AnthropicError, "serialization")], ref_template="#/components/schemas/{model}"
        )
        schema["components"]["schemas"] |= shapes["$defs"]
        for path, operations in schema["paths"].items():
            shape = AnthropicError if path.startswith("/v1/messages") else Error
            content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{shape.__name__}"}}}
            for operation in operations.values():
                operation["responses"]["4XX"] = {"description": "The request is at fault.", "content": content}
                operation["responses"]["5XX"] = {"description": "Talkback is, or its engine.", "content": content}
        return schema

    def get_openapi_schema(self, **kwargs: Any) -> OpenAPISchema:
        return self._schema


api = Api(
    title="Talkback",
    version="1",
    description=ABOUT,
    docs=Page(),
    docs_url="/docs",
    parser=Bounded(),
    urls_namespace="v1",
)
api.add_router("", chat)
api.add_router("", feedback.routes(learning_api.follows))
api.add_router("", learning_api.router)
api.add_router("", episodes)
errors.connect(api)
