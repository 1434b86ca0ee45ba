"""All that pages say can be said in each language, and is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from django.conf import settings
from django.utils import translation

from evaluation.datasets import reading
from installation.languages import stale
from tests.webapp.languages import bare_failures, bare_words, catalogues


@pytest.fixture(scope="module")
def said() -> dict[str, Catalog]:
    return catalogues.said()


def test_no_template_says_words_that_no_translation_reaches():
    left = [str(found) for path in bare_words.templates([]) for found in bare_words.bare_words(path)]
    assert left == []


def test_what_no_translation_reaches_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(bare_words, "TEMPLATES", tmp_path)
    page = tmp_path / "page.html"
    page.write_text(
        '{% load i18n %}<h1 title="{% translate "Kept" %}">{% translate "Said" %} Talkback</h1>\n'
        '<p aria-label="Heard">{% if a %}Read{% endif %} <code>left alone</code></p>\n'
        "{% blocktranslate %}Whole <b>sentence</b>{% endblocktranslate %}{# noted #}<input type=submit value=Send>"
    )
    assert [(one.line, one.words) for one in bare_words.bare_words(page)] == [(2, "Heard"), (2, "Read"), (3, "Send")]


def test_no_failure_that_a_page_shows_says_words_that_no_translation_reaches():
    assert [str(found) for found in bare_failures.all_bare([])] == []


def test_a_failure_that_no_translation_reaches_is_found():
    source = (
        'TOO_LATE = "It is too late."\n'
        'HELD = gettext_noop("It is held.")\n'
        "def export(request, kind):\n"
        '    messages.error(request, f"No export of {kind}.")\n'
        '    said = _("%(kind)s is gone.")\n'
        '    raise ExportGone(said % {"kind": kind})\n'
        "    raise ExportGone(TOO_LATE)\n"
        "    raise ExportGone(HELD)\n"
        '    raise exports.ExportRefused("Too many" if kind else _("Too few"))\n'
        '    raise ValueError("an export has a kind")\n'
        '    raise NotOffered(f"{kind} is not offered.")\n'
    )
    found = [(one.line, " ".join(one.words.split())) for one in bare_failures.bare_failures(source)]
    assert sorted(found) == [(4, "No export of … ."), (7, "It is too late."), (9, "Too many")]


def test_figures_of_sentences_that_rows_keep_are_those_that_count():
    """They stand in the sentence itself, since a row keeps it whole and each reader has it translated."""
    limits = (reading.MOST_BYTES >> 20, reading.MOST_UNPACKED >> 20, reading.MOST_ROWS, reading.MOST_FILES)
    assert limits == (64, 256, 10_000, 2_000)
    assert (reading.LONGEST, reading.MOST_MESSAGES) == (100_000, 200)
    assert reading.SUFFIXES == (".jsonl", ".json", ".parquet", ".zip")


def test_the_languages_of_the_settings_have_a_catalogue_each():
    assert {code for code, _ in settings.LANGUAGES} == {"en", *catalogues.FOLDERS}


def test_no_argument_of_a_tag_is_translated_with_a_percent_sign():
    """Django doubles it there, as it does within a tag that puts values in, and nothing makes it one again."""
    found = [
        f"{path.name}: {message}"
        for path in bare_words.templates([])
        for message in re.findall(r"""_\(("[^"]*%[^"]*"|'[^']*%[^']*')\)""", path.read_text("utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize("code", catalogues.FOLDERS)
@pytest.mark.parametrize("domain", [catalogues.PAGES, catalogues.SCRIPTS])
def test_a_language_says_all_that_pages_say_and_nothing_else(said, domain, code):
    assert len(list(said[domain])) > {catalogues.PAGES: 1500, catalogues.SCRIPTS: 20}[domain]
    assert list(catalogues.faults(said[domain], catalogues.kept(code, domain))) == []


def test_a_catalogue_that_lacks_or_garbles_something_is_found():
    english, other = Catalog(), Catalog(locale="de")
    for message in ("Gone", "Late %(n)s", 'A <a href="%(there)s">link</a>', ("one run", "%(n)s runs")):
        english.add(message)
    other.add("Late %(n)s", "Spät")
    other.add('A <a href="%(there)s">link</a>', "Ein Link %(there)s")
    other.add(("one run", "%(n)s runs"), ("ein Lauf", "%(n)s Läufe"))
    other.add("Old", "Alt")
    found = [fault.partition(":")[0] for fault in catalogues.faults(english, other)]
    assert sorted(found) == [
        "not translated",  # Gone
        "other markup",  # the link
        "other markup",  # and its href
        "other values",  # Late
        "said nowhere any more",  # Old
    ]


def test_what_is_compiled_is_what_is_written(tmp_path):
    assert stale() == []
    folder = tmp_path / "de" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    (folder / "django.po").write_text("")
    assert stale(tmp_path) == [folder / "django.po"]


@pytest.mark.parametrize(("code", "word"), [("de", "Abmelden"), ("es", "Cerrar sesión"), ("zh-hans", "退出")])
def test_a_page_speaks_the_language_that_is_active(code, word):
    with translation.override(code):
        assert str(translation.gettext("Sign out")) == word


def test_the_tools_are_where_the_docs_say():
    assert Path(catalogues.__file__).name in (catalogues.ROOT / "CONTRIBUTING.md").read_text("utf-8")
