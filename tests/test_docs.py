"""The pages in docs/: links lead somewhere, no page is lost, reference is what the code says, and all is short."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RECORDS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
FRONT = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
PAGES = [*FRONT, *sorted((ROOT / "docs").rglob("*.md"))]

KINDS = ("tutorials", "how-to", "reference", "explanation", "decisions")
TEXTS = ("*.md", "*.py", "*.toml", "*.yml", "*.env", "*.html", "*.sh", "Makefile")

LINE = 120
"""Characters of a line that is no row of a table, holds no link and no code."""

CELL = 40
"""Words of a cell of a table, and not a paragraph."""

ALL = 42_740
"""Words of docs/ as `wc -w` counts them, bars of tables and all."""

PAGE = 400
"""Words, the bars of tables not counted."""


def anchors(page: Path) -> set[str]:
    """What GitHub makes of a page's headings: lower case, blanks as hyphens, no other signs."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_to_a_file_and_a_heading(page):
    for name, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text(encoding="utf-8")):
        if name.startswith("http"):
            continue
        target = page.parent / name if name else page
        assert target.exists(), name
        assert not anchor or anchor in anchors(target), f"{name}#{anchor}"


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_decision_record_is_at_most_a_page(record):
    assert len(record.read_text(encoding="utf-8").replace("|", " ").split()) <= PAGE


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def reference():
    spec = importlib.util.spec_from_file_location("reference", ROOT / ".ci" / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["settings.md", "recipe.md", "commands.md"])
def test_a_reference_page_is_what_the_code_says(reference, name):
    page = ROOT / "docs" / "reference" / name
    assert page.read_text(encoding="utf-8") == reference.PAGES[name](), "run python .ci/reference.py"


def test_a_setting_that_says_nothing_of_itself_has_no_row(reference, monkeypatch):
    monkeypatch.setattr("webapp.console.system.settings_source.KEPT", ("MODEL", "NEW_ONE"))
    with pytest.raises(LookupError, match="NEW_ONE"):
        reference.settings()


def test_a_page_that_code_names_is_there():
    for path in tracked(*TEXTS):
        if "phrasings" in path.parts:  # what simulated people speak of
            continue
        for name in re.findall(r"\bdocs/[\w/-]+\.(?:md|png|svg)", path.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{path.relative_to(ROOT)} names {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_file_that_a_page_names_is_there(page):
    if page.name == "CHANGELOG.md":
        return
    folders = {path.relative_to(ROOT).parts[0] for path in tracked("*/*")} - {"docs"}
    for name in re.findall(r"`([\w.-]+/[\w./-]*)`", page.read_text(encoding="utf-8")):
        if name.split("/")[0] in folders:
            assert (ROOT / name).exists(), name


def test_the_index_leads_to_every_page():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        if page.name != "README.md" and page not in RECORDS:
            assert f"]({page.relative_to(ROOT / 'docs')})" in index, page.name


def test_every_page_is_of_a_kind():
    loose = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert loose == {"README.md", "architecture.md"}
    assert {page.parent.name for page in (ROOT / "docs").glob("*/*.md")} == set(KINDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_long_line_and_no_paragraph_in_a_table(page):
    fenced = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fenced ^= line.strip().startswith("```")
        if fenced or line.startswith("    "):
            continue
        if line.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line):
                assert len(cell.split()) <= CELL, f"{number}: {cell.strip()[:60]}"
        elif page.name not in ("CHANGELOG.md", "CONTRIBUTING.md") and "](" not in line:
            assert len(line) <= LINE, f"{number}: {len(line)} characters"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_table_is_not_torn_by_a_blank_line(page):
    for rows in re.findall(r"(?:^\|.*\n)+", page.read_text(encoding="utf-8"), re.MULTILINE):
        heading, _, rest = rows.partition("\n")
        assert re.match(r"\|( ?---+ ?\|)+\n", rest), heading


def places_named(text: str) -> list[tuple[str, ...]]:
    """Pages of the console that a text names, each as the entry of its rail and the page, where it names one."""
    named = re.findall(r"\b(Console(?: ›\s[^›*.,;:()#\n]+)+)", text)
    return [tuple(part.strip() for part in place.split("›")[1:]) for place in named]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_of_the_console_that_docs_name_is_where_they_say(page):
    from webapp.console.navigation import ENTRIES

    rail = {str(entry): {str(place.title) for place in places} for entry, _, places in ENTRIES}
    for entry, *place in places_named(page.read_text(encoding="utf-8")):
        assert entry in rail, entry
        assert not place or place[0] in rail[entry], f"{entry} › {place[0]}"


def test_make_bench_runs_each_command_that_heads_a_part_of_the_yardstick():
    from benchmarks.__main__ import YARDSTICKS

    page = (ROOT / "docs" / "reference" / "benchmarks.md").read_text(encoding="utf-8")
    heads = re.findall(r"^##.*`python -m benchmarks\.(\w+)", page, re.MULTILINE)
    assert heads
    assert set(heads) <= set(YARDSTICKS)


def test_the_docs_are_short():
    words = {page: len(page.read_text(encoding="utf-8").split()) for page in (ROOT / "docs").rglob("*.md")}
    assert sum(words.values()) <= ALL
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


def named_tests(text: str) -> list[str]:
    return re.findall(r"`(test_\w+)`", text)


def test_each_test_that_the_page_of_threats_names_is_there():
    page = (ROOT / "docs" / "explanation" / "threats.md").read_text(encoding="utf-8")
    rows = page.split("|---|---|---|\n")[1].split("\n\n")[0].splitlines()
    assert all(named_tests(row) for row in rows), "a threat without a test"
    code = "\n".join(path.read_text(encoding="utf-8") for path in tracked("tests/*.py"))
    there = set(re.findall(r"^ *(?:async )?def (test_\w+)\(", code, re.MULTILINE))
    assert not set(named_tests(page)) - there
