"""Say which stretches of a code block are keywords, strings, comments and so on; the stylesheet has the colours."""

from __future__ import annotations

from functools import cache, lru_cache
from time import thread_time

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Generic, Keyword, Name, Number, String, _TokenType
from pygments.util import ClassNotFound

LONGEST = 10_000
"""Characters of code that are coloured at most; longer code is shown plain."""

PATIENCE_S = 0.1
"""Processor time for one block; what is behind stays plain. Some lexers take quadratic time on odd text."""

LANGUAGES = {
    *("Bash", "Bash Session", "Batchfile", "C", "C#", "C++", "CMake", "CSS", "Dart", "Diff", "Docker", "Elixir"),
    *("Fortran", "Go", "GraphQL", "HTML", "Haskell", "INI", "JSON", "Java", "JavaScript", "Julia", "Kotlin", "Lua"),
    *("Makefile", "Markdown", "Nginx configuration file", "Objective-C", "PHP", "Perl", "PowerShell", "Python"),
    *("Python console session", "S", "Ruby", "Rust", "SCSS", "SQL", "Scala", "Swift", "TOML", "TeX", "TypeScript"),
    *("XML", "YAML", "Zig"),
}
"""Names of Pygments' lexers that are used: common languages, so that no other is ever imported."""

ALSO = {"jsx": "js", "tsx": "ts", "node": "js"}
"""What Pygments calls a language that has another name behind a fence."""

KINDS: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "code-comment"),
    (String, "code-string"),
    (Number, "code-number"),
    (Keyword, "code-keyword"),
    (Name.Tag, "code-keyword"),
    (Name.Function, "code-name"),
    (Name.Class, "code-name"),
    (Name.Decorator, "code-name"),
    (Name.Attribute, "code-name"),
    (Name.Builtin, "code-builtin"),
    (Name.Variable, "code-builtin"),
    (Generic.Inserted, "code-inserted"),
    (Generic.Deleted, "code-deleted"),
    (Generic.Heading, "code-keyword"),
    (Generic.Subheading, "code-name"),
)


@lru_cache(maxsize=256)
def coloured(code: str, language: str) -> tuple[tuple[int, int, str], ...]:
    """The stretches of `code` that have a colour, as (start, end, CSS class) in characters, in order and apart.

    >>> coloured("x = 1  # one", "py")
    ((4, 5, 'code-number'), (7, 12, 'code-comment'))
    >>> coloured("x = 1", "no such language")
    ()
    """
    lexer = lexer_of(language)
    if lexer is None or len(code) > LONGEST:
        return ()
    found = []
    until = thread_time() + PATIENCE_S
    for at, sort, words in lexer.get_tokens_unprocessed(code):
        if (kind := kind_of(sort)) and words:
            found.append((at, at + len(words), kind))
        if thread_time() > until:
            break
    return tuple(found)


@lru_cache(maxsize=256)
def lexer_of(language: str) -> Lexer | None:
    """Pygments' lexer for what stands behind a fence; None for a language that is not one of ours."""
    try:
        lexer = get_lexer_by_name(ALSO.get(language, language))
    except ClassNotFound:
        return None
    return lexer if lexer.name in LANGUAGES else None


@cache
def kind_of(sort: _TokenType) -> str:
    return next((kind for above, kind in KINDS if sort in above), "")
