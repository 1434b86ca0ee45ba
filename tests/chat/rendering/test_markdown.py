"""A reply is shown with its markup, and can do nothing."""

import re

import pytest

from chat.rendering import markdown


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**bold**", "<p><strong>bold</strong></p>"),
        ("1. one\n2. two", "<ol>\n<li>one</li>\n<li>two</li>\n</ol>"),
        ("a\nb", "<p>a<br>\nb</p>"),
        ("`1 < 2`", "<p><code>1 &lt; 2</code></p>"),
        ("| a |\n|---|\n| b |", "<th>a</th>"),
        ("[link](https://example.org)", 'href="https://example.org"'),
        ("an unclosed **bold", "<p>an unclosed **bold</p>"),
        ("", ""),
    ],
)
def test_markup_is_shown(text, html):
    assert html in markdown.render(text)


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "![x](https://example.org/track.png)",
        "[x](javascript:alert(1))",
        '[x](https://example.org "onmouseover=alert(1)")',
        "<a href='javascript:alert(1)'>x</a>",
        "<svg onload=alert(1)>",
        "```html\n<script>alert(1)</script>\n```",
        "<div hx-get='/chats/'>x</div>",
    ],
)
def test_nothing_runs_loads_or_asks(text):
    html = markdown.render(text)
    tags = re.findall(r"<[^>]+>", html)
    assert not [tag for tag in tags if re.search(r"^<(script|img|svg|div)|\son\w+=|hx-|javascript:", tag)]


def test_links_tell_no_site_where_they_were():
    assert 'rel="noopener noreferrer"' in markdown.render("[link](https://example.org)")
