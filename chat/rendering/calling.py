"""Describe how models write tool calls: the styles, and how a call is recognised, shown and forced."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import TalkbackError
from gpu_workers.schemas import compiler
from gpu_workers.schemas.keywords import SchemaRefused

THINK, UNTHINK = "<think>", "</think>"
FUNCTION = "<function="


@dataclass(frozen=True)
class Style:
    """One model family's way of writing a tool call.

    Within `opener` and `closer` stands an object {"name", `arguments`}, a list of them, `NAME{…}`, or `<function=NAME>`
    with a parameter a tag: all four are read, whatever the style but a line's, where no more than the first is."""

    opener: str
    closer: str = ""
    arguments: str = "arguments"
    """The member of the object that holds the arguments."""
    is_bare: bool = False
    """True where a reply may begin with the object itself."""
    is_listed: bool = False
    """True where the objects stand in a list."""
    is_special: bool = False
    """True where the opener is a control token, which an engine leaves out of its text unless told not to."""
    is_line: bool = False
    """True where a call is a line: the tool's name and a word a parameter, in the order of its schema."""

    @property
    def end_of_one(self) -> str:
        """What shows that a call is over, or that a second one begins; empty where nothing does."""
        return f"\n{self.opener}" if self.is_line else self.closer


STYLES: Mapping[str, Style] = {
    "hermes": Style("<tool_call>", "</tool_call>"),
    "xml": Style("<tool_call>", "</tool_call>"),
    "llama": Style("<|python_tag|>", arguments="parameters", is_bare=True),
    "mistral": Style("[TOOL_CALLS]", is_listed=True, is_special=True),
    "compact": Style("<call>", is_line=True),
}
USUAL = "hermes"
SIGNS = (
    ("", ("<arg_key>",)),
    ("", ("<tool_calls>[",)),
    ("xml", ("<tool_call>", FUNCTION)),
    ("hermes", ("<tool_call>",)),
    ("mistral", ("[TOOL_CALLS]",)),
    ("llama", ('{"name": function name, "parameters"',)),
    ("compact", ("<call>",)),
)
"""What a chat template holds that teaches a style, the surest signs first."""


def style_of(template: str) -> str:
    """The style a chat template teaches; empty where it teaches none that is read here."""
    return next((style for style, signs in SIGNS if all(sign in template for sign in signs)), "")


def describe_tools(tools: Sequence[Mapping[str, Any]]) -> str:
    """What a system message says of the tools where the template has no place for them: Qwen's words."""
    signatures = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    return (
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        "You are provided with function signatures within <tools></tools> XML tags:\n"
        f"<tools>\n{signatures}\n</tools>\n\n"
        "For each function call, return a json object with function name and arguments within "
        "<tool_call></tool_call> XML tags:\n"
        '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
    )


def write_call(call: Mapping[str, Any]) -> str:
    """An earlier call as it stands in a conversation where the template has no place for it."""
    function = call["function"]
    held = json.dumps({"name": function["name"], "arguments": function["arguments"]}, ensure_ascii=False)
    return f"<tool_call>\n{held}\n</tool_call>"


def end_thinking(opening: str) -> str:
    """What ends the thinking that a template's `opening` of the reply began; a grammar has no place for thoughts."""
    return f"\n{UNTHINK}\n\n" if opening.rfind(THINK) > opening.rfind(UNTHINK) else ""


class ToolMissing(TalkbackError):
    """A tool must be called, and the request gives none, or none of that name."""

    code, status = "invalid_tool_choice", 400


@dataclass(frozen=True)
class Form:
    """How a reply is asked for, forced and read: tools, opening, sampling."""

    tools: list[dict[str, Any]]
    """Those the model is shown."""
    style: str
    opening: str
    """What the template writes of the reply."""
    opened: str = ""
    """What we write of it, behind that, at the end of the prompt."""
    schema: str = ""
    """A JSON schema, as JSON text, that what the model writes must satisfy."""
    stop: tuple[str, ...] = ()
    """What ends the reply besides what the client said."""

    @property
    def asked(self) -> dict[str, Any]:
        """The part of `Turn.asked` that its reader needs."""
        said = {"style": self.style if self.tools else "", "opening": self.opening, "opened": self.opened}
        return {name: value for name, value in said.items() if value} | ({"grammar": True} if self.schema else {})

    @property
    def sampling(self) -> dict[str, Any]:
        """What the engine must be told of it, as fields of `Sampling`."""
        told: dict[str, Any] = {"json_schema": self.schema} if self.schema else {}
        if self.tools and STYLES[self.style].is_special:
            told["skip_special_tokens"] = False
        return told


