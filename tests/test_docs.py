"""The pages in docs/: links lead somewhere, and a decision record is a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RECORDS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")), *RECORDS]

PAGE = 400
"""Words, the bars of tables not counted."""


def anchors(page: Path) -> set[str]:
    """What GitHub makes of a page's headings: lower case, blanks as hyphens, no other signs."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
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
