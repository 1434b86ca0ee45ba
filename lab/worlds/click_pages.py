"""Pages on which one or two buttons are to be clicked in their order: files in MiniWoB's form, and traces of them.

The world browser plays them in Chromium. What its tree says of a page is worked out here for the traces; a test holds
it to what the world says.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments.worlds.base import Message
from environments.worlds.browser.world import SYSTEM, TOOLS, Browser
from lab.worlds.shell_tasks import OF_SPLIT
from lab.worlds.traces import Trace

BUTTONS = 5
HORIZON = 3
WRONG = 0.45
"""Share of clicks that are wrong: each ends its task."""
OPEN_AT_ONCE = 16
PAGE = """\
<!DOCTYPE html>
<script src="/core/core.js"></script>
<script>
const NAMES = %s;
const genProblem = () => {
  const names = core.shuffle([...NAMES]).slice(0, %d);
  const asked = core.shuffle([...names]).slice(0, core.randi(1, 3));
  document.getElementById("query").textContent = asked.map((name) => `Click ${name}.`).join(" ");
  const area = document.getElementById("area");
  area.replaceChildren(...names.map((name) => {
    const button = document.createElement("button");
    button.textContent = name;
    button.onclick = () => {
      if (name !== asked.shift()) core.endEpisode(-1);
      else if (!asked.length) core.endEpisode(1);
      else button.remove();
    };
    return button;
  }));
};
window.onload = () => core.startEpisode();
</script>
<body><div id="wrap"><div id="query"></div><div id="area"></div></div></body>
"""


@dataclass
class Page:
    """A page as it stands: what is still to be clicked, and the buttons that are there."""

    asked: list[str]
    buttons: list[str]

    @property
    def goal(self) -> str:
        return " ".join(f"Click {name}." for name in self.asked)

    @property
    def text(self) -> str:
        return "\n".join(f'[{number}] button "{name}"' for number, name in enumerate(self.buttons, 1))

    def click(self, number: int) -> str:
        """Click a button that is there, and return what the world says."""
        name = self.buttons[number - 1]
        is_right = name == self.asked.pop(0)
        if not (is_right and self.asked):
            return "The page has ended."
        self.buttons.remove(name)
        return f"The page:\n{self.text}"


def click_world(cache: Path) -> Browser:
    """The world browser over these pages, which are written to a folder in `cache`. Raises Unplayable."""
    folder = cache / "click-pages"
    for split, names in OF_SPLIT.items():
        (folder / split).mkdir(parents=True, exist_ok=True)
        (folder / split / "click.html").write_text(PAGE % (json.dumps(names), BUTTONS))
    world = Browser(f"{folder}/", contexts=OPEN_AT_ONCE)
    world.horizon, world.parallel = HORIZON, OPEN_AT_ONCE
    return world


def click_traces(count: int, seed: int, *, wrong: float = WRONG) -> list[Trace]:
    """Make `count` traces; the same seed makes the same ones. Their pages have names of both splits, since a word must
    have been seen to be said: none of them is ever played."""
    return [_trace(number, random.Random(f"click trace {seed} {number}"), wrong) for number in range(count)]


def _trace(number: int, chance: random.Random, wrong: float) -> Trace:
    every = [name for names in OF_SPLIT.values() for name in names]
    while True:
        buttons = chance.sample(every, BUTTONS)
        if not any(set(buttons) <= set(of_split) for of_split in OF_SPLIT.values()):
            break
    page = Page(chance.sample(buttons, chance.choice((1, 2))), buttons)
    opening = f"{page.goal}\n\nThe page:\n{page.text}"
    messages: list[Message] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": opening}]
    scores: list[float] = []
    while not scores or (scores[-1] > 0 and page.asked):
        right = page.buttons.index(page.asked[0]) + 1
        does = _other(right, len(page.buttons), chance) if chance.random() < wrong else right
        call = _call(f"call_{number}_{len(scores)}", does)
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": page.click(does)})
        scores.append(1.0 if does == right else -1.0)
    return Trace(messages, [dict(tool) for tool in TOOLS], tuple(scores), scores[-1] > 0)


def _other(right: int, of: int, chance: random.Random) -> int:
    others: Sequence[int] = [number for number in range(1, of + 1) if number != right]
    return chance.choice(others)


def _call(id: str, element: int) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "click", "arguments": json.dumps({"element": element})}}
