"""The page and the last line of a demonstration, from figures that are worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab.worlds.demonstration.arms import chosen
from lab.worlds.demonstration.figures import Figures
from lab.worlds.demonstration.page import page, write
from lab.worlds.demonstration.plan import Plan

PLAN = Plan(chosen(["outcome", "index"]), updates=10, every=5, heldout=100, model="warm")


def exam(arm: str, update: int, solved: int, tasks: int = 100) -> dict[str, Any]:
    """Of so many tasks the first ones are solved."""
    return _row("exam", arm, update, 0) | {"solved": {f"task {n:03}": n < solved for n in range(tasks)}}


def update(arm: str, number: int, tokens: int, vain: str = "") -> dict[str, Any]:
    return _row("update", arm, number, tokens) | {"vain": vain}


def _row(kind: str, arm: str, number: int, tokens: int) -> dict[str, Any]:
    figures = {"attempts": 32, "counted": 32, "success": 0.5, "steps": 5.5, "invalid": 0.1, "tokens": tokens}
    told = {"kind": kind, "arm": arm, "seed": 1, "update": number, "vain": "", "seconds": {"all": 60.0}}
    return told | figures | {"sampled": 0}


def rows(outcome_tokens: int = 1000) -> list[dict[str, Any]]:
    played = [exam(arm, 0, 20) for arm in ("outcome", "index")]
    for number in range(1, 11):
        played += [update("outcome", number, outcome_tokens), update("index", number, 1000)]
    return [*played, exam("outcome", 5, 25), exam("index", 5, 50), exam("outcome", 10, 40), exam("index", 10, 60)]


def holds(figures: Figures) -> dict[str, bool | None]:
    return {claim.text: claim.holds for claim in figures.claims()}


def test_the_last_line_has_each_arm_after_each_examination() -> None:
    line = json.loads(json.dumps(Figures(PLAN.as_json(), rows()).line))
    assert line == {"outcome": {"0": 0.2, "5": 0.25, "10": 0.4}, "index": {"0": 0.2, "5": 0.5, "10": 0.6}}


def test_the_lead_is_of_the_same_tasks() -> None:
    """25 tasks are solved by index alone and 75 alike: 0.25, with a standard error of √(0.25·0.75/100) = 0.043."""
    lead = Figures(PLAN.as_json(), rows()).lead(5)
    assert lead is not None
    assert lead.mean == 0.25
    assert abs(lead.low - (0.25 - 1.96 * 0.043)) < 0.015


def test_a_task_that_counts_on_one_side_only_is_in_no_lead() -> None:
    short = [exam("outcome", 5, 25, tasks=90), exam("index", 5, 50)]
    lead = Figures(PLAN.as_json(), short).lead(5)
    assert lead is not None
    assert (lead.number, round(lead.mean, 3)) == (90, 0.278)  # 25 of 90


def test_what_was_to_be_reached_is_met_or_not() -> None:
    met = holds(Figures(PLAN.as_json(), rows()))
    assert list(met.values()) == [True, True, True, True]
    apart = holds(Figures(PLAN.as_json(), rows(outcome_tokens=940)))  # 6 % less
    assert [text for text, held in apart.items() if not held] == ["Both arms sampled as many tokens, within 5%."]
    half = holds(Figures(PLAN.as_json(), rows()[:2]))
    assert list(half.values()) == [True, None, None]


def test_a_coin_that_beats_the_outcome_is_told() -> None:
    plan = Plan(chosen(["outcome", "index", "random"]), updates=10, every=5).as_json()
    text = "A coin for each step is no better than the outcome alone."
    assert holds(Figures(plan, [*rows(), exam("random", 10, 10)]))[text] is True
    assert holds(Figures(plan, [*rows(), exam("random", 10, 90)]))[text] is False
    assert holds(Figures(plan, [*rows(), exam("random", 0, 20)]))[text] is None


def test_the_headline_claims_speed_and_no_ceiling() -> None:
    said = Figures(PLAN.as_json(), rows()).headline
    assert all(part in said for part in ("0.60", "0.40", "not of the ceiling"))
    even = [exam("outcome", 10, 40), exam("index", 10, 40)]
    assert Figures(PLAN.as_json(), even).headline.startswith("No difference")
    worse = [exam("outcome", 10, 60), exam("index", 10, 20)]
    assert Figures(PLAN.as_json(), worse).headline.startswith("Step scores made it worse")


def test_the_page_shows_curves_arms_and_why_an_update_taught_nothing(tmp_path: Path) -> None:
    plan = Plan(chosen(["outcome", "index", "random"]), updates=10, every=5, model="warm").as_json()
    failed = update("random", 1, 900, vain="Run 7 failed: <canary>")
    found, html = page(Figures(plan, [*rows(), exam("random", 0, 20), failed]))
    assert found["in_vain"] == ["random, seed 1, update 1: Run 7 failed: <canary>"]
    assert "Run 7 failed: &lt;canary&gt;" in html
    assert "index from 0.20 to 0.60" in html  # the chart, in words
    assert "Attempts that were to teach, solved. outcome from 0.50 to 0.50" in html
    assert "+0.25 (+0.1" in html
    assert html.count('<tr><th scope="row"><span class="arm') == 6  # three arms in two tables
    written, data = write(tmp_path, Figures(plan, rows()))
    assert "<script" not in written.read_text()
    assert json.loads(data.read_text())["sampled"] == {"outcome": 10_000, "index": 10_000}


def test_a_page_of_nothing_yet_is_a_page() -> None:
    found, html = page(Figures(PLAN.as_json(), []))
    assert found["headline"] == "The arms have not been played to their end yet."
    assert "<svg viewBox" not in html
