"""An agent's hand on a page: it reads what the agent reads, and calls what the agent can call."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from environments.worlds.base import Call, Outcome, Seen
from environments.worlds.browser.world import BrowserAttempt

LINE = re.compile(
    r'^(?P<indent> *)(?:\[(?P<number>\d+)\] )?(?P<role>[\w-]*) ?(?P<name>"(?:[^"\\]|\\.)*")?(?P<rest>.*)$'
)


@dataclass(frozen=True)
class Element:
    number: int
    role: str
    name: str
    rest: str
    depth: int

    @property
    def value(self) -> str:
        found = re.search(r'value=("(?:[^"\\]|\\.)*")', self.rest)
        return json.loads(found[1]) if found else ""

    @property
    def at(self) -> tuple[int, int]:
        found = re.search(r"at (-?\d+),(-?\d+) size", self.rest)
        assert found, self
        return int(found[1]), int(found[2])


class Player:
    def __init__(self, attempt: BrowserAttempt) -> None:
        self.attempt = attempt
        self.goal, _, self.page = str(attempt.opening[1]["content"]).partition("\n\nThe page:\n")
        self.seen = Seen("")

    @property
    def lines(self) -> list[Element]:
        found = [LINE.match(line) for line in self.page.splitlines()]
        return [
            Element(
                int(each["number"] or 0),
                each["role"],
                json.loads(each["name"] or '""'),
                each["rest"],
                len(each["indent"]) // 2,
            )
            for each in found
            if each
        ]

    def all(self, role: str | None = None, name: str | None = None) -> list[Element]:
        """Numbered elements of a role, whose name is this, or holds it where there is none that is."""
        found = [each for each in self.lines if each.number and (role is None or each.role == role)]
        if name is None:
            return found
        return [each for each in found if each.name == name] or [
            each for each in found if name.lower() in each.name.lower()
        ]

    def one(self, role: str | None = None, name: str | None = None, place: int = 0) -> Element:
        found = self.all(role, name)
        assert len(found) > place, f"no {role} {name} {place} on:\n{self.goal}\n{self.page}"
        return found[place]

    @property
    def texts(self) -> list[str]:
        return [each.name for each in self.lines if not each.number and each.name]

    def act(self, name: str, **given: object) -> Seen:
        self.seen = self.attempt.act(Call("1", name, json.dumps(given)))
        if not self.seen.is_over and "The page:\n" in self.seen.text:
            self.page = self.seen.text.partition("The page:\n")[2]
        return self.seen

    def click(self, role: str | None = None, name: str | None = None, place: int = 0) -> Seen:
        return self.act("click", element=self.one(role, name, place).number)

    def press(self, element: Element) -> Seen:
        return self.act("click", element=element.number)

    def type(self, text: str, role: str = "textbox", name: str | None = None, place: int = 0) -> Seen:
        return self.act("type", element=self.one(role, name, place).number, text=text)

    def key(self, key: str, times: int = 1) -> Seen:
        for _ in range(times):
            self.act("key", key=key)
        return self.seen

    def submit(self) -> Seen:
        return self.click("button", "Submit")

    @property
    def quoted(self) -> list[str]:
        return re.findall(r'"([^"]*)"', self.goal)

    def find(self, pattern: str) -> re.Match[str]:
        found = re.search(pattern, self.goal)
        assert found, self.goal
        return found

    def outcome(self) -> Outcome:
        return self.attempt.outcome(is_truncated=not self.seen.is_over)
