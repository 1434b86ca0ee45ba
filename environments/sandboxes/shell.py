"""A shell whose folder, variables and functions last from one command to the next, over commands that each end.

What lasts lies in the sandbox's shared memory, which never travels. A command that runs out of time ends alone, with
what it and those before it started; what lasted before it still does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from environments.sandboxes.sandbox import Result, Sandbox

KEPT = "/dev/shm/.shell"  # noqa: S108 - a place inside a sandbox, not the host's
MOST_COMMAND = 100_000
"""Characters of a command: one word of a program's arguments holds no more."""
SCRIPT = f"""
exec 2>&1 < /dev/null
cd -- "$2" 2> /dev/null
if [ -r {KEPT} ]; then
  unset -- "${{@:3}}"
  . {KEPT} 2> /dev/null
fi
__keep() {{
  for __name in $(compgen -v); do
    case $__name in
      BASH*|COMP_*|DIRSTACK|EPOCH*|EUID|FUNCNAME|GROUPS|HISTCMD|HOSTTYPE|LINENO|MACHTYPE|OPT*|OSTYPE|PIPESTATUS) ;;
      PPID|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID|_|__*) ;;
      *) declare -p "$__name" ;;
    esac
  done
  unset -f __keep; declare -f; alias -p; umask -p
  printf 'cd -- %q\\n' "$PWD"
}}
trap '__keep > {KEPT}.new 2> /dev/null; /bin/mv {KEPT}.new {KEPT}' EXIT
shopt -s expand_aliases
__command=$1; set --
eval "$__command"
"""


@dataclass
class Shell:
    sandbox: Sandbox
    env: Mapping[str, str]
    """What the first command finds."""
    workdir: str

    def run(self, command: str, timeout_s: float) -> Result:
        """The result has both streams in `out`, in their order. Raises SandboxEnded."""
        if len(command) > MOST_COMMAND:
            said = f"bash: a command of {len(command)} characters is too long: {MOST_COMMAND} at most.\n"
            return Result(126, said.encode(), b"")
        argv = ["bash", "--noprofile", "--norc", "-c", SCRIPT, "bash", command, self.workdir, *self.env]
        return self.sandbox.run(argv, timeout_s=timeout_s, env=self.env, cwd="/")


def shown(result: Result, most: int, timeout_s: float) -> str:
    """What an agent reads: the output, cut in the middle to `most` bytes, and the exit code in a line of its own.

    The first line is always ours, so nothing that a command prints can pass for its exit code.

    >>> shown(Result(0, b"", b""), 100, 30), shown(Result(2, b"ls: no such file\\n", b""), 100, 30)
    ('Exit code: 0', 'Output:\\nls: no such file\\nExit code: 2')
    >>> print(shown(Result(1, b"a" * 1000, b"", left_out=500), 4, 30))
    Output:
    aa
    [1,496 bytes left out]
    aa
    Exit code: 1
    """
    left_out = max(0, len(result.out) + result.left_out - most) if len(result.out) > most else 0
    half = most // 2
    if left_out:
        text = f"{_text(result.out[:half])}\n[{left_out:,} bytes left out]\n{_text(result.out[-half:])}"
    else:
        text = _text(result.out)
    lines = ["Output:", text.rstrip()] if text.strip() else []
    if result.timed_out:  # 124, as the command timeout says it
        return "\n".join([*lines, f"It was ended after {timeout_s:g} s, with all that was started.", "Exit code: 124"])
    return "\n".join([*lines, f"Exit code: {result.status}"])


def _text(out: bytes) -> str:
    return out.decode("utf-8", "replace").replace("\0", "\ufffd")
