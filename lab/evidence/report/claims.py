"""What a run was to show, and whether it did: the headline, and what default recipes are to reach. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core import statistics
from lab.evidence.measures.scoring import BASE
from lab.evidence.report.intervals import signed, span
from lab.evidence.report.run_findings import MIDDLE, Findings, shown

PROMPT = "prompt-only"
"""An arm that others are held against beside the base."""

WANTED = {"style": 0.90, "kept": 0.95, "behind": 0.05, "pack": 0.02}
"""What default recipes are to reach (docs/explanation/evidence.md)."""

AIM = ("combined", "topk")
"""The arms that are to reach it. Where none of them has learned, the report's own is held to it."""


@dataclass(frozen=True)
class Claim:
    """Something the default recipes are to reach, and whether they did."""

    text: str
    seen: str
    holds: bool | None
    """None: it cannot be known from this run."""


def headline(findings: Findings) -> str:
    """Whether talking helped, in a sentence."""
    arm = findings.shown_arm
    if arm is None:
        return "No arm has learned yet: there is nothing to compare."
    update = findings.last(arm) or 0
    row = findings.row(arm, update)
    change = findings.change("style", (arm, update), (BASE, 0))
    if change is None:
        return f"After {update} updates {arm} obeys {span(row['style'])} of the wishes; the base is missing."
    base = statistics.average(findings.values("style", BASE, 0))
    verdict = "Talking helps" if change.low > 0 else "Talking made it worse" if change.high < 0 else \
        "Whether talking helps cannot be told yet"  # fmt: skip
    said = (
        f"{verdict}: after {update} updates the {arm} arm’s first answers obey {span(row['style'])} of a person’s "
        f"wishes, the base’s {base.mean:.2f}"
    )
    if row["kept"] is None:
        return f"{said}. What became of the content was not measured."
    return f"{said}, and {span(row['kept'])} of the base’s content is kept."


def claims(findings: Findings) -> list[Claim]:
    """What default recipes are to reach, one by one; none where no style was measured."""
    if findings.shown_arm is None:
        return []
    learned = [arm for arm in AIM if arm in findings.arms and findings.last(arm)]
    each = [claim for arm in learned or [findings.shown_arm] for claim in _of(findings, arm)]
    middle = min(MIDDLE, findings.marks[-1])
    return [*each, *(_ahead(findings, arm, "binary", middle) for arm in AIM)] if each else []


def _of(findings: Findings, arm: str) -> list[Claim]:
    """What one arm is to reach; none where its style was not measured."""
    update = findings.last(arm) or 0
    row = findings.row(arm, update)
    if row["style"] is None:
        return []
    return [
        _style(arm, update, row),
        _content(arm, row),
        *_against_prompt(findings, arm, update, row),
        _pack(findings, arm, update),
    ]


def _style(arm: str, update: int, row: Mapping[str, Any]) -> Claim:
    wanted, style = WANTED["style"], row["style"]
    text = f"{arm}: style of at least {wanted:.2f} after {update} updates"
    return Claim(text, span(style, wanted), style["mean"] >= wanted)


def _content(arm: str, row: Mapping[str, Any]) -> Claim:
    wanted, kept = WANTED["kept"], row["kept"]
    text = f"{arm}: at least {wanted:.2f} of the base’s content kept"
    return Claim(text, span(kept, wanted), kept["mean"] >= wanted) if kept else Claim(text, "not measured", None)


def _pack(findings: Findings, arm: str, update: int) -> Claim:
    pack, wanted = findings.pack(arm, update), 1 - WANTED["pack"]
    text = f"{arm}: general pack within {WANTED['pack']:.0%}"
    kept = pack["kept"] if pack else None
    if pack is None or kept is None:
        return Claim(text, "not asked", None)
    seen = f"{span(kept, wanted)} of what the base has right of {pack['items']} items"
    return Claim(text, seen, kept["mean"] >= wanted)


def _ahead(findings: Findings, one: str, other: str, mark: int) -> Claim:
    text = f"{one} ahead of {other} at {mark} updates, intervals apart"
    if not all(arm in findings.kinds and findings.at(arm, mark) is not None for arm in (one, other)):
        return Claim(text, "one of them is missing", None)
    ours, theirs = (statistics.average(findings.values("style", arm, mark)) for arm in (one, other))
    seen = f"{span(shown(ours))} against {span(shown(theirs))}"
    change = findings.change("style", (one, mark), (other, mark))
    of_pairs = f"; on the same prompts {signed(shown(change))}" if change else ""
    return Claim(text, seen + of_pairs, ours.low > theirs.high)


def _against_prompt(findings: Findings, arm: str, update: int, row: Mapping[str, Any]) -> Iterator[Claim]:
    tokens = f"{arm} ahead of {PROMPT} on prompt tokens a request"
    style = f"{arm} not behind {PROMPT} on style by more than {WANTED['behind']:.2f}"
    if (PROMPT, 0) not in findings.places:
        yield from (Claim(text, f"{PROMPT} is missing", None) for text in (tokens, style))
        return
    ours, theirs = row["prompt_tokens"], findings.row(PROMPT, 0)["prompt_tokens"]
    yield Claim(tokens, f"{ours:.0f} against {theirs:.0f}", ours < theirs)
    change = findings.change("style", (arm, update), (PROMPT, 0))
    held = change.mean >= -WANTED["behind"] if change else None
    yield Claim(style, signed(shown(change)) if change else "not the same prompts", held)
