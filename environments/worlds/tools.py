"""The tools of a world, in OpenAI's form."""

from __future__ import annotations

from typing import Any


def text_tool(name: str, description: str, **fields: str) -> dict[str, Any]:
    """A tool whose arguments are texts, all of them required; `fields` says what each is."""
    properties = {field: {"type": "string", "description": said} for field, said in fields.items()}
    parameters = {"type": "object", "properties": properties, "required": list(fields), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
