"""A journal that is killed at any byte goes on with every whole row, and with none twice."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.evidence.playing.journal import Journal, JournalUnreadable

VALUES = st.dictionaries(st.sampled_from(["reply", "n", "list"]), st.text() | st.integers() | st.lists(st.floats(0, 1)))


@settings(max_examples=60, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=8), st.data())
def test_killed_at_any_byte_it_keeps_the_whole_rows_and_goes_on_to_the_same_end(rows: list[dict], data) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"

        def work() -> list[dict]:
            """What a run does: each thing once, unless it is in the journal."""
            journal = Journal(path)
            for number, row in enumerate(rows):
                if f"row/{number}" not in journal:
                    journal.write(f"row/{number}", **row)
            journal.close()
            return list(Journal(path))

        whole = work()
        content = path.read_bytes()
        path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
        assert work() == whole
        assert path.read_bytes() == content


def test_rows_are_there_when_write_returns(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "sub" / "journal.jsonl")  # its folder is made
    journal.write("probed/base/1/0", replies=3)
    assert Journal(journal.path).get("probed/base/1/0") == {"key": "probed/base/1/0", "replies": 3}
    assert [row["key"] for row in journal.under("probed/base/")] == ["probed/base/1/0"]
    assert journal.get("probed/base/1/4") is None


def test_a_key_is_written_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write("a")
    with pytest.raises(ValueError, match=r"a is in journal\.jsonl already"):
        journal.write("a")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"key": "a"}\nnonsense\n{"key": "b"}\n', "line 2 is no JSON"),
        ('{"arm": "base"}\n', "line 1 was not written by this command"),
        ('{"key": "a"}\n{"key": "a"}\n', "says a twice"),
    ],
)
def test_what_another_program_wrote_is_refused_with_its_line(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(content)
    with pytest.raises(JournalUnreadable, match=said):
        Journal(path)


def test_a_row_whose_reply_holds_line_separators_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"key": "old", "reply": "raw\u2028one\x85two"}\n', encoding="utf-8")  # as earlier runs wrote it
    journal = Journal(path)
    journal.write("new", reply="three\u2029four")
    journal.close()

    assert [row["reply"] for row in Journal(path)] == ["raw\u2028one\x85two", "three\u2029four"]
    assert path.read_text(encoding="utf-8").splitlines()[-1] == '{"key": "new", "reply": "three\\u2029four"}'
