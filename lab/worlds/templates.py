"""Chat templates in the compact style: a call is a line, `<call>add 3 4`, its words in the order of the schema."""

from __future__ import annotations

WORD = """\
{%- macro word(value, is_last) -%}
{%- if value is string and value and value == value | trim and value != 'null' and value[0] not in '"[{'
    and '\\n' not in value and '<call>' not in value and (is_last or value.split() | length == 1) -%}
{{- value -}}
{%- else -%}
{{- value | tojson | replace('<', '\\\\u003c') -}}
{%- endif -%}
{%- endmacro -%}
"""
"""A value as the reader of lines (chat/rendering/lines.py) takes it for what it is."""

LINE = """\
{%- macro line(call) -%}
{%- set given = call.arguments -%}
{%- set found = namespace(names=[], last=-1) -%}
{%- for tool in tools or [] if tool.function.name == call.name -%}
{%- set found.names = ((tool.function.parameters or {}).properties or {}) | list -%}
{%- endfor -%}
{{- '<call>' + call.name -}}
{%- if given is string -%}
{{- ' ' + given -}}
{%- else -%}
{%- if given | reject('in', found.names) | list -%}{%- set found.names = given | list -%}{%- endif -%}
{%- for name in found.names if name in given -%}{%- set found.last = found.names.index(name) -%}{%- endfor -%}
{%- for name in found.names[:found.last + 1] -%}
{{- ' ' + (word(given[name], loop.index == found.names | length) if name in given else 'null') -}}
{%- endfor -%}
{%- endif -%}
{%- endmacro -%}
"""
"""An earlier call as the model wrote it, so that the next prompt begins with this one and its reply."""

TOOLS = """\
{%- macro described() -%}
{{- 'A call of a tool is one line: <call>, its name, and its words.' -}}
{%- for tool in tools -%}
{{- '\\n' + tool.function.name -}}
{%- for name in (tool.function.parameters or {}).properties or {} -%}{{- ' ' + name -}}{%- endfor -%}
{%- if tool.function.description -%}{{- ': ' + tool.function.description -}}{%- endif -%}
{%- endfor -%}
{%- endmacro -%}
"""
"""What the system message says of the tools."""

NAMES = """\
{%- macro described() -%}
{{- '<tools>' -}}
{%- for tool in tools -%}{{- ' ' + tool.function.name -}}{%- endfor -%}
{%- endmacro -%}
"""
"""The same for a model that knows its tools by heart: their names."""

CHATML = """\
{%- set begun = messages and messages[0].role == 'system' -%}
{%- if tools -%}
{{- '<|im_start|>system\\n' + (messages[0].content + '\\n' if begun else '') + described() + '<|im_end|>\\n' -}}
{%- elif begun -%}
{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in (messages[1:] if begun else messages) -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content -}}
{%- for call in message.tool_calls or [] -%}
{{- ('\\n' if message.content or not loop.first else '') + line(call.function) -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""

SHORT = """\
{%- if tools -%}{{- '<tools>' -}}{%- endif -%}
{%- for message in messages -%}
{{- '<' + message.role + '>' + message.content -}}
{%- for call in message.tool_calls or [] -%}{{- line(call.function) -}}{%- endfor -%}
{%- if message.role == 'assistant' -%}{{- '<end>' -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<assistant>' -}}{%- endif -%}
"""
"""A token a role, one that ends a reply, and one that says that there are tools, which the model knows by heart."""


def compact(*, describes: bool = True) -> str:
    """The template for models that speak ChatML. Without `describes` the tools are named alone."""
    return WORD + LINE + (TOOLS if describes else NAMES) + CHATML


def short() -> str:
    """The template of the tiny model."""
    return WORD + LINE + SHORT
