"""Code in a fence is coloured by its language, on the server, and stays what it was."""

from __future__ import annotations

import html
import re
from time import thread_time

import pytest
from pygments.lexers import get_all_lexers

from chat.rendering import code_colours, markdown


def test_code_has_colours_by_kind_while_it_grows_and_after():
    text = '```python\ndef f(x):\n    return "a" # say\n```'
    for page in (markdown.render(text), markdown.render(text.removesuffix("\n```")), markdown.render_marked(text)):
        for kind, words in (("keyword", "def"), ("name", "f"), ("string", "&quot;a&quot;"), ("comment", "# say")):
            shown = words.replace("&quot;", '"')
            assert re.search(rf'<span class="code-{kind}"( data-at="\d+")?>{re.escape(shown)}</span>', page), kind


def test_marks_and_colours_stand_on_the_same_words():
    page = markdown.render_marked("```py\nreturn 1\n```", ((6, 12, -1),))
    assert '<mark class="bad code-keyword" title="Marked as bad" data-at="6">return</mark>' in page


@pytest.mark.parametrize("language", ["python", "py", "js", "ts", "html", "css", "json", "bash", "sh", "sql", "java",
                                      "c", "cpp", "c#", "go", "rust", "ruby", "php", "yaml", "toml", "diff", "xml",
                                      "console", "dockerfile", "tsx", "jsx"])  # fmt: skip
def test_common_names_of_languages_are_known(language):
    assert code_colours.lexer_of(language)


def test_every_language_that_is_named_has_a_lexer():
    assert {name for name, *_ in get_all_lexers()} >= code_colours.LANGUAGES


@pytest.mark.parametrize("info", ["", "nosuch", "brainfuck", '"><script>alert(1)</script>', "x" * 3000, "../python"])
def test_code_of_another_language_is_plain(info):
    page = markdown.render(f"```{info}\nif x < 1:\n```")
    assert "if x &lt; 1:" in page
    assert "code-keyword" not in page
    assert "<script" not in page


HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</code></pre><svg onload=alert(1)>", "{{x}}"]


@pytest.mark.parametrize("language", ["html", "js", "python", "bash", "diff", "php", "markdown", ""])
@pytest.mark.parametrize("code", HOSTILE)
def test_code_is_text_whatever_its_language(language, code):
    for page in (markdown.render(f"```{language}\n{code}\n```"), markdown.render_marked(f"```{language}\n{code}\n```")):
        tags = re.findall(r"<[^>]*>", page)
        assert not [tag for tag in tags if re.search(r"^<(script|img|svg)|\son\w+=", tag)]
        inside = page.split("<pre>")[1].split("</pre>")[0]
        assert html.unescape(re.sub(r"<[^>]*>", "", inside)).strip() == code


@pytest.mark.parametrize(
    ("language", "unit"), [("c", "\n"), ("c#", "a\n"), ("make", "a"), ("java", "a "), ("html", "<")]
)
def test_odd_code_takes_no_longer_than_the_patience_for_it(language, unit):
    code = unit * (code_colours.LONGEST // len(unit))
    begun = thread_time()
    code_colours.coloured(code, language)
    # One token beyond it. Without the bound newlines in C take 5 s, letters in C# 15.
    assert thread_time() - begun < 5 * code_colours.PATIENCE_S


def test_very_long_code_is_plain():
    assert code_colours.coloured("return\n" * 100, "py")
    assert not code_colours.coloured("return\n" * 2000, "py")
