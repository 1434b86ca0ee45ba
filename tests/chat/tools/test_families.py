"""A model calls a server's tool in its own family's form, and reads what it answered in that form, too."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from benchmarks.tiny import write_tiny_model
from tests.chat.rendering.templates import LLAMA3, MISTRAL, QWEN3, QWEN35
from tests.chat.tools.conftest import calls_of, let_use, turns_of

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


class Family(NamedTuple):
    template: str
    call: str
    """As its models write it."""
    shown: str
    """What of the tool's definition stands in the prompt."""
    answered: str
    """How the prompt behind it begins the result, which is 4."""
    keeps_controls: bool = False
    """Its call begins with a control token, which the engine must be told to leave in its text."""


FAMILIES = {
    "Hermes and Qwen": Family(
        QWEN3,
        '<tool_call>\n{"name": "price", "arguments": {"item": "bread"}}\n</tool_call>',
        '<tools>\n{"type": "function", "function": {"name": "price"',
        "<tool_response>\n4",
    ),
    "Qwen 3.5": Family(
        QWEN35,
        "A price.\n</think>\n\n"
        "<tool_call>\n<function=price>\n<parameter=item>\nbread\n</parameter>\n</function>\n</tool_call>",
        '"name": "price"',
        "<tool_response>\n4",
    ),
    "Llama 3": Family(LLAMA3, '{"name": "price", "parameters": {"item": "bread"}}', '"name": "price"', "ipython"),
    "Llama 3, with its tag": Family(
        LLAMA3, '<|python_tag|>{"name": "price", "parameters": {"item": "bread"}}', '"name": "price"', "ipython"
    ),
    "Mistral": Family(
        MISTRAL,
        '[TOOL_CALLS][{"name": "price", "arguments": {"item": "bread"}}]',
        "[AVAILABLE_TOOLS]",
        "[TOOL_RESULTS]",
        keeps_controls=True,
    ),
    "Mistral, by name": Family(
        MISTRAL, '[TOOL_CALLS]price[ARGS]{"item": "bread"}', "[AVAILABLE_TOOLS]", "[TOOL_RESULTS]", keeps_controls=True
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
async def test_a_call_in_a_familys_own_form_is_made_and_its_result_goes_back_in_that_form(
    name, say, word, engine, session, shop, settings, tmp_path
):
    family = FAMILIES[name]
    model = write_tiny_model(tmp_path / "model")
    (model / "chat_template.jinja").write_text(family.template)
    settings.MODEL = str(model)
    await let_use(session, shop, "price")
    engine.says(family.call)
    engine.says("</think>\n\nIt costs 4." if "</think>" in family.call else "It costs 4.")

    await say("What does bread cost?")
    (call,) = await calls_of(session)
    assert (call.status, call.name, call.shown_arguments) == ("waiting", "price", '{\n "item": "bread"\n}')
    (turn,) = await turns_of(session)
    assert (turn.text, turn.marks) == ("", [])
    await word("once")

    (call,) = await calls_of(session)
    assert (call.status, call.result) == ("done", "4")
    assert (await turns_of(session))[-1].text == "It costs 4."
    asked, then = (one for one in engine.calls if one.kind == "stream")
    assert family.shown in asked.prompt
    assert "The price of an item." in asked.prompt
    assert family.answered in then.prompt
    assert '"bread"' in then.prompt.replace("<parameter=item>\nbread", '"bread"')
    assert asked.sampling.skip_special_tokens is not family.keeps_controls
