"""The paths of requests: those that only their slashes set apart are the same, and a lost client hears what to do."""

from __future__ import annotations

import re
from typing import Any

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest
from django.urls import Resolver404, resolve

Scope = dict[str, Any]

UNDER = re.compile(r"/+v1(?:/|$)")
"""How a path of the API begins."""

NAMED = re.compile(r"/v1/+sessions/")
"""Paths with a client's own name for something in their middle, which may have slashes of its own."""

KNOWN = frozenset(
    (
        *("chat/completions", "completions", "responses", "messages", "messages/count_tokens", "models", "feedback"),
        *("embeddings", "moderations", "rerank", "images/generations", "audio/speech", "audio/transcriptions"),
        *("api/chat", "api/generate", "api/tags"),
    )
)
"""What clients ask chat servers for, whether or not it is to be had here: the ends of paths."""

LONGEST = 200


def tidy(scope: Scope) -> Scope:
    """The scope of a request under /v1 without doubled slashes and without one at the end; any other as it is."""
    path: str = scope["path"]
    if ("//" not in path and not path.endswith("/")) or not UNDER.match(path):
        return scope
    if NAMED.match(path) and is_route(path):
        return scope
    tidied = re.sub("/{2,}", "/", path).rstrip("/")
    return scope | {"path": tidied, "raw_path": tidied.encode()}


def is_under(path: str) -> bool:
    """Whether a path is the API's: /v1, or anything under it."""
    return path == "/v1" or path.startswith("/v1/")


def is_route(path: str) -> bool:
    try:
        resolve(path)
    except Resolver404:
        return False
    return True


def is_programs(request: HttpRequest) -> bool:
    """Whether a program asks, which reads JSON: under /v1, with a key or a body of JSON, or for what only programs ask
    for and not as a browser does."""
    if is_under(request.path) or "Authorization" in request.headers or "x-api-key" in request.headers:
        return True
    if "HX-Request" in request.headers:  # of a page of ours, some of whose addresses end like the API's
        return False
    accepts = request.headers.get("Accept", "")
    if request.content_type == "application/json" or ("json" in accepts and "html" not in accepts):
        return True
    return end_of(request.path) in KNOWN and "html" not in accepts


def end_of(path: str) -> str:
    """The last part of a path, or the last two where those are known together.

    >>> end_of("/v1/v1//chat/completions/"), end_of("/nothing"), end_of("/")
    ('chat/completions', 'nothing', '')
    """
    parts = [part for part in path.split("/") if part]
    last, two = "/".join(parts[-1:]), "/".join(parts[-2:])
    return two if two in KNOWN else last


def guide(request: HttpRequest) -> str:
    """What a client does whose path leads nowhere, in a sentence or two."""
    path = request.path if len(request.path) <= LONGEST else f"{request.path[:LONGEST]}…"
    end = end_of(request.path)
    try:
        root = f"{request.scheme}://{request.get_host()}"
    except DisallowedHost:
        root = "http://HOST:PORT"
    is_anthropic = end.startswith("messages")
    base = root if is_anthropic else f"{root}/v1"  # Anthropic's clients add /v1 themselves
    at = request.path.rfind("/v1/")
    if at > 0 and is_route(request.path[at:]):
        return f"The path {path} has {request.path[:at]} before /v1: set the client's base URL to {base}."
    if at < 0 and is_route(f"/v1/{end}"):
        return f"The path {path} lacks /v1: set the client's base URL to {base}."
    routes = (
        f"The base URL is {root}/v1; below it are POST chat/completions, responses, messages and feedback, and GET "
        f"models. {root}/v1/docs has all of them."
    )
    if end == "completions":
        return f"There are no completions of a bare prompt at {path}: send messages to {root}/v1/chat/completions."
    if end == "embeddings":
        return f"There is nothing at {path}: this model chats, and makes no embeddings. {routes}"
    return f"There is nothing at {path}. {routes}"
