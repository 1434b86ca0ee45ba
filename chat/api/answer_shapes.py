"""Describe answers of chat completions for the API's schema, as far as they are filled here."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field


class Usage(BaseModel):
    class PromptDetails(BaseModel):
        cached_tokens: int

    class ReplyDetails(BaseModel):
        reasoning_tokens: int

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: ReplyDetails


class ToolCallFunction(BaseModel):
    name: str
    arguments: str = Field(description="JSON, as the model wrote it.")


class ToolCall(BaseModel):
    id: str
    type: Literal["function"]
    function: ToolCallFunction


class Said(BaseModel):
    role: Literal["assistant"]
    content: str | None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    refusal: None = None


class Likelihood(BaseModel):
    token: str
    logprob: float = Field(description="As sampled, at the request's temperature.")
    bytes: list[int] | None


class Sampled(Likelihood):
    top_logprobs: list[Likelihood]


class Likelihoods(BaseModel):
    content: list[Sampled]
    refusal: None = None


class Choice(BaseModel):
    index: int
    message: Said
    logprobs: Likelihoods | None
    finish_reason: Literal["stop", "length", "tool_calls"]


class Answer(BaseModel):
    """A chat completion."""

    id: str = Field(description="Feedback goes by it.")
    object: Literal["chat.completion"]
    created: int = Field(description="Seconds since 1970.")
    model: str = Field(description="name@number: the checkpoint that wrote it.")
    system_fingerprint: str = Field(description="The weights that wrote it.")
    choices: list[Choice]
    usage: Usage
    session_id: str | None = Field(None, description="What the client calls the session, where it does.")


class Model(BaseModel):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    root: str = Field(description="name@number: the checkpoint behind the name.")
    context_window: int = Field(description="Tokens that prompt and reply may have together.")
    max_model_len: int = Field(description="The same, as vLLM calls it.")
    input_modalities: list[Literal["text", "image"]] = Field(description="What it is shown.")
    type: Literal["model"] = Field(description="From here on as Anthropic describes a model.")
    display_name: str
    created_at: str
    lifecycle: Literal["active"]
    max_input_tokens: int
    max_tokens: int
    capabilities: None = None
    deprecated_at: None = None
    line: None = None
    retires_at: None = None


class Models(BaseModel):
    object: Literal["list"]
    data: list[Model]
    first_id: str = Field(description="As Anthropic pages its list; here one page holds all.")
    last_id: str
    has_more: bool


class Failure(BaseModel):
    message: str = Field(description="One sentence that says what to do.")
    type: str
    param: str | None
    code: str


class Error(BaseModel):
    """Any failure, also in a stream that has begun."""

    error: Failure


STREAMED: dict[str, Any] = {
    "responses": {
        200: {
            "description": "The whole reply, or with `stream: true` its chunks as they are written.",
            "content": {
                "text/event-stream": {
                    "schema": {  # of one event
                        "type": "object",
                        "properties": {"data": {"type": "string", "description": "A chunk as JSON, or [DONE]."}},
                        "required": ["data"],
                    },
                    "example": 'data: {"id": "chatcmpl-…", "object": "chat.completion.chunk", "choices": [{"index": 0, '
                    '"delta": {"content": "A rainbow"}, "logprobs": null, "finish_reason": null}]}\n\ndata: [DONE]\n\n',
                }
            },
        }
    }
}
"""A chat completion may come in chunks too."""


class AnthropicFailure(BaseModel):
    type: str
    message: str


class AnthropicError(BaseModel):
    """Any failure, as Anthropic's clients read it."""

    type: Literal["error"]
    error: AnthropicFailure
    request_id: str | None = Field(None, description="That of the answer's header; left out in a stream.")
