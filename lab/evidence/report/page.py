"""The report: what a run found, as data and as one page that needs nothing else. Pure.

All text of replies, prompts and personas is a stranger's: the page escapes it, keeps it from turning the page's writing
around, and loads and runs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lab.evidence.report import svg_curves
from lab.evidence.report.claims import claims, headline
from lab.evidence.report.intervals import count, signed, span
from lab.evidence.report.run_findings import MEASURES, Findings

FOLDER = Path(__file__).parent / "template"

UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
"""Controls, half characters, and signs that turn the direction of writing: no page shows them, some break it."""

LONGEST = 700
"""Characters of a reply that are shown."""

Row = Mapping[str, Any]


def report(
    plan: Mapping[str, Any],
    rows: Iterable[Row],
    rounds: Iterable[Row],
    *,
    said: Mapping[str, Sequence[str]] | None = None,
) -> tuple[dict[str, Any], str]:
    """report.json as a dict, and report.html as a string.

    `plan` is Plan.as_json(), with "versions", "machine" and "minutes" beside where they are known; `rows` are those of
    probes, `rounds` those of rounds; `said` holds all texts of the sessions of each "arm/seed". What is missing is said
    in both, and never drawn. Raises ValueError where two rows claim the same place.
    """
    findings = Findings(plan, rows, rounds, said)
    found = {
        "headline": headline(findings),
        "claims": [asdict(claim) for claim in claims(findings)],
        **findings.as_json(),
    }
    flat = [arm for arm in findings.arms if findings.kinds[arm] != "trained"]
    drawn = [
        svg_curves.chart(name, title, {arm: findings.curve(name, arm) for arm in findings.kinds}, flat, findings.marks)
        for name, title in MEASURES.items()
    ]
    return found, page(found, [one for one in drawn if one is not None])


def open_templates(*folders: Path) -> Environment:
    """The templates of these folders, and what they write figures and texts with."""
    surroundings = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    surroundings.filters |= {
        "span": span,
        "signed": signed,
        "share": lambda value: f"{value:.0%}",
        "quoted": quoted,
        "count": count,
    }
    return surroundings


def page(found: Mapping[str, Any], charts: Sequence[svg_curves.Chart]) -> str:
    """The findings as HTML."""
    surroundings = open_templates(FOLDER)
    tones = {arm["name"]: tone for tone, arm in enumerate(found["plan"]["arms"])}
    return surroundings.get_template("report.html").render(
        found=found,
        charts=charts,
        tones=tones,
        sheet=svg_curves,
        plan=json.dumps(found["plan"], indent=1, ensure_ascii=False, default=str),
    )


def quoted(text: str, longest: int = LONGEST) -> str:
    """A stranger's text as it can be shown: cut, and without signs that break a page.

    >>> quoted("a\\u202eb")
    'a�b'
    """
    shown = UNSHOWN.sub("\ufffd", str(text).replace("\r\n", "\n"))
    return shown if len(shown) <= longest else shown[:longest].rstrip() + " …"
