"""What scrolls sideways can be reached and scrolled with the keyboard, and says what it is."""

from __future__ import annotations

import re

import pytest

from installation.places import ROOT

SCROLLS = re.compile(r'<(?P<tag>\w+)(?=[^>]*class="[^"]*\btable-scroll\b)(?:\{%.*?%\}|\{\{.*?\}\}|[^>])*>')
TEMPLATES = ROOT / "templates"


def boxes(text: str) -> list[tuple[str, str]]:
    """The tag's name and the whole tag of each box that scrolls sideways."""
    return [(found["tag"], found[0]) for found in SCROLLS.finditer(text)]


def is_reached(tag: str, whole: str) -> bool:
    """A section with a name is a region by itself."""
    is_named = 'aria-label="' in whole or 'aria-labelledby="' in whole
    return is_named and 'tabindex="0"' in whole and (tag == "section" or 'role="region"' in whole)


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ('<div class="table-scroll">', False),
        ('<div class="table-scroll" tabindex="0" role="region">', False),
        ('<section class="card table-scroll" aria-labelledby="a">', False),
        ('<section class="card table-scroll" tabindex="0" aria-labelledby="a">', True),
        ('<div class="card table-scroll" tabindex="0" role="region" aria-label="{% translate "A > B" %}">', True),
    ],
)
def test_a_box_is_reached_with_a_tab_stop_and_a_name(markup, expected):
    [(tag, whole)] = boxes(f"<main>{markup}<table></table></main>")
    assert whole == markup
    assert is_reached(tag, whole) is expected


def test_every_box_that_scrolls_sideways_is_reached():
    found = [
        (str(page.relative_to(TEMPLATES)), *box)
        for page in TEMPLATES.rglob("*.html")
        for box in boxes(page.read_text())
    ]
    assert len(found) >= 40
    assert [(page, whole) for page, tag, whole in found if not is_reached(tag, whole)] == []
