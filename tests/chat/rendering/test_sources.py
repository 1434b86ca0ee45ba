"""Every word that a page shows knows its place in the Markdown it was written in, or has none."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chat.rendering import markdown, sources
from chat.rendering.sources import settle_places

PART = st.sampled_from(
    [
        *("# ", "- ", "1. ", "2) ", "> ", "  ", "\n", "\n\n", "```\n", "~~~py\n", "| ", "|---|---|\n", "    ", "\t"),
        *("**", "*", "_", "`", "~~", "``", "[", "](http://x.y/z)", "](", "]", "<http://a.b>", "<b>", "![", "]: /u\n"),
        *("&amp;", "&lt;", "&#65;", "&", "\\*", "\\", "🙂", "é", ". ", ", ", "!", "?", "...", "=", "---\n", "===\n"),
        *("$", "$$", "\\(", "\\)", "\\[", "\\]", "\\frac12", "```py\n"),
        *("word", "two words", "A", "7", "snake_case", "日本", "don't", "3.5", "http://q.r", "\r\n", "\u0301"),
    ]
)
TEXTS = st.lists(PART, max_size=24).map("".join)

REPLY = """# A *rainbow*, explained

Sun & rain: **light** is bent (see [here](https://a.b/c "t"), or <http://x.y>), 3 < 5 &lt; 6.
It costs `two  **words**` or ~~less~~ more; a\\*b 🙂 _very_ nice.

1. first **one**
2. second
   - deep `x`

| a | b |
|---|---|
| 1 | **2** |

> quoted

```python
def f(x):
    return x  # 日本
```
"""


def placed(text: str, spans=()) -> list[tuple[int, str, str]]:
    """(place, words, class) of each element that knows its place."""
    found = re.findall(r'<(?:span|mark)([^>]*) data-at="(\d+)">([^<]*)<', markdown.render_marked(text, tuple(spans)))
    kinds = {kind: re.search('class="(.*?)"', kind) for kind, _, _ in found}
    return [(int(at), html.unescape(words), (m[1] if (m := kinds[kind]) else "")) for kind, at, words in found]


def bare(page: str) -> str:
    return re.sub(r"</?(span|mark)[^>]*>", "", page)


@given(TEXTS)
@example(REPLY)
@example("[a]\n\n[a]: /u")
@example("a`b\nc`d")
@example("It is $x^2$, \\(y\\), $5 or $6; $a$b.\n\n$$\nz\n$$\n\\[ w \\]")
@settings(max_examples=300, deadline=None)
def test_the_page_is_the_same_and_every_placed_word_stands_there(text):
    assert bare(markdown.render_marked(text)) == bare(markdown.render(text))
    for at, words, _ in placed(text):
        assert text[at : at + len(words)] == words


@given(st.lists(st.one_of(PART, st.none()), max_size=24))
@settings(max_examples=300, deadline=None)
def test_no_word_is_given_the_place_of_another(parts):
    """Letters that occur once each: where one is shown, there is only one place that it can come from."""
    letters = iter([chr(0x4E00 + n) for n in range(400)])
    text = "".join("".join(next(letters) for _ in range(3)) if part is None else part for part in parts)

    for at, words, _ in placed(text):
        for n, letter in enumerate(words):
            if "\u4e00" <= letter <= "\u5200":
                assert text.index(letter) == at + n


def test_of_an_ordinary_reply_every_letter_has_its_place():
    tokens = markdown.parser.parse(REPLY)
    contents = "".join(token.content for token in sources.word_tokens(tokens))
    at = [place for one in sources.places(REPLY, tokens, markdown.parser) for place in one]

    without = [c for c, place in zip(contents, at, strict=True) if place is None]
    assert not [c for c in without if c.isalnum()], without
    assert len(without) < 0.05 * len(contents)
    assert [place for place in at if place is not None] == sorted({place for place in at if place is not None})


@pytest.mark.parametrize(
    ("shown", "known", "text", "places"),
    [
        ("a, b", [0, None, None, 5], "a**, b", [0, 3, 4, 5]),
        ("a.b", [0, None, 4], "a..)b", [0, None, 4]),  # the first or the second: that is undecided
        ("a<b", [0, None, 5], "a&lt;b", [0, None, 5]),  # it stands nowhere as it is shown
        (".", [None], "* .", [2]),
        ("", [], "***", []),
    ],
)
def test_what_stands_between_is_placed_where_it_can_only_be(shown, known, text, places):
    assert settle_places(shown, known, text) == places


def test_a_mark_is_drawn_over_markup_and_over_nothing_else():
    text = "It is **very bad** indeed, and `so` on."
    assert placed(text, [(6, 25, -1)]) == [
        (0, "It is ", ""),
        (8, "very bad", "bad"),
        (18, " indeed", "bad"),
        (25, ", and ", ""),
        (32, "so", ""),
        (35, " on.", ""),
    ]


def test_good_and_bad_stand_side_by_side_to_the_character():
    assert placed("abcdef", [(1, 3, 1), (3, 4, -1)]) == [
        (0, "a", ""),
        (1, "bc", "good"),
        (3, "d", "bad"),
        (4, "ef", ""),
    ]


def test_what_has_no_place_is_drawn_as_what_surrounds_it():
    page = markdown.render_marked("a &lt; b", ((0, 8, 1),))
    assert bare(page) == markdown.render("a &lt; b")
    assert page.count('class="good"') == 3  # a, what has no place, b
    assert 'class="good"' not in markdown.render_marked("a &lt; b", ((0, 1, 1),)).split("&lt;")[1]


@given(TEXTS, st.integers(0, 60), st.integers(1, 60))
@settings(max_examples=200, deadline=None)
def test_what_is_drawn_as_marked_is_what_is_marked(text, start, length):
    start = min(start, len(text))
    end = min(len(text), start + length)
    drawn = "".join(words for _, words, kind in placed(text, [(start, end, 1)]) if "good" in kind.split())
    assert drawn == markdown.shown_text(text, start, end)


def test_marks_bring_no_markup_of_a_reply_to_life():
    page = markdown.render_marked('<script>x</script> <span data-at="1" onclick="y">', ((0, 4, 1),))
    assert "<script" not in page
    assert page.count("<span") == len(re.findall(r'<span data-at="\d+">', page))


class Counted(tuple):
    """Places that count how many of them are looked at or copied."""

    read = 0

    def __getitem__(self, index):
        found = super().__getitem__(index)
        Counted.read += len(found) if isinstance(index, slice) else 1
        return found

    def __iter__(self):
        Counted.read += len(self)
        return super().__iter__()


def test_each_place_is_looked_at_a_few_times_however_many_are_not_known():
    Counted.read = 0
    at = Counted([0, *[None] * 1000, 1001])
    assert markdown.pieces("x" * 1002, at, [1] * 1002).count("<mark") == 3  # the first, those without a place, the last
    assert Counted.read <= 6 * 1002  # and not 1002 · 1001, as with a copy of all that is left and right of each


@pytest.mark.parametrize(
    ("content", "at", "is_marked"),
    [
        ("axb", (0, None, 1), True),
        ("axb", (0, None, 2), False),
        ("axb", (0, None, 3), False),
        ("xa", (None, 0), False),
        ("ax", (0, None), False),
    ],
)
def test_what_has_no_place_is_marked_where_both_sides_are(content, at, is_marked):
    html = markdown.pieces(content, at, [1, 1, 0, -1])
    assert ('<mark class="good" title="Marked as good">x</mark>' in html) == is_marked


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("](" + "a" * 2000 + ")", 1),
        ("](" + "a" * 2001 + ")", 0),  # nothing is looked for further than this: there may be as many openers as words
        ("<a <b> <c<d>", 2),
    ],
)
def test_syntax_is_looked_for_no_further_than_it_may_reach(text, found):
    assert [len(match[0]) <= 2003 for match in sources.SYNTAX.finditer(text)] == [True] * found


def test_no_address_holds_the_beginning_of_another():
    assert [match[0] for match in sources.SYNTAX.finditer("<a<b> " + "<" * 50 + ">")] == ["<b>", "<>"]


def test_a_name_in_brackets_is_as_long_as_a_links_may_be():
    # 999 characters in CommonMark
    assert sources.BRACKETS.search("[" + "a" * 999 + "]")
    assert not sources.BRACKETS.search("[" + "a" * 1000 + "]")
