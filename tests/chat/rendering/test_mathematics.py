"""LaTeX in a message is drawn as MathML, and nothing in it can run, load, or cover the page."""

from __future__ import annotations

import re
from time import process_time

import pytest

from chat.rendering import markdown, mathematics

SQUARE = "<msup><mi>x</mi><mn>2</mn></msup>"


@pytest.mark.parametrize(
    ("text", "display"),
    [
        ("It is $x^2$.", "inline"),
        (r"It is \(x^2\).", "inline"),
        ("$$x^2$$", "block"),
        ("$$\nx^2\n$$", "block"),
        (r"\[ x^2 \]", "block"),
        ("so:\n\\[\nx^2\n\\]\nand", "block"),
        ("- one\n\n  $$\n  x^2\n  $$\n", "block"),
        ("> $$x^2$$", "block"),
        ("| a |\n|---|\n| $x^2$ |", "inline"),
        (r"the line $$x^2$$ holds it", "block"),
    ],
)
def test_mathematics_is_drawn(text, display):
    for html in (markdown.render(text), markdown.render_marked(text)):
        assert f'<math display="{display}"><mrow>{SQUARE}</mrow></math>' in html


@pytest.mark.parametrize(
    "text",
    [
        "It costs $5 or $6.",
        "between US$5 and A$ 6",
        "$5/$10 and $20",
        "a $ b $ c",
        "an unclosed $x^2 here",
        "$HOME and $PATH",
        r"\$x\$",
        "`$x^2$`",
        "```\n$$x^2$$\n```",
        r"\( never closed",
        "$$\nx\n\ny\n$$",  # a blank line ends it
    ],
)
def test_what_is_no_mathematics_stays_as_it_was_written(text):
    assert "<math" not in markdown.render(text)


def test_a_formula_with_stars_and_underscores_is_not_read_as_markdown():
    html = markdown.render(r"$a_1*b_1*c$ and *this*")
    assert html.count("<em>") == 1
    assert html.count("<msub>") == 2


def test_less_than_in_a_formula_and_in_its_text_is_text():
    assert "<mo>&lt;</mo>" in markdown.render("$a<b$")
    assert "<mtext>if a &lt; b &amp; c</mtext>" in markdown.render(r"$\text{if a < b & c}$").replace("&nbsp;", " ")


PAYLOADS = [
    r"\text{<script>alert(1)</script>}",
    r"\text{<img src=x onerror=alert(1)>}",
    r"\mbox{</math><img src=x onerror=alert(1)>}",
    r"\text{<style>@import 'http://x.y'</style>}",
    r"\text{<annotation-xml encoding='text/html'><svg onload=alert(1)>}",
    r"\text{&lt;script&gt;alert(1)&lt;/script&gt;}",
    r"\href{javascript:alert(1)}{x}",
    r"\href{http://x.y/z}{x}",
    r"\style{background:url(http://x.y/z)}{x}",
    r"\class{hx-get}{x}",
    r'\style{x" onmouseover="alert(1)}{x}',
    r'\hspace{1em" onclick="alert(1)}',
    r'\color{red" onclick="alert(1)}{x}',
    r"</math><script>alert(1)</script>",
    r"\operatorname{<script>alert(1)</script>}",
    r"\begin{<script>}x\end{<script>}",
    r"\unicode{<script>}",
]
HARMFUL = r"^<(?!/?(math|m[a-z]+|none|p|code|br|span|em|strong)\b)|\s(on\w+|href|style|class|src|hx-[\w-]+)="


@pytest.mark.parametrize("latex", PAYLOADS)
@pytest.mark.parametrize("form", ["${}$", "$${}$$", r"\({}\)", "\\[\n{}\n\\]"])
def test_a_formula_brings_no_markup_to_life(latex, form):
    text = form.replace("{}", latex)
    for html in (markdown.render(text), markdown.render_marked(text), mathematics.mathml(latex, True)):
        tags = re.findall(r"<[^>]*>", html)
        assert tags
        assert not [tag for tag in tags if re.search(HARMFUL, tag)]


def test_lengths_that_would_cover_the_page_are_left_out():
    assert "9999" not in markdown.render(r"$\rule{9999em}{99999pt} \hspace{99999em} x$")
    assert 'width="2em"' in markdown.render(r"$a \hspace{2em} b$")


@pytest.mark.parametrize(
    "latex",
    [
        r"\frac{1}{",
        r"\left( x",
        "x_a_b",
        "{" * 300 + "}" * 300,
        r"\newcommand{\a}{xx}\newcommand{\b}{\a\a}\b",
        r"\def\a{\a\a}\a",
        r"\begin{matrix}" * 30,
    ],
)
def test_what_cannot_be_drawn_is_shown_as_code(latex):
    assert mathematics.mathml(latex, False) == f"<code>{latex}</code>"


@pytest.mark.parametrize(
    "unit",
    ["$a ", "$a$", r"\(", r"\(a\)", r"\[", "$$", "$$\n", "\\[\n", r"$\frac12$ ", "\\", "{", "$x_", "> $$\n", "$a\\"],
)
def test_twenty_thousand_characters_of_mathematics_are_read_in_no_time(unit):
    text = unit * (20_000 // len(unit))
    begun = process_time()
    markdown.render(text)
    assert process_time() - begun < 3  # a tenth of it here; what is quadratic takes a minute
