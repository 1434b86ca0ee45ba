"""What is understood of a chat completion request; docs/api.md says what becomes of each parameter."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from django.conf import settings
from django.http import HttpRequest
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from chat import turns
from chat.api.addressing import Addressed
from chat.api.wire import Notes, Quick
from chat.asking import Ask
from core.errors import TalkbackError
from gpu_workers.types import Sampling
from training.models import Checkpoint

MOST_TOOLS = 256
MOST_CHOICES = 8
NAME = r"^[A-Za-z0-9_-]{1,64}$"

Name = Annotated[str, Field(pattern=NAME)]


class NotOffered(TalkbackError):
    """A parameter that is understood and cannot be honoured: saying so beats pretending."""

    code, status = "unsupported_parameter", 400

    def __init__(self, sentence: str, param: str | None = None) -> None:
        super().__init__(sentence)
        self.param = param


class ChatPart(BaseModel):
    model_config = ConfigDict(extra="allow")

    type: str
    text: str | None = None
    refusal: str | None = None

    @property
    def words(self) -> str | None:
        """What it says, where it says something in words."""
        return self.text if self.type in ("text", "input_text", "output_text") else self.refusal


class ChatCalled(BaseModel):
    """The function of a tool call in the history; arguments that are no text yet become JSON text."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(min_length=1, max_length=256)
    arguments: str = ""

    @field_validator("arguments", mode="before")
    @classmethod
    def _text(cls, arguments: Any) -> Any:
        return json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict) else arguments or ""


class ChatCall(BaseModel):
    model_config = ConfigDict(extra="allow")

    id: str = Field("", max_length=256)
    type: Literal["function"] = "function"
    function: ChatCalled


