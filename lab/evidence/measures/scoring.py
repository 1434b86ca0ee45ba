"""A probe's rows with their marks: what was seen of each reply. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from environments import grams, tasks
from environments.tasks import Task
from lab.evidence.measures import content, regressions, style
from lab.evidence.measures.content import Reading, Reference, Yardstick

Row = Mapping[str, Any]

BASE = "base"
"""The arm that others are held against."""

OWN, OTHER, PACK, REFERENCE = "own", "other-persona", "pack", "reference"
"""Which set a row belongs to: held against the taught person's wishes; the same replies against another person's; the
general pack; further replies of the base, from which the measure of content takes its scale."""


def scored(rows: Iterable[Row], said: Mapping[str, Sequence[str]] | None = None) -> list[dict[str, Any]]:
    """Every row, with what its reply shows.

    "style" and "parts" where a person's wishes are known; "content" with "topic", "substance" and "fluency", and
    "product" (style × content), where its question has references and the base read it (or nothing was read); with
    those, "mended" for the base's: the content of what the person would have written in its place, in its own words;
    "correct" where there is ground truth; "repetition" and "words" always; "copied" where `said` has what was said in
    the sessions of its "arm/seed". Of an item of the general pack "lead": how much likelier its right answer is than
    the likeliest wrong one, in nats a token.
    """
    rows = list(rows)
    yardstick = measured_by(rows)
    known = {key: regressions.known(texts) for key, texts in (said or {}).items()}
    return [_scored(row, yardstick, known) for row in rows]


def measured_by(rows: Iterable[Row]) -> Yardstick | None:
    """The measure of content that these rows' references make; None where they are too few."""
    references: dict[str, list[Reference]] = {}
    for row in rows:
        if row["set"] == REFERENCE:
            made = Reference(row["reply"], Reading(**row["reading"]) if row.get("reading") else None)
            references.setdefault(row["task"]["prompt"], []).append(made)
    whole = {question: found for question, found in references.items() if len(found) >= content.LEAST}
    return Yardstick(whole) if len(whole) > 1 else None


def _scored(row: Row, yardstick: Yardstick | None, known: Mapping[str, Any]) -> dict[str, Any]:
    if row["set"] == REFERENCE:
        return dict(row)
    if row["set"] == PACK:
        first, *others = row["nats"]
        return {**row, "lead": first - max(others)}
    text = row["reply"]
    seen = style.of(row)
    marks: dict[str, Any] = {
        "style": seen.score,
        "parts": dict(seen.parts),
        "correct": _correct(row, text),
        "repetition": regressions.repetition(text),
        "words": len(grams.words(text)),
    }
    if (key := f"{row['arm']}/{row['seed']}") in known:
        marks["copied"] = regressions.copied(text, known[key])
    question = row["task"]["prompt"]
    if yardstick is not None and question in yardstick and ("reading" in row or not yardstick.reads):
        reading = Reading(**row["reading"]) if row.get("reading") else None
        found = yardstick.content(question, text, reading)
        marks |= {"content": found.score, "product": seen.score * found.score}
        marks |= {"topic": found.topic, "substance": found.substance, "fluency": found.fluency}
        if (row["arm"], row["set"]) == (BASE, OWN):
            marks["mended"] = yardstick.content(question, style.mended(row), reading).score
    return {**row, **marks}


def _correct(row: Row, text: str) -> bool | None:
    task = row["task"]
    return tasks.correct(Task(**{**task, "files": tuple(map(tuple, task.get("files", ())))}), text)
