"""The page of a demonstration: what was found, as data and as one page that needs nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab.evidence.report import page as evidence
from lab.evidence.report import svg_curves
from lab.worlds.demonstration.figures import Figures

FOLDERS = (Path(__file__).parent / "template", evidence.FOLDER)


def page(figures: Figures) -> tuple[dict[str, Any], str]:
    """What worlds.json holds, as a dict, and worlds.html, as a string."""
    found = json.loads(json.dumps(figures.as_json()))
    surroundings = evidence.open_templates(*FOLDERS)
    html = surroundings.get_template("worlds.html").render(
        found=found,
        charts=[
            chart
            for key, title, curves in (
                ("heldout", "Held-out tasks solved", figures.curves),
                ("training", "Attempts that were to teach, solved", figures.training),
            )
            if (chart := svg_curves.chart(key, title, curves, [], figures.marks)) is not None
        ],
        marks=figures.marks,
        sheet=svg_curves,
        tones={name: tone for tone, name in enumerate(figures.arms)},
    )
    return found, html


def write(out: Path, figures: Figures) -> tuple[Path, Path]:
    """OUT/worlds.html and OUT/worlds.json of what is known so far, each whole or not at all."""
    found, html = page(figures)
    written = []
    for name, text in (("worlds.html", html), ("worlds.json", json.dumps(found, indent=1, ensure_ascii=False))):
        draft = out / f".{name}"
        draft.write_text(text, encoding="utf-8")
        written.append(draft.replace(out / name))
    return written[0], written[1]
