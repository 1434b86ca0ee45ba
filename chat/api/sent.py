"""The base of all request bodies: null means not given, and what cannot be honoured is refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from core.errors import TalkbackError


class NotOffered(TalkbackError):
    """The parameter is understood and cannot be honoured: the request is refused rather than answered without it."""

    code, status = "unsupported_parameter", 400

    def __init__(self, sentence: str, param: str | None = None) -> None:
        super().__init__(sentence)
        self.param = param


class Sent(BaseModel):
    """A request's body or a part of it. Null is "not given", whatever the field."""

    null_says: ClassVar[frozenset[str]] = frozenset()
    """Fields where null says something else than nothing."""

    @model_validator(mode="before")
    @classmethod
    def _sent(cls, body: Any) -> Any:
        if isinstance(body, dict) and None in body.values():
            return {name: value for name, value in body.items() if value is not None or name in cls.null_says}
        return body

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The schema says so too: every field that need not be given may be null."""
        shape = handler(core)
        fields = handler.resolve_ref_schema(shape)
        for name, field in fields.get("properties", {}).items():
            branches = field.get("anyOf", [])
            if name not in fields.get("required", ()) and {"type": "null"} not in branches:
                kept = {key: field.pop(key) for key in ("title", "description", "default") if key in field}
                field["anyOf"] = [*(field.pop("anyOf", None) or [dict(field)]), {"type": "null"}]
                for key in [key for key in field if key != "anyOf"]:
                    del field[key]
                field |= kept
        return shape


def require_words(words: str | None, field: ValidationInfo, kinds: Collection[str]) -> str | None:
    """The words of a part; one of these kinds needs them. Raises ValueError."""
    kind = field.data.get("type")
    if words is None and kind in kinds:
        raise ValueError(f"a part of type {kind!r} needs {field.field_name}")
    return words


CONTINUED = {"continue_final_message": True, "add_generation_prompt": False}
"""How some servers are told that a reply was begun for the model."""


def check_not_begun(more: Mapping[str, Any] | None) -> None:
    """Raises NotOffered for a request that says so."""
    for name, begun in CONTINUED.items():
        if (more or {}).get(name) is begun:
            raise NotOffered(f"{name} cannot be honoured here: a reply cannot be begun for the model.", name)


class Part(Sent):
    """A part of a message's content: text, a refusal, a picture, or a kind of its own."""

    model_config = ConfigDict(extra="allow")

    texts: ClassVar[tuple[str, ...]]
    """What a part is called that is text."""

    type: str
    text: str | None = Field(None, validate_default=True)
    refusal: str | None = Field(None, validate_default=True)

    @field_validator("text", "refusal")
    @classmethod
    def _is_told(cls, words: str | None, field: ValidationInfo) -> str | None:
        return require_words(words, field, cls.texts if field.field_name == "text" else ("refusal",))
