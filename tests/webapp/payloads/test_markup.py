"""The reader of pages sees each way out, where a page does forget to quote."""

from __future__ import annotations

import pytest

from tests.webapp.payloads import texts
from tests.webapp.payloads.markup import Page

TEXT = texts.text("", "a.field", lines=False)

CARELESS = (
    f"<p>{TEXT}</p>",
    f'<p title="{TEXT}"></p>',
    f"<p title='{TEXT}'></p>",
    f"<p title={TEXT}></p>",
    f"<textarea>{TEXT}</textarea>",
    f"<title>{TEXT}</title>",
    f"<style>{TEXT}</style>",
    f"<!-- {TEXT} -->",
    f"<script>let name = `{TEXT}`</script>",
    *(f'<a href="{start}">a</a>' for start in (*texts.STARTS, "\tJava\nScript:x", "vbscript:x")),
    f"<p hx-vals='js:{{a: {texts.RUN}}}'></p>",
    f"<p hx-vals='{{\"a\": 1}}' hx-on:click='{texts.RUN}'></p>",
    '<p style="color: red"></p>',
    "<p>111111111</p>",
)


@pytest.mark.parametrize("markup", CARELESS, ids=lambda markup: markup[:24])
def test_a_page_that_forgot_to_quote_has_a_fault(markup):
    assert Page(markup).faults


def test_a_page_that_quotes_has_none():
    quoted = TEXT.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    page = Page(f'<p title="{quoted}" hx-vals=\'{{"a": 1}}\'>{quoted}</p><a href="/chats/">a</a>')
    assert (page.faults, page.shapes) == (
        [],
        {("p", ""), ("p", "title"), ("p", "hx-vals"), ("a", ""), ("a", "href")},
    )
