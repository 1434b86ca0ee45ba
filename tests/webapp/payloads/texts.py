"""Hostile text: what would become markup, a script, an address, a template or a formula where a page forgot to quote.

No page has elements or attributes that begin with `zz`, and none sets `window.hit`: whatever has or does got out.
"""

from __future__ import annotations

from django.db import connection

ELEMENT, ATTRIBUTE, RUN = "zz-got-out", "zz-attribute", "window.hit=1"
MARK = "zz:"
"""Before the name of the field that a text stands in."""

LONG = "W" * 120
"""A word that no line breaks by itself."""

EVALUATED = str(12_345_679 * 9)
"""What a template that ran would show, and none of its sources does: 111111111."""

PIECES = (
    f"<script>{RUN}</script><{ELEMENT}>",
    f'"><img src=x onerror={RUN}><{ELEMENT}>',
    f"'><svg/onload={RUN}><{ELEMENT}>",
    f'" {ATTRIBUTE}=1 autofocus onfocus={RUN} style=color:red x="',
    f"' {ATTRIBUTE}=1 oNmOuSeOvEr\n=\n{RUN} x='",
    f" {ATTRIBUTE}=1 onclick={RUN} ",
    f"'-({RUN})-' \\'-({RUN})-\\' `${{{RUN}}}` \\u003cscript\\u003e{RUN}\\u003c/script\\u003e",
    f"</textarea></title></style></script></noscript></template></select><{ELEMENT}>",
    f"--><{ELEMENT}> ]]><{ELEMENT}> <!-- zz <![CDATA[ <?zz",
    f"&lt;{ELEMENT}&gt; &#60;{ELEMENT}&#62; &amp;lt;{ELEMENT}&amp;gt;",
    "{{7*7}} {{12345679*9}} ${12345679*9} {% widthratio 12345679 1 9 %} {% zz %} {# zz",
    "%(zz)s %s %d {0.zz} {zz}",
    f"[a](javascript:{RUN}) [b](JaVaScRiPt&colon;{RUN}) [c](java&#10;script:{RUN}) ![d](javascript:{RUN})",
    f"[e](data:text/html,<script>{RUN}</script>) <javascript:{RUN}> [f](vbscript:{RUN}) [g](//zz.example)",
    f'[h](https://zz.example/"onmouseover="{RUN} "t\\" onclick={RUN}")',
    f"$\\href{{javascript:{RUN}}}{{x}} \\style{{color:red}}{{y}} \\text{{<{ELEMENT}>}}$",
    f'```"><{ELEMENT}>" onload={RUN}\n<{ELEMENT}>\n```\n',
    f"background:url(javascript:{RUN})}} * {{color:red;expression({RUN})",
    "\u202egnp.exe\u2066 \u200b\u200d\ufeff\u2028\u2029 the wa",
    LONG,
)

STARTS = (f"javascript:{RUN}//", f"data:text/html,<script>{RUN}</script>")
"""What a whole address might be."""

FORMULAS = ("=", "+", "-", "@", "\t=", "\r=", "\n=", " =")
FORMULA = 'HYPERLINK("https://zz.example","zz")'


def text(start: str, field: str, *, lines: bool) -> str:
    """All of it: begun with `start`, and with the field's name. Lines are apart by blank ones, as Markdown's blocks,
    and end with a NUL, which SQLite keeps and PostgreSQL refuses."""
    end = "\0" if lines and connection.vendor == "sqlite" else ""
    return start + (" \n\n" if lines else " ").join((f" {MARK}{field};", *PIECES)) + end
