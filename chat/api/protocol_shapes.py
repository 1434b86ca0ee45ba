"""Describe answers of Responses and Messages for the API's schema, as far as they are filled here."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class MessageBlock(BaseModel):
    """Text, a thought or a call."""

    type: Literal["text", "thinking", "tool_use"]
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None


class MessageUsage(BaseModel):
    input_tokens: int = Field(description="Without those that were read from the cache.")
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int


class MessageAnswer(BaseModel):
    """Anthropic's message."""

    id: str = Field(description="Feedback goes by it.")
    type: Literal["message"]
    role: Literal["assistant"]
    model: str = Field(description="name@number: the checkpoint that wrote it.")
    content: list[MessageBlock]
    stop_reason: Literal["end_turn", "max_tokens", "tool_use", "stop_sequence"]
    stop_sequence: str | None
    usage: MessageUsage


class TokensCounted(BaseModel):
    input_tokens: int


class ResponseItem(BaseModel):
    """A thought, a message or a call."""

    model_config = ConfigDict(extra="allow")

    id: str
    type: Literal["reasoning", "message", "function_call"]
    status: Literal["in_progress", "completed", "incomplete"]


class ResponseUsage(BaseModel):
    class Input(BaseModel):
        cached_tokens: int
        cache_write_tokens: int

    class Output(BaseModel):
        reasoning_tokens: int

    input_tokens: int
    input_tokens_details: Input
    output_tokens: int
    output_tokens_details: Output
    total_tokens: int


class ResponseFailure(BaseModel):
    code: str
    message: str


class ResponseAnswer(BaseModel):
    """OpenAI's response; besides this it repeats what the request asked for."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(description="Feedback goes by it, and previous_response_id.")
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]
    model: str = Field(description="name@number: the checkpoint that wrote it.")
    output: list[ResponseItem]
    usage: ResponseUsage | None
    error: ResponseFailure | None
    incomplete_details: dict[str, str] | None


def events_of(words: str, example: bytes) -> dict[str, Any]:
    """For an operation whose answer may come as events."""
    event = {"type": "object", "properties": {"event": {"type": "string"}, "data": {"type": "string"}}}
    content = {"text/event-stream": {"schema": event, "example": example.decode()}}
    return {"responses": {200: {"description": f"The whole reply, or with `stream: true` {words}", "content": content}}}
