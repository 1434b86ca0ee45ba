"""Write to terminals and scripts: marks for what a terminal obeys, JSON with escapes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TextIO, cast

from django.core.management.base import BaseCommand, OutputWrapper

from core.visible import escape_hidden, visible


class Terminal(OutputWrapper):
    """A stream to a terminal, or to a program that reads what it would show."""

    def write(  # type: ignore[override]  # as OutputWrapper has it
        self, msg: str = "", style_func: Callable[[str], str] | None = None, ending: str | None = None
    ) -> None:
        super().write(visible(str(msg)), style_func, ending)

    def write_json(self, value: Any, indent: int | None = None) -> None:
        """JSON that says the same to a program, and nothing to a terminal."""
        self.write(escape_hidden(json.dumps(value, indent=indent, ensure_ascii=False)))

    def write_text(self, text: str) -> None:
        """A whole text for further use, with no line feed added: as it is where no terminal reads it."""
        if self.isatty():
            self.write(text, ending="")
        else:
            cast(TextIO, self._out).write(text)


class TerminalCommand(BaseCommand):
    """A command whose two streams are Terminals; the base of all of ours."""

    _streams: dict[str, Terminal]

    @property
    def stdout(self) -> Terminal:
        return self._streams["stdout"]

    @stdout.setter
    def stdout(self, wrapper: OutputWrapper) -> None:
        self._wrap("stdout", wrapper)

    @property
    def stderr(self) -> Terminal:
        return self._streams["stderr"]

    @stderr.setter
    def stderr(self, wrapper: OutputWrapper) -> None:
        self._wrap("stderr", wrapper)

    def _wrap(self, name: str, wrapper: OutputWrapper) -> None:
        terminal = Terminal(cast(TextIO, wrapper._out), ending=wrapper.ending)
        terminal.style_func = wrapper.style_func
        self.__dict__.setdefault("_streams", {})[name] = terminal