class ChatMessage(BaseModel):
    """One message of the conversation; content as text or as a list of text parts."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Quick[ChatPart] | None = None
    name: str | None = None
    reasoning_content: str | None = None
    tool_calls: Quick[ChatCall] | None = None
    tool_call_id: str | None = None

    @model_validator(mode="after")
    def _says_something(self) -> ChatMessage:
        if self.content is None and self.role in ("system", "developer", "user"):
            raise ValueError(f"a {self.role} message needs content")
        return self

    def plain(self) -> dict[str, Any]:
        """As it is stored: the content is one text. Raises NotOffered for images and sound."""
        said = self.model_dump(exclude_none=True)
        if isinstance(self.content, list):
            if other := next((part.type for part in self.content if part.words is None), None):
                raise NotOffered(
                    f"This model reads text only: a content part of type {other!r} cannot be used.", "messages"
                )
            said["content"] = "\n".join(part.words or "" for part in self.content)
        if self.content is None and not self.tool_calls:
            said["content"] = ""
        if not self.tool_calls:
            said.pop("tool_calls", None)
        return said


class ChatFunction(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    """A JSON schema of the arguments."""
    strict: bool | None = None


class ChatTool(BaseModel):
    model_config = ConfigDict(extra="allow")

    type: Literal["function"]
    function: ChatFunction

    @field_validator("type", mode="before")
    @classmethod
    def _only_functions(cls, type: Any) -> Any:
        if type != "function":
            raise ValueError(f"only tools of type 'function' can be offered to this model, not {type!r}")
        return type


class ChatNamed(BaseModel):
    name: Name


class ChatToolChoice(BaseModel):
    """The one function that must be called."""

    type: Literal["function"]
    function: ChatNamed


class ChatSchema(BaseModel):
    """The outer shape of OpenAI's json_schema; the schema itself is the engine's to understand."""

    name: Name
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class ResponseFormat(BaseModel):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: ChatSchema | None = None

    @model_validator(mode="after")
    def _has_its_schema(self) -> ResponseFormat:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise ValueError("json_schema belongs to type 'json_schema', and is needed there")
        return self

    @property
    def schema_(self) -> dict[str, Any] | None:
        if self.json_schema is not None:
            return self.json_schema.schema_
        return {"type": "object"} if self.type == "json_object" else None


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    include_usage: bool | None = False


EXAMPLES: list[Any] = [
    {
        "model": settings.MODEL_NAME,
        "messages": [{"role": "user", "content": "What is a rainbow?"}],
        "max_completion_tokens": 200,
    },
    {
        "model": settings.MODEL_NAME,
        "messages": [{"role": "user", "content": "How warm is it in Lisbon?"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "weather",
                    "description": "The weather in a town.",
                    "parameters": {
                        "type": "object",
                        "properties": {"town": {"type": "string"}},
                        "required": ["town"],
                    },
                },
            }
        ],
    },
]


class ChatRequest(Addressed):
    """OpenAI's chat completion request."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": EXAMPLES})

    messages: Quick[ChatMessage] = Field(min_length=1)
    model: str | None = ""
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    repetition_penalty: float | None = Field(None, gt=0, le=2)
    stop: str | Quick[str] | None = None
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    n: int | None = Field(None, ge=1, le=MOST_CHOICES)
    logprobs: bool | None = False
    top_logprobs: int | None = Field(None, ge=0, le=20)
    tools: Quick[ChatTool] | None = Field(None, max_length=MOST_TOOLS)
    tool_choice: Literal["auto", "none", "required"] | ChatToolChoice | None = None
    parallel_tool_calls: bool | None = True
    response_format: ResponseFormat | None = None
    user: str | None = None
    metadata: Notes | None = None
    store: bool | None = None
    """false: answered, and never learned from."""
    prompt_cache_key: str | None = None

    @field_validator("stop")
    @classmethod
    def _few_stops(cls, stop: str | list[str] | None) -> list[str]:
        stops = [stop] if isinstance(stop, str) else stop or []
        if len(stops) > 16 or any(not 0 < len(one) <= 200 for one in stops):
            raise ValueError("stop takes up to 16 strings of 1 to 200 characters")
        return stops

    @field_validator("metadata")
    @classmethod
    def _short_notes(cls, metadata: dict[str, str] | None) -> dict[str, str] | None:
        if any(len(key) > 64 or len(value) > 512 for key, value in (metadata or {}).items()):
            raise ValueError("metadata takes keys of up to 64 characters and values of up to 512")
        return metadata

    @field_validator("tool_choice")
    @classmethod
    def _is_offered(cls, choice: str | ChatToolChoice | None, others: Any) -> str | ChatToolChoice | None:
        tools = others.data.get("tools") or []
        named = choice.function.name if isinstance(choice, ChatToolChoice) else ""
        if (choice == "required" or named) and not tools:
            raise ValueError("a tool must be called, and no tools are given")
        if named and all(tool.function.name != named for tool in tools):
            raise ValueError(f"there is no tool {named!r} among the tools")
        return choice

    def check_offered(self) -> None:
        """Raises NotOffered for what would silently be something else than was asked for."""
        for name, instead in NOT_OFFERED.items():
            if (self.model_extra or {}).get(name):
                raise NotOffered(f"{name} cannot be honoured here: {instead}.", name)
        if set((self.model_extra or {}).get("modalities") or ["text"]) != {"text"}:
            raise NotOffered("modalities other than text cannot be honoured here: leave it out.", "modalities")
        if self.schema_ and self.tools and self.chosen_tool != "none":
            raise NotOffered(
                "A reply cannot be held to a schema while it may call tools: leave response_format out, or send "
                "tool_choice none.",
                "response_format",
            )

    @property
    def schema_(self) -> dict[str, Any] | None:
        """What the reply's text must satisfy."""
        return self.response_format.schema_ if self.response_format else None

    @property
    def chosen_tool(self) -> str:
        """tool_choice in `Ask`'s words."""
        if isinstance(self.tool_choice, ChatToolChoice):
            return f"={self.tool_choice.function.name}"
        return self.tool_choice or "auto"

    def ask(self, request: HttpRequest, checkpoint: Checkpoint) -> Ask:
        """The request in every protocol's terms. Raises NotOffered."""
        self.check_offered()
        return Ask(
            messages=[message.plain() for message in self.messages],
            sampling=self.sampling(),
            checkpoint=checkpoint,
            tools=[tool.model_dump(exclude_none=True) for tool in self.tools or ()],
            tool_choice=self.chosen_tool,
            parallel_tool_calls=self.parallel_tool_calls is not False,
            schema=self.schema_,
            n=self.n or 1,
            user=self.user or "",
            prompt_cache_key=self.prompt_cache_key or "",
            metadata=self.metadata or {},
            learns=self.store is not False,
            **self.address(request),
        )

    def sampling(self) -> Sampling:
        given: dict[str, Any] = {
            "max_new_tokens": self.max_completion_tokens or self.max_tokens or turns.MAX_NEW_TOKENS,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k or None,
            "frequency_penalty": self.frequency_penalty,
            "presence_penalty": self.presence_penalty,
            "repetition_penalty": self.repetition_penalty,
            "stop": tuple(self.stop or ()),
            "seed": self.seed,
            "top_logprobs": self.top_logprobs or None,
        }
        return Sampling(**{name: value for name, value in given.items() if value is not None})


NOT_OFFERED = {
    "functions": "it is OpenAI's old word, send tools",
    "function_call": "it is OpenAI's old word, send tool_choice",
    "logit_bias": "leave it out",
    "audio": "this model writes text only",
    "web_search_options": "offer a search tool in tools",
}
