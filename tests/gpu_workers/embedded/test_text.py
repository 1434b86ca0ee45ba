"""Token ids to text while they arrive."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gpu_workers.embedded.text import Text


def by_bytes(ids: Sequence[int]) -> str:
    return bytes(ids).decode(errors="replace")


def test_a_character_is_given_out_when_it_is_whole() -> None:
    text, seen = Text(by_bytes, (), False), []
    for byte in "né👍".encode():
        text.add(byte)
        seen.append(text.so_far)

    assert seen == ["n", "n", "né", "né", "né", "né", "né👍"]


def test_an_unfinished_character_comes_out_at_the_end() -> None:
    text = Text(by_bytes, (), False)
    text.add("é".encode()[0])
    assert text.so_far == ""
    text.finish()
    assert text.so_far == "\ufffd"


def test_a_stop_string_over_several_tokens_is_found_and_cut() -> None:
    text = Text(by_bytes, ("END",), False)
    found = [text.add(byte) for byte in b"the END"]

    assert found == [None] * 6 + ["END"]
    assert text.so_far == "the "


def test_a_stop_string_can_be_kept() -> None:
    text = Text(by_bytes, ("END",), True)
    for byte in b"the END":
        text.add(byte)

    assert text.so_far == "the END"


@given(st.text(max_size=40))
def test_pieces_make_up_the_whole(content: str) -> None:
    text = Text(by_bytes, (), False)
    for byte in content.encode():
        before = text.so_far
        text.add(byte)
        assert text.so_far.startswith(before)
    text.finish()

    assert text.so_far == content
