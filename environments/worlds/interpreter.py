"""The world `interpreter`: a question with one right answer, and Python in a sandbox to work it out (arXiv 2504.11536).

Its rule for single steps speaks of faults alone: that a program ran is no merit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from environments.errors import SandboxEnded, Unplayable
from environments.sandboxes.choosing import open_sandbox
from environments.sandboxes.sandbox import MIB, Result, Sandbox, Wants
from environments.worlds import answers
from environments.worlds.answers import Check
from environments.worlds.base import Attempt, Call, Outcome, Seen, Split, Task, World
from environments.worlds.problems import File, ReasoningGym, Source

RUN_S = 10.0
MOST_SHOWN = 2000
"""Characters of what a program printed: its beginning and its end."""
MOST_CODE = 100_000
WANTS = Wants(memory=256 * MIB, processes=16, disk=32 * MIB)


def _tool(name: str, description: str, field: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {field: {"type": "string"}},
        "required": [field],
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = (
    _tool("python", "Run a Python program and see what it prints. Each runs by itself; files stay.", "code"),
    _tool("answer", "Give the final answer. It ends the task.", "value"),
)
SYSTEM = "Solve the task. Compute with python where it helps, and print what you want to see. Then call answer."


class Interpreter(World):
    name, horizon, parallel = "interpreter", 16, 32

    def __init__(
        self, source: Source, check: Check = "math", *, sandbox: Callable[[Wants], Sandbox] = open_sandbox
    ) -> None:
        answers.require(check)
        self._source, self._check, self._sandbox = source, check, sandbox

    @classmethod
    def named(cls, rest: str, check: Check = "math") -> Interpreter:
        """`reasoning-gym/NAME`, or a file that ends with .jsonl. Raises Unplayable, or OSError."""
        kind, _, name = rest.partition("/")
        if kind == "reasoning-gym" and name:
            return cls(ReasoningGym(name), check)
        if Path(rest).suffix == ".jsonl":
            return cls(File(Path(rest)), check)
        raise Unplayable("--world interpreter: it reads interpreter:reasoning-gym/NAME or interpreter:FILE.jsonl.")

    def tasks(self, split: Split, count: int, seed: int) -> list[Task]:
        return [
            Task(self.name, one.id, split, {"question": one.question, "answer": one.answer})
            for one in self._source.problems(split, count, seed)
        ]

    def open(self, task: Task, seed: int) -> InterpreterAttempt:
        return InterpreterAttempt(task.data["question"], task.data["answer"], self._check, self._sandbox(WANTS))


class InterpreterAttempt(Attempt):
    tools: Sequence[Mapping[str, Any]] = TOOLS

    def __init__(self, question: str, gold: str, check: Check, sandbox: Sandbox) -> None:
        self._gold, self._check, self._sandbox = gold, check, sandbox
        self._is_right = self._is_broken = False
        self._programs = 0
        self.opening = ({"role": "system", "content": SYSTEM}, {"role": "user", "content": question})

    def act(self, call: Call) -> Seen:
        given, wanted = call.read(), {"python": "code", "answer": "value"}.get(call.name)
        if wanted is None:
            return Seen(f"Error: there is no tool {call.name!r}.", -1.0)
        said = (given or {}).get(wanted)
        if isinstance(said, int | float) and not isinstance(said, bool) and wanted == "value":
            said = str(said)
        if given is None or set(given) != {wanted} or not isinstance(said, str):
            return Seen(f"Error: {call.name} takes {wanted} as text.", -1.0)
        if call.name == "python":
            return self._run(said)
        self._sandbox.kill()
        self._is_right = answers.is_right(self._gold, said, self._check)
        return Seen("Done.", 1.0 if self._is_right else -1.0, is_over=True)

    def hear(self, text: str) -> Seen:
        return Seen("Call a tool: python or answer.", -1.0)

    def outcome(self, *, is_truncated: bool) -> Outcome:
        if is_truncated:
            return Outcome("truncated", None, {"programs": self._programs})
        checks = {"right": self._is_right, "programs": self._programs, "broke its sandbox": self._is_broken}
        return Outcome("solved", 1.0, checks) if self._is_right else Outcome("failed", -1.0, checks)

    def close(self) -> None:
        self._sandbox.kill()

    def _run(self, code: str) -> Seen:
        """A program that ends its sandbox ends the attempt: it is the agent's failure, and no fault of the world."""
        self._programs += 1
        if len(code) > MOST_CODE or "\0" in code:
            return Seen(f"Error: a program has at most {MOST_CODE} characters, and none of them is NUL.", -1.0)
        try:
            self._sandbox.put("program.py", code.encode(errors="replace"))
            result = self._sandbox.run(["python3", "-I", "program.py"], timeout_s=RUN_S)
        except OSError as error:  # it filled its folder, or put a folder in the program's place
            return Seen(f"Error: the program cannot be written ({error}).", -1.0)
        except SandboxEnded:
            self._is_broken = True
            return Seen("The sandbox ended.", -1.0, is_over=True)
        return Seen(shown(result), -1.0 if result.status or result.timed_out else None)


def shown(result: Result) -> str:
    """What a model sees of a program's run.

    >>> shown(Result(0, b"42", b"")), shown(Result(1, b"", b"NameError"))
    ('42', 'NameError\\n[exit code 1]')
    """
    text = "\n".join(one.decode(errors="replace").strip() for one in (result.out, result.err) if one.strip())
    if len(text) > MOST_SHOWN:
        half = MOST_SHOWN // 2
        text = f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
    if result.timed_out:
        return f"{text}\n[ended after {RUN_S:.0f} s]".lstrip()
    if result.status:
        return f"{text}\n[exit code {result.status}]".lstrip()
    return text or "[nothing was printed]"
