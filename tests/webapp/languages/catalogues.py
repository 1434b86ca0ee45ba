"""Read what pages say, and hold the catalogues of other languages against it.

python -m tests.webapp.languages.catalogues            say what each language lacks
python -m tests.webapp.languages.catalogues --update   write new messages into locale/, to be translated there
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import DEFAULT_KEYWORDS, extract
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

ROOT = Path(__file__).parents[3]
FOLDERS = {"de": "de", "es": "es", "zh-hans": "zh_Hans"}
"""Where the catalogue of each language lies under locale/, by its code."""
PAGES, SCRIPTS = "django", "djangojs"

KEYWORDS = DEFAULT_KEYWORDS | {
    "gettext_lazy": None,
    "gettext_noop": None,
    "ngettext_lazy": (1, 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext_lazy": ((1, "c"), 2, 3),
}
UNREAD = re.compile(r"^(tests|lab|benchmarks|installation|docs|docker|clients|\.ci)/|/migrations/|^static/vendor/")
DATES = re.compile(r'"(POT-Creation|PO-Revision)-Date: ')
"""Lines of a header that change with each update, and with nothing else."""
PLACE = re.compile(r"%\((\w+)\)[sdr]")
TAG = re.compile(r"</?([a-z0-9]+)\b")
ATTRIBUTE = re.compile(r"\b(?:href|class|id)=\"([^\"]*)\"")


def tracked(*patterns: str) -> list[str]:
    """The files of the repository that people's words may be in."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for path in sorted(filter(None, listed.split("\0"))) if not UNREAD.search(path)]


def python_of(path: str) -> str:
    """A file as the reader of Python's messages takes it: templates become calls of gettext."""
    text = (ROOT / path).read_text("utf-8")
    if path.endswith(".py"):
        return text
    return "\n".join(line.lstrip() for line in templatize(text).split("\n"))  # a page's indentation is none of Python's


def read_into(catalog: Catalog, path: str, method: str, source: str) -> None:
    for _, message, _, context in extract(method, io.BytesIO(source.encode()), keywords=KEYWORDS):
        catalog.add(message, locations=[(path, 0)], context=context)


def of_pages() -> Catalog:
    """All that templates, Python and the glossary say."""
    from webapp.glossary import messages

    catalog = Catalog()
    for path in tracked("templates/*.html", "templates/*.txt", "*.py"):
        read_into(catalog, path, "python", python_of(path))
    for path in tracked("chat/clients/*.toml"):
        catalog.add(tomllib.loads((ROOT / path).read_text("utf-8"))["title"], locations=[(path, 0)])
    for message in messages():
        catalog.add(message, locations=[("docs/reference/glossary.md", 0)])
    return catalog


def of_scripts() -> Catalog:
    """All that scripts say."""
    catalog = Catalog()
    for path in tracked("static/*.js"):
        read_into(catalog, path, "javascript", (ROOT / path).read_text("utf-8"))
    return catalog


def said() -> dict[str, Catalog]:
    return {PAGES: of_pages(), SCRIPTS: of_scripts()}


def file_of(code: str, domain: str) -> Path:
    return ROOT / "locale" / FOLDERS[code] / "LC_MESSAGES" / f"{domain}.po"


def kept(code: str, domain: str) -> Catalog:
    """What is translated. Raises FileNotFoundError where nothing is."""
    with file_of(code, domain).open("rb") as file:
        return read_po(file, locale=FOLDERS[code], domain=domain)


def strings(message: Message) -> list[str]:
    """A message's translations: one, or one for each plural form."""
    return [message.string] if isinstance(message.string, str) else list(message.string)


def ids(message: Message) -> list[str]:
    return [message.id] if isinstance(message.id, str) else list(message.id)


def faults(template: Catalog, translated: Catalog) -> Iterator[str]:
    """What a catalogue lacks, has too much, or says in a way that a page could not show."""
    for message in filter(lambda one: one.id, template):
        found = translated.get(message.id, message.context)
        name = f"{ids(message)[0]!r} ({', '.join(path for path, _ in message.locations)})"
        if found is None or found.fuzzy or not all(strings(found)):
            yield f"not translated: {name}"
        elif len(strings(found)) != (translated.num_plurals if len(ids(message)) > 1 else 1):
            yield f"a plural form is missing: {name}"
        else:
            yield from differences(name, ids(message), strings(found))
    for message in filter(lambda one: one.id, translated):
        if template.get(message.id, message.context) is None:
            yield f"said nowhere any more: {ids(message)[0]!r}"


def differences(name: str, english: list[str], other: list[str]) -> Iterator[str]:
    """Where a translation lost a value, markup, a link or a percent sign, or has one too many."""
    for string in other:
        values = [set(PLACE.findall(one)) for one in english]
        most, least = set.union(*values), set.intersection(*values)
        if not least <= set(PLACE.findall(string)) <= most:
            yield f"other values: {name}: {string!r}"
        if string.count("%%") not in {one.count("%%") for one in english}:
            yield f"other percent signs: {name}: {string!r}"
        for pattern in (TAG, ATTRIBUTE):
            if sorted(pattern.findall(string)) not in [sorted(pattern.findall(one)) for one in english]:
                yield f"other markup: {name}: {string!r}"


def update(code: str, domain: str, template: Catalog) -> None:
    """Write the catalogue with what is new, untranslated, and without what is gone."""
    path = file_of(code, domain)
    catalog = Catalog(locale=FOLDERS[code], domain=domain, project="Talkback", copyright_holder="", fuzzy=False)
    before = kept(code, domain) if path.exists() else catalog
    for message in filter(lambda one: one.id, template):
        known = before.get(message.id, message.context)
        known = known if known and known.id == message.id else None  # it was one of a count, or none
        locations = sorted({(file, 0) for file, _ in message.locations})
        catalog.add(message.id, known.string if known else None, locations, context=message.context)
    catalog.header_comment = f"# Talkback in {catalog.locale.get_display_name('en')}."
    path.parent.mkdir(parents=True, exist_ok=True)
    written = io.BytesIO()
    write_po(written, catalog, width=0, sort_output=True, include_lineno=False)
    lines = written.getvalue().decode().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not DATES.match(line)), "utf-8")


def main(arguments: Iterable[str]) -> int:
    count = 0
    for domain, template in said().items():
        for code in FOLDERS:
            if "--update" in arguments:
                update(code, domain, template)
            for fault in faults(template, kept(code, domain)):
                print(f"{code}: {fault}")
                count += 1
    print(f"{count} faults")
    return int(bool(count))


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    sys.exit(main(sys.argv[1:]))
