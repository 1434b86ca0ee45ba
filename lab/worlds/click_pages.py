"""Forms made by rule: a word is to be written into a field and sent by one of two buttons. They are files in MiniWoB's
form, with traces of them.

The world browser plays them in Chromium. What its tree says of a page is worked out here for the traces; a test holds
it to what the world says.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments.worlds.base import Message
from environments.worlds.browser.world import SYSTEM, TOOLS, Browser
from lab.worlds.shell_tasks import OF_SPLIT
from lab.worlds.traces import Said, Trace

SEND = "send"
BUTTONS = (SEND, "cancel")
NUMBERS = ("1", "2", "3")
HORIZON = 4
WRONG = 0.35
"""Share of steps that are wrong."""
OPEN_AT_ONCE = 16
PAGE = """\
<!DOCTYPE html>
<script src="/core/core.js"></script>
<script>
const NAMES = %s, BUTTONS = %s, SEND = %s;
const genProblem = () => {
  const word = core.sample(NAMES);
  document.getElementById("query").textContent = `Write ${word} and send it.`;
  const field = document.createElement("input");
  const buttons = BUTTONS.map((name) => {
    const button = document.createElement("button");
    button.textContent = name;
    button.onclick = () => core.endEpisode(name === SEND && field.value === word ? 1 : -1);
    return button;
  });
  document.getElementById("area").replaceChildren(...core.shuffle([field, ...buttons]));
};
window.onload = () => core.startEpisode();
</script>
<body><div id="wrap"><div id="query"></div><div id="area"></div></div></body>
"""


@dataclass
class Page:
    """A page as it stands."""

    word: str
    order: list[str]
    """Its elements: the buttons' names, and "textbox"."""
    value: str = ""
    has_focus: bool = False
    is_solved: bool = False

    @property
    def goal(self) -> str:
        return f"Write {self.word} and send it."

    @property
    def text(self) -> str:
        focus = " focused" if self.has_focus else ""
        field = f'textbox value="{self.value}"{focus}'
        lines = (field if each == "textbox" else f'button "{each}"' for each in self.order)
        return "\n".join(f"[{number}] {line}" for number, line in enumerate(lines, 1))

    @property
    def right(self) -> Said:
        """The step that is right now: a tool and its arguments."""
        if self.value != self.word:
            return "type", {"element": self.order.index("textbox") + 1, "text": self.word}
        return "click", {"element": self.order.index(SEND) + 1}

    def act(self, tool: str, given: Mapping[str, Any]) -> str:
        """Write into the field or click a button, and return what the world says."""
        name = self.order[given["element"] - 1]
        if tool == "click":
            self.is_solved = (self.value, name) == (self.word, SEND)
            return "The page has ended."
        if (self.value, self.has_focus) == (given["text"], True):
            return "The page did not change."
        self.value, self.has_focus = given["text"], True
        return f"The page:\n{self.text}"


def click_world(cache: Path) -> Browser:
    """The world browser over these pages, which are written to a folder in `cache`. Raises Unplayable."""
    folder = cache / "click-pages"
    for split, names in OF_SPLIT.items():
        (folder / split).mkdir(parents=True, exist_ok=True)
        (folder / split / "form.html").write_text(PAGE % tuple(map(json.dumps, (names, BUTTONS, SEND))))
    world = Browser(f"{folder}/", contexts=OPEN_AT_ONCE)
    world.horizon, world.parallel = HORIZON, OPEN_AT_ONCE
    return world


def click_traces(count: int, seed: int, *, wrong: float = WRONG) -> list[Trace]:
    """Make `count` traces; the same seed makes the same ones. They ask for words of both splits, since a word must
    have been seen to be said."""
    return [_trace(number, random.Random(f"click trace {seed} {number}"), wrong) for number in range(count)]


def draw(chance: random.Random) -> Page:
    words = [name for names in OF_SPLIT.values() for name in names]
    order = ["textbox", *BUTTONS]
    return Page(chance.choice(words), chance.sample(order, len(order)))


def _trace(number: int, chance: random.Random, wrong: float) -> Trace:
    page = draw(chance)
    opening = f"{page.goal}\n\nThe page:\n{page.text}"
    messages: list[Message] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": opening}]
    scores: list[float] = []
    for step in range(HORIZON):
        right = page.right
        does = _slip(page, chance) if chance.random() < wrong else right
        call = _call(f"call_{number}_{step}", *does)
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": page.act(*does)})
        scores.append(1.0 if does == right else -1.0)
        if does[0] == "click":
            break
    return Trace(messages, [dict(tool) for tool in TOOLS], tuple(scores), page.is_solved)


def _slip(page: Page, chance: random.Random) -> Said:
    """A mistake: another word, or a click on a button that is not to be clicked now. Never the right step."""
    words = [name for names in OF_SPLIT.values() for name in names]
    while True:
        if chance.random() < 0.5:
            does: Said = "type", {"element": page.order.index("textbox") + 1, "text": chance.choice(words)}
        else:
            does = "click", {"element": page.order.index(chance.choice(BUTTONS)) + 1}
        if does != page.right:
            return does


def _call(id: str, tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": tool, "arguments": json.dumps(given)}}
