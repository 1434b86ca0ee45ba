"""Read and validate a chat completion request; docs/reference/api.md says what becomes of each parameter."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from django.conf import settings
from django.http import HttpRequest
from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from chat import turns
from chat.api import pictured
from chat.api.addressing import Addressed
from chat.api.sent import NotOffered, Part, Sent, check_not_begun
from chat.api.wire import Notes, Quick
from chat.pictures.picture import Picture, say
from chat.requests import Ask
from checkpoints.models import Checkpoint
from gpu_workers.types import Sampling

MOST_TOOLS = 256
MOST_CHOICES = 8
NAME = r"^[A-Za-z0-9_-]{1,64}$"

Name = Annotated[str, Field(pattern=NAME)]

Schema = dict[str, Any] | bool
"""A JSON schema; true and {} allow any JSON."""


TEXTS = ("text", "input_text", "output_text")
"""What a part is called that is text."""


class ChatPart(Part):
    texts = TEXTS

    def said(self, at: str) -> str | Picture:
        """Its words, or its picture. Raises NotOffered and PictureRefused."""
        words = self.text if self.type in TEXTS else self.refusal
        return pictured.read_part(self, "a content part", at) if words is None else words


class ChatCalled(Sent):
    """The function of a tool call in the history, which is taken as it was; arguments that are no text become JSON."""

    model_config = ConfigDict(extra="allow")

    name: str = ""
    arguments: str = ""

    @field_validator("arguments", mode="before")
    @classmethod
    def _text(cls, arguments: Any) -> Any:
        return as_text(arguments)


def as_text(arguments: Any) -> str:
    """A past call's arguments as JSON text, whatever they are."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


class ChatCall(Sent):
    """A tool call in the history: nothing is called any more, so any id, type and name will do."""

    model_config = ConfigDict(extra="allow")

    id: str = ""
    type: str = "function"
    function: ChatCalled = ChatCalled()

    @model_validator(mode="before")
    @classmethod
    def _as_function(cls, call: Any) -> Any:
        """OpenAI's custom tools are called with one text."""
        if not isinstance(call, dict):
            return call
        custom = call.get("custom")
        if isinstance(custom, dict) and call.get("function") is None:
            call = call | {"function": {"name": custom.get("name"), "arguments": {"input": custom.get("input")}}}
        return {name: value for name, value in call.items() if name != "custom"} | {"type": "function"}


class ChatMessage(Sent):
    """One message of the conversation; content as text or as a list of parts."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Quick[ChatPart] | None = Field(None, validate_default=True)
    name: str | None = None
    reasoning_content: str | None = None
    tool_calls: Quick[ChatCall] | None = None
    tool_call_id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_old(cls, message: Any) -> Any:
        """OpenAI's old words for a call and its result."""
        if not isinstance(message, dict):
            return message
        if message.get("role") == "function":
            message = message | {"role": "tool"}
        if message.get("function_call") and not message.get("tool_calls"):
            message = message | {"tool_calls": [{"function": message["function_call"]}]}
        return message

    @field_validator("content")
    @classmethod
    def _says_something(cls, content: Any, field: ValidationInfo) -> Any:
        role = field.data.get("role")
        if content is None and role in ("system", "developer", "user"):
            raise ValueError(f"a {role} message needs content")
        return content

    def plain(self, at: str) -> dict[str, Any]:
        """As it is stored: the content is one text, and pictures are beside it. Raises NotOffered for sound, and for
        pictures that are not seen, by their place behind `at`, and PictureRefused."""
        said = self.model_dump(exclude_none=True, exclude={"function_call", "content", "pictures"})
        if isinstance(self.content, list):
            said |= say([part.said(f"{at}.content.{n}") for n, part in enumerate(self.content)], "\n")
            if "pictures" in said and self.role not in ("user", "tool"):
                raise NotOffered("Pictures stand in messages of users and tools.", f"{at}.content")
        elif self.content is not None:
            said["content"] = self.content
        if self.content is None and not self.tool_calls:
            said["content"] = ""
        if not self.tool_calls:
            said.pop("tool_calls", None)
        return said


class ChatFunction(Sent):
    model_config = ConfigDict(extra="allow")

    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    """A JSON schema of the arguments."""
    strict: bool | None = None


class ChatTool(Sent):
    model_config = ConfigDict(extra="allow")

    type: Literal["function"] = "function"
    function: ChatFunction

    @field_validator("type", mode="before")
    @classmethod
    def _only_functions(cls, type: Any) -> Any:
        if type != "function":
            raise ValueError(f"only tools of type 'function' can be offered to this model, not {type!r}")
        return type


class ChatNamed(Sent):
    name: Name


class ChatToolChoice(Sent):
    """The one function that must be called."""

    type: Literal["function"] = "function"
    function: ChatNamed


class ChatSchema(Sent):
    """The outer shape of OpenAI's json_schema; the schema itself is the engine's to understand."""

    name: Name
    description: str | None = None
    schema_: Schema = Field(alias="schema")
    strict: bool | None = None


class ResponseFormat(Sent):
    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: ChatSchema | None = None
    schema_: Schema | None = Field(None, alias="schema")
    """With `json_object`, as other servers have it."""

    @model_validator(mode="after")
    def _has_its_schema(self) -> ResponseFormat:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise ValueError("json_schema belongs to type 'json_schema', and is needed there")
        if self.schema_ is not None and self.type != "json_object":
            raise ValueError("schema belongs to type 'json_object'; type 'json_schema' has it in json_schema")
        return self

    @property
    def held(self) -> tuple[Schema | None, str]:
        """The schema that the reply's text must satisfy, and where it stands."""
        if self.json_schema is not None:
            return self.json_schema.schema_, "response_format.json_schema.schema"
        if self.schema_ is not None:
            return self.schema_, "response_format.schema"
        return ({"type": "object"} if self.type == "json_object" else None), "response_format"


class StreamOptions(Sent):
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
    top_p: float | None = Field(None, ge=0, le=1)
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
        more = self.model_extra or {}
        for name, instead in NOT_OFFERED.items():
            if more.get(name):
                raise NotOffered(f"{name} cannot be honoured here: {instead}.", name)
        check_not_begun(more)
        if more.get("modalities") not in (None, [], ["text"]):
            raise NotOffered("modalities other than text cannot be honoured here: leave it out.", "modalities")
        if self.schema_ is not None and self.tools and self.chosen_tool != "none":
            raise NotOffered(
                "A reply cannot be held to a schema while it may call tools: leave response_format out, or send "
                "tool_choice none.",
                "response_format",
            )

    @property
    def schema_(self) -> Schema | None:
        """What the reply's text must satisfy."""
        return self.response_format.held[0] if self.response_format else None

    @property
    def places(self) -> dict[str, str]:
        """Where what an Ask holds stands in this request."""
        named = [tool.function.name for tool in self.tools or ()]
        tools = {f"tool {name}": f"tools.{n}.function.parameters" for n, name in enumerate(named)}
        return tools | {"schema": self.response_format.held[1] if self.response_format else ""}

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
            messages=[message.plain(f"messages.{n}") for n, message in enumerate(self.messages)],
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
            places=self.places,
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
    **dict.fromkeys(
        ("guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "grammar"),
        "send response_format",
    ),
}
