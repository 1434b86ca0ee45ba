"""Files of JSON lines: one way of reading and of writing them, for all of the repository."""

from __future__ import annotations

import doctest
import json
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import textfiles

ROOT = Path(__file__).parents[2]
PLAIN = {
    "lab/evidence/playing/machine.py": "/proc",
    "lab/evidence/report/writing.py": "/proc/cpuinfo",
    "environments/prose.py": "a reply",
    "environments/sandboxes/groups.py": "/proc",
    "environments/worlds/browser/chromium.py": "an error",
    "environments/worlds/harbor/dockerfiles.py": "a Dockerfile",
    "environments/worlds/harbor/folders.py": "a verifier's output",
    "chat/migrations/0005_lists.py": "SQL",
    "feedback/chat_files.py": "a quotation of Markdown",
    "training/monitoring/usage.py": "a command's output",
    "gpu_workers/servers/processes.py": "a log",
    "gpu_workers/servers/leases.py": "a command's output",
    "gpu_workers/weights.py": "a command's output",
    "gpu_workers/engine/native_wire.py": "figures of Prometheus",
    "installation/installers.py": "a command's output",
    "installation/packages.py": "a command's output",
    "installation/speech.py": "a log",
    "judge/votes/visible_rules.py": "a tool's output",
    "webapp/console/review/compare_pages.py": "a box of a form",
}
"""Where text that is no JSON is split at whatever ends a line, and what it is."""


def test_the_functions_do_what_their_docstrings_say():
    assert doctest.testmod(textfiles).failed == 0


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "with a byte order mark"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("read", [textfiles.read_lines, lambda file: list(textfiles.stream_lines(file))])
def test_lines_are_split_at_line_feeds_alone(tmp_path, mark, end, read):
    file = tmp_path / "file.jsonl"
    rows = ['{"a": "one\u2028two"}', "", '{"a": "three\u2029four"}', '{"a": "five\x85six\x0cseven"}']
    file.write_bytes((mark + "".join(row + end for row in rows)).encode())

    assert read(file) == rows
    file.write_bytes((mark + end.join(rows)).encode())  # the last line is not ended
    assert read(file) == rows


@given(st.text() | st.lists(st.text()))
def test_a_written_line_is_one_line_for_every_reader(value):
    line = textfiles.write_line(value)

    assert line.splitlines(keepends=True) == [line]
    assert json.loads(line) == value


def test_no_other_reader_of_files_splits_lines_itself():
    """A file that a program writes as JSON lines was read in fifteen places, and each had to be mended."""
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    rooms = [name for name in tracked.split() if not name.startswith(("tests/", "benchmarks/", "docker/", "core/"))]
    rooms = [name for name in rooms if not name.startswith("environments/worlds/repo/tasks/")]  # programs to be mended
    splitting = {
        name
        for name in rooms
        if re.search(r"(?<!__doc__)(?<!\(__doc__ or \"\"\))\.(splitlines|readlines)\(", (ROOT / name).read_text())
    }
    assert splitting == set(PLAIN)