def form(style: str, opening: str, tools: Sequence[dict[str, Any]], asked: Mapping[str, Any]) -> Form:
    """The form that `asked` (tool_choice, schema, parallel_tool_calls) means for a model. Raises ToolMissing and
    SchemaRefused.

    A schema holds only where no tool may be called: what is a call and what an answer is the model's choice then.
    """
    choice = asked.get("tool_choice") or "auto"
    shown = [] if choice == "none" else list(tools)
    if choice == "required" or choice.startswith("="):
        opened, schema = forced(style, shown, choice, opening)
        return Form(shown, style, opening, opened, schema)
    if asked.get("schema") is not None and not shown:
        return Form(shown, style, opening, end_thinking(opening), compiler.compile_schema(asked["schema"]).text())
    end = STYLES[style].end_of_one if shown and asked.get("parallel_tool_calls") is False else ""
    return Form(shown, style, opening, stop=(end,) if end else ())


def forced(style: str, tools: Sequence[Mapping[str, Any]], choice: str, opening: str = "") -> tuple[str, str]:
    """For tool_choice `required` or `=NAME`: how the prompt opens the reply, after the template's own `opening`,
    and the JSON schema that the reply's text must satisfy. Raises ToolMissing and SchemaRefused."""
    functions = [tool["function"] for tool in tools]
    if choice.startswith("="):
        functions = [function for function in functions if function["name"] == choice[1:]]
    if not functions:
        named = f"the tool {choice[1:]!r}" if choice.startswith("=") else "a tool"
        raise ToolMissing(f"tool_choice asks for {named}, which is not among the tools of this request.")
    kind = STYLES.get(style) or STYLES[USUAL]
    definitions: dict[str, Any] = {}
    calls = []
    for n, function in enumerate(functions):
        try:
            arguments = compiler.compile_schema(parameters(function), f"{n}_")
        except SchemaRefused as refusal:
            raise refusal.of_tool(function["name"]) from None
        definitions |= arguments.definitions
        calls.append(
            {
                "type": "object",
                "properties": {"name": {"const": function["name"]}, kind.arguments: arguments.schema},
                "required": ["name", kind.arguments],
                "additionalProperties": False,
            }
        )
    schema: dict[str, Any] = calls[0] if len(calls) == 1 else {"anyOf": calls}
    if kind.is_listed:
        schema = {"type": "array", "items": schema, "minItems": 1, "maxItems": 1}
    opened = "" if kind.is_bare else kind.opener if kind.is_listed or kind.is_line else kind.opener + "\n"
    return end_thinking(opening) + opened, compiler.CompiledSchema(schema, definitions).text()


def parameters(function: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a function's arguments: an object whatever the client left out, and one that comes to an end.
    Raises SchemaRefused where they could be no object."""
    given = {key: value for key, value in mapping(function.get("parameters")).items() if value is not None}
    if "object" not in (listed(given.get("type")) or [given.get("type", "object")]):
        raise SchemaRefused("a function's arguments are an object", ("type",))
    schema: dict[str, Any] = {"properties": {}} | given | {"type": "object"}
    needed = [name for name in listed(schema.get("required")) if isinstance(name, str)]
    if schema.keys().isdisjoint(OPEN) and all(name in mapping(schema["properties"]) for name in needed):
        schema.setdefault("additionalProperties", False)
    return schema


OPEN = ("anyOf", "oneOf", "allOf", "$ref", "$dynamicRef", "$recursiveRef", "patternProperties", "minProperties")
"""Keywords by which an object may need members that its `properties` do not name."""


def kinds(function: Mapping[str, Any]) -> dict[str, str]:
    """What each parameter is: "string", "text" (a string, or null or something else), or another JSON type; "" where
    the tool did not say."""
    found = {}
    for name, schema in mapping(mapping(function.get("parameters")).get("properties")).items():
        types = types_of(schema)
        found[name] = "string" if types == {"string"} else "text" if "string" in types else " ".join(sorted(types))
    return found


def types_of(schema: Any) -> set[str]:
    schema = mapping(schema)
    given = schema.get("type")
    types = {given} if isinstance(given, str) else {one for one in listed(given) if isinstance(one, str)}
    for branch in listed(schema.get("anyOf")) + listed(schema.get("oneOf")):
        types |= types_of(branch)
    if not types:
        values = listed(schema.get("enum")) + ([schema["const"]] if "const" in schema else [])
        types = {"string" if isinstance(value, str) else "other" for value in values}
    return types


def mapping(value: Any) -> Mapping[str, Any]:
    """What a client sent where an object belongs; an empty one where it is none."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
