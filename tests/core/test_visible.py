"""Characters that are not seen: shown as marks in text, and refused in names."""

from __future__ import annotations

import unicodedata

import pytest

from core.visible import name_fault, visible


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("\x1b[2J\x1b]0;title\x07", "␛[2J␛]0;title␇"),
        ("\x00\x08\x7f", "␀␈␡"),
        ("\x9b31m", "⟨U+009B⟩31m"),  # CSI in one character
        ("invoice\u202efdp.exe", "invoice⟨U+202E⟩fdp.exe"),
        ("\u2066a\u2069\u200f\u061c", "⟨U+2066⟩a⟨U+2069⟩⟨U+200F⟩⟨U+061C⟩"),
        ("a\u200bb\ufeff\u2060", "a⟨U+200B⟩b⟨U+FEFF⟩⟨U+2060⟩"),
        ("pass\xadword", "pass⟨U+00AD⟩word"),  # a soft hyphen, drawn at the end of a line alone
        ("a\ufe00\ufe0e", "a⟨U+FE00⟩⟨U+FE0E⟩"),
        ("\u180b\u180e\u180f", "⟨U+180B⟩⟨U+180E⟩⟨U+180F⟩"),
        ("\u17b4\u17b5", "⟨U+17B4⟩⟨U+17B5⟩"),
        ("\U0001d173\U0001d17a", "⟨U+1D173⟩⟨U+1D17A⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),  # a tag: a letter that no font draws
        ("safe\roverwritten", "safe␍overwritten"),
        ("\ud83d", "⟨U+D83D⟩"),
    ],
)
def test_what_is_not_seen_gets_a_mark(written, shown):
    assert visible(written) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Two lines,\n\ta tab,\r\nand Windows' end of one.",
        "Grüße, 東京, שלום, مرحبا, नमस्ते",
        "👩\u200d🔬 and می\u200cخواهم",  # joiners spell words and emoji
        "❤\ufe0f",
        "ខ្មែរ, ᠮᠣᠩᠭᠣᠯ, 𝅘𝅥𝅮",  # Khmer, Mongolian, a note: their letters are seen
    ],
)
def test_all_else_stays(text):
    assert visible(text) == text


def test_one_line_stays_one_line():
    shown = visible("first\nsecond\tthird\r\n\u2028", one_line=True)
    assert shown == "first␊second␉third␍␊⟨U+2028⟩"
    assert len(shown.splitlines()) == 1


def test_no_control_of_unicode_comes_through():
    every = "".join(map(chr, range(0x110000)))
    left = {character for character in visible(every, one_line=True) if unicodedata.category(character) == "Cc"}
    assert left == set()


def test_no_character_that_turns_text_around_comes_through():
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    every = "".join(map(chr, range(0x110000)))
    assert not [character for character in visible(every) if unicodedata.bidirectional(character) in turning]


@pytest.mark.parametrize(
    "name", ["lap\x1btop", "\u202egniliam", "two\nlines", "tab\t", "\u200badmin", "\x07", "a\r\nb"]
)
def test_a_name_with_what_is_not_seen_is_refused_by_its_number(name):
    told = name_fault(name)
    assert told.startswith("A name holds only characters that are seen")
    assert "U+" in told
    assert visible(told, one_line=True) == told  # the sentence itself is safe to show


@pytest.mark.parametrize("name", ["laptop", "Anaïs' phone 📱", "手机", "מחשב", "👩\u200d🔬"])
def test_a_name_that_is_seen_is_taken(name):
    assert name_fault(name) == ""
