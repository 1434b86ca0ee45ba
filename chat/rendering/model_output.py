"""Parse a model's output as it comes: words, reasoning, tool calls.

How the text was cut into pieces on its way here changes nothing of what is read.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from chat.rendering.calling import FUNCTION, STYLES, THINK, UNTHINK, USUAL, Style, kinds
from chat.rendering.calls import HEAD, Call, count_begun
from chat.rendering.lines import Line

LONG = 256
"""Characters of a call that are held back, so that one which comes to nothing can still be returned as the text it
is. A longer one is given out as it is written, unless the reader holds calls back whole."""

MOST_BROKEN = 16
"""After so many calls that came to nothing the rest of a reply is text: reading stays quick whatever is written."""

NEXT = re.compile(r"\s*[,;]?\s*(?=\{|<function=)")


@dataclass(frozen=True)
class Piece:
    """One piece of a reply, in the order in which it was written.

    `call` opens tool call number `index` (its id and name are known from here on); `arguments` is more of that
    call's arguments, JSON text.
    """

    kind: Literal["content", "reasoning", "call", "arguments"]
    text: str = ""
    index: int = 0
    id: str = ""
    name: str = ""


class Reader:
    """Parse text into pieces; what they add up to is `message`.

    Blanks next to a tag are the format's own and are left out. A call that cannot be read is content, word for word,
    and leaves the mark call_unparsed; a long one whose arguments came whole stays a call. Pieces of a call that were
    given out before it broke cannot be taken back: then `message` alone says what a reader that `holds` makes of it.
    """

    def __init__(
        self, *, style: str = "", tools: Sequence[Mapping[str, Any]] = (), opened: str = "", holds: bool = False
    ) -> None:
        """`style` is a name in chat.rendering.calling.STYLES; without `tools` nothing is a call.

        `opened` is what the prompt already wrote of the reply (an opened <think>, or a forced tool call). With `holds`
        no piece of a call is given out before the call is whole.
        """
        self.marks: list[str] = []
        self._holds = holds
        self._anew = partial(Reader, style=style, tools=tools, opened=opened, holds=True)
        self._written: list[str] = []  # kept while a call may still break after pieces of it were given out
        self._is_late = False  # one did
        self._style: Style | None = (STYLES.get(style) or STYLES[USUAL]) if tools else None
        self._types = {tool["function"]["name"]: kinds(tool["function"]) for tool in tools}
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[tuple[Piece, list[str]]] = []  # what opened it, and the pieces of its arguments
        self._pieces: list[Piece] = []
        self._held = ""  # not yet understood
        self._space = ""  # blanks that are a part of the words if more words follow
        self._at_edge = False  # right behind a tag
        self._broken = 0
        self._call = Call({}, False)
        self._opener = ""  # of the call that is being read
        self._read = self._beginning
        if opened:
            self.feed(opened)
            self._at_edge = True
            self._pieces, self._content, self._reasoning, self._opener, self._space = [], [], [], "", ""
            self._written = []

    @classmethod
    def of(cls, tools: Sequence[Mapping[str, Any]], asked: Mapping[str, Any], *, holds: bool = False) -> Reader:
        """The reader of a turn's reply, by its `tools` and what it `asked` for."""
        shown = () if asked.get("tool_choice") == "none" else tools
        opened = asked.get("opening", "") + asked.get("opened", "")
        reader = cls(style=asked.get("style", ""), tools=shown, opened=opened, holds=holds)
        if asked.get("grammar"):
            reader.marks.append("grammar")  # its log-probs are of what a schema left of the vocabulary
        return reader

    def feed(self, text: str) -> list[Piece]:
        """What this text brings to light."""
        if self._style and not self._holds:
            self._written.append(text)
        self._held += text
        return self._pass(False)

    def end(self) -> list[Piece]:
        """The last pieces: whatever was held back, a call that never closed as the text it is."""
        return self._pass(True)

    @property
    def message(self) -> dict[str, Any]:
        """The reply so far, as OpenAI's assistant message: role, content, and what else there is of
        reasoning_content and tool_calls."""
        if self._is_late:
            return self._read_anew()
        content = "".join(self._content)
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        if self._calls:
            message["content"] = content or None
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": "".join(arguments)}}
                for call, arguments in self._calls
            ]
        return message

    def _read_anew(self) -> dict[str, Any]:
        """The message with the calls that broke as text; the others keep their ids."""
        anew = self._anew()
        anew.feed("".join(self._written))
        anew.end()
        given = [(call.name, "".join(arguments), call.id) for call, arguments in self._calls]
        for n, (call, arguments) in enumerate(anew._calls):
            same = (one for one in given if one[:2] == (call.name, "".join(arguments)))
            if (known := next(same, None)) is not None:
                given.remove(known)
                anew._calls[n] = (replace(call, id=known[2]), arguments)
        return anew.message

    def _pass(self, is_last: bool) -> list[Piece]:
        while self._read(is_last):
            pass
        if is_last and self._space and self._read == self._talking:
            self._say("content", self._space)
            self._space = ""
        pieces, self._pieces = self._pieces, []
        return pieces

    # Where reading stands. Each takes what it can of what is held, and says whether there is more to do.

    def _beginning(self, is_last: bool) -> bool:
        """No words yet."""
        ahead = self._held.lstrip()
        may_think = not self._at_edge
        if not is_last and (not ahead or (may_think and THINK.startswith(ahead))):
            return False
        if may_think and ahead.startswith(THINK):
            self._held, self._at_edge, self._read = ahead[len(THINK) :], True, self._thinking
        elif ahead.startswith("{") and self._style and self._style.is_bare:
            self._open()
        else:
            self._read = self._talking
        return True

    def _thinking(self, is_last: bool) -> bool:
        thoughts, tag = self._before(UNTHINK, is_last)
        self._speak("reasoning", thoughts)
        if tag:
            self._space, self._at_edge, self._read = "", True, self._beginning
        return tag

    def _talking(self, is_last: bool) -> bool:
        style = self._style if self._broken < MOST_BROKEN else None
        words, tag = self._before(style.opener if style else "", is_last)
        self._speak("content", words)
        if tag and style:
            self._opener = style.opener
            self._open()
        return tag

    def _calling(self, is_last: bool) -> bool:
        call = self._call
        # Up to the very character, so that what is held back does not depend on how the text was cut.
        room = LONG - call.taken if call.taken < LONG else len(self._held)
        text, self._held = self._held[:room], self._held[room:]
        self._held = call.take(text) + self._held
        if call.state == "open" and call.taken == LONG and not call.can_flow() and self._is_answer(call):
            call.state = "broken"
        is_over = call.state != "open" or (is_last and not self._held)
        if is_over and call.state == "open":
            call.end()
        if is_over and call.flows and (call.is_damaged or call.state != "whole"):
            self._mark()
            if not call.is_readable():
                if self._holds:
                    self._give_up(call)
                    return True
                self._is_late = True
        if (call.flows and (is_over or not self._holds)) or call.state == "whole":
            self._tell(call)
        if not is_over:
            return bool(self._held)
        if call.state == "whole":
            self._at_edge, self._read = True, self._called
        elif call.flows:
            self._at_edge, self._read, self._held = True, self._talking, call.tail() + self._held
        else:
            self._give_up(call)
        return True

    def _called(self, is_last: bool) -> bool:
        """Behind a call: its closer, or another one."""
        closer = "]" if self._call.is_listed else self._style.closer if self._style else ""
        ahead = self._held.lstrip()
        if closer and ahead.startswith(closer):
            self._held = ahead[len(closer) :]
            if self._call.is_listed:
                self._call.is_listed = False
            else:
                self._read = self._talking
        elif not isinstance(self._call, Line) and (following := NEXT.match(self._held)):
            self._opener, self._held = following[0], self._held[following.end() :]
            self._open(is_listed=self._call.is_listed)
        elif not is_last and (ahead.strip(",; \t\r\n") == "" or closer.startswith(ahead) or FUNCTION.startswith(ahead)):
            return False
        else:
            self._read = self._talking
        return True

    # What they do

    def _before(self, tag: str, is_last: bool) -> tuple[str, bool]:
        """Take what stands before `tag`, and the tag; what may be the beginning of one stays held."""
        at = self._held.find(tag) if tag else -1
        if at >= 0:
            text, self._held = self._held[:at], self._held[at + len(tag) :]
            return text, True
        end = len(self._held) - (0 if is_last else count_begun(tag, self._held))
        text, self._held = self._held[:end], self._held[end:]
        return text, False

    def _open(self, is_listed: bool = False) -> None:
        style, self._read = self._style, self._calling
        if style and style.is_line:
            self._call = Line(self._types, style.opener)
        else:
            self._call = Call(self._types, bool(style and style.is_bare), is_listed)

    def _tell(self, call: Call) -> None:
        if not call.is_told:
            call.is_told, self._space = True, ""
            piece = Piece("call", index=len(self._calls), id=f"call_{secrets.token_hex(12)}", name=call.name)
            self._calls.append((piece, []))
            self._pieces.append(piece)
        if more := call.more():
            self._calls[-1][1].append(more)
            self._pieces.append(Piece("arguments", more, index=len(self._calls) - 1))

    def _give_up(self, call: Call) -> None:
        """No call after all: what was written is words, in which another call may stand."""
        if not self._is_answer(call):
            self._mark()
        self._broken += 1
        self._held, self._read = call.raw + self._held, self._talking
        self._speak("content", self._opener)

    def _is_answer(self, call: Call) -> bool:
        """An object that begins the reply and is no call is an answer in JSON."""
        is_bare = self._style is not None and self._style.is_bare
        return is_bare and not self._opener.strip(",; \t\r\n") and not HEAD.match(call.raw)

    def _mark(self) -> None:
        if "call_unparsed" not in self.marks:
            self.marks.append("call_unparsed")

    def _speak(self, kind: Literal["content", "reasoning"], text: str) -> None:
        """Say it, without the blanks next to a tag."""
        text, self._space = self._space + text, ""
        if self._at_edge:
            text = text.lstrip()
        if not text:
            return
        self._at_edge = False
        if kind == "reasoning" or self._style:
            words = text.rstrip()
            text, self._space = words, text[len(words) :]
        if text:
            self._say(kind, text)

    def _say(self, kind: Literal["content", "reasoning"], text: str) -> None:
        (self._content if kind == "content" else self._reasoning).append(text)
        self._pieces.append(Piece(kind, text))
