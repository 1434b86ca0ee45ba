"""The report: what it says, what it leaves out, and that no reply can break it."""

import doctest
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from core.statistics import Interval
from lab.evidence.measures import regressions, style
from lab.evidence.measures.scoring import scored
from lab.evidence.report import page as report
from lab.evidence.report import svg_curves
from tests.lab.evidence.report import runs

ARMS = ("base", "prompt-only", "binary", "combined")
HOSTILE = "</blockquote></svg><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x00{{ 7 * 7 }} \ud800"


class Page(HTMLParser):
    """Which elements stand in a page, and all their attributes."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs


@pytest.fixture(scope="module")
def plan():
    return runs.plan(ARMS, seeds=(1, 2), probes=12)


@pytest.fixture(scope="module")
def rows(plan):
    return runs.rows(plan, read=8)


@pytest.fixture(scope="module")
def made(plan, rows):
    return report.report(plan, rows, runs.rounds(plan))


@pytest.mark.parametrize("module", [report, svg_curves, regressions])
def test_the_docstrings_hold(module):
    assert doctest.testmod(module).failed == 0


def test_the_headline_names_the_default_recipe_its_style_and_what_was_kept(made):
    found, page = made

    assert found["headline"].startswith("Talking helps: after 16 updates the combined arm’s first answers obey 0.")
    assert "of the base’s content is kept" in found["headline"]
    assert found["headline"] in page


def test_every_arm_is_drawn_in_all_three_charts_with_its_name_beside_it(made):
    _, page = made

    assert page.count("<figure>") == 3
    assert page.count('class="band"') == 3 * len(ARMS)
    assert all(page.count(f">{arm} <tspan") == 3 for arm in ARMS)


def test_the_page_needs_nothing_else_and_runs_nothing(made):
    page = Page(made[1])

    assert not {"script", "link", "img", "iframe", "object", "form"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "href", "style")]


def test_no_text_of_a_stranger_becomes_part_of_the_page(plan, rows):
    mean_ones = [
        {**row, "reply": HOSTILE, "task": {**row["task"], "prompt": HOSTILE}}
        if row["set"] == "own"
        else {**row, "task": {**row["task"], "prompt": HOSTILE, "right": HOSTILE}}
        if row["set"] == "pack"
        else row
        for row in rows
    ]

    _, page = report.report(plan | {"machine": HOSTILE}, mean_ones, runs.rounds(plan))

    tags = Page(page).tags
    assert not {"script", "img"} & set(tags)
    assert page.count("&lt;script&gt;alert(1)") > 2
    assert "{{ 7 * 7 }}" in page
    assert not report.UNSHOWN.search(page)
    page.encode()  # half a character would be refused here


def test_an_unfinished_probe_is_said_and_not_drawn(plan, rows):
    there = [
        row for row in rows if not (row["arm"] == "combined" and row["update"] == 16 and row["task"]["id"] > "open-005")
    ]

    found, page = report.report(plan, there, runs.rounds(plan))

    assert "combined after 16 updates: 12 of 24 replies." in found["missing"]
    assert [spot["update"] for spot in found["curves"]["style"]["combined"]] == [0, 4, 8, 12]
    assert "What is missing" in page


def test_a_seed_that_is_not_as_far_as_the_others_is_left_out(plan, rows):
    there = [row for row in rows if not (row["seed"] == 2 and row["arm"] == "binary" and row["update"] > 4)]

    found, _ = report.report(plan, there, runs.rounds(plan))

    assert found["seeds"] == [1]
    assert "Seed 2: not as far as the others, so left out of all figures." in found["missing"]
    assert any(caveat.startswith("One seed") for caveat in found["caveats"])


def test_a_run_of_which_nothing_is_there_says_so(plan):
    found, page = report.report(plan, [], [])

    assert found["headline"] == "No arm has learned yet: there is nothing to compare."
    assert page.count("<figure>") == 0


def test_without_the_base_nothing_is_compared(plan, rows):
    there = [row for row in rows if row["arm"] != "base" or row["set"] == "reference"]

    found, _ = report.report(plan, there, runs.rounds(plan))

    assert "base: no reply." in found["missing"]
    assert "the base is missing" in found["headline"]
    assert found["gains"] == []


def test_content_that_was_not_measured_is_no_claim(plan, rows):
    there = [{key: row[key] for key in row if key != "reading"} for row in rows if row["set"] != "reference"]

    found, page = report.report(plan, there, runs.rounds(plan))

    claim = next(claim for claim in found["claims"] if "content kept" in claim["text"])
    assert (claim["holds"], claim["seen"]) == (None, "not measured")
    assert page.count("<figure>") == 1


def test_both_arms_that_are_to_reach_it_are_held_to_all_of_it():
    plan = runs.plan(("base", "combined", "topk"), seeds=(1, 2), probes=12)
    found, _ = report.report(plan, runs.rows(plan, read=8), runs.rounds(plan))

    texts = [claim["text"] for claim in found["claims"]]
    told = {arm: [text for text in texts if text.startswith(arm)] for arm in ("combined", "topk")}
    assert len(told["combined"]) == 6  # style, content, tokens, style beside the prompt, pack, and beside binary
    assert told["topk"] == [text.replace("combined", "topk") for text in told["combined"]]


def test_the_content_that_binary_loses_shows(made):
    """0.05 nats of fluency an update are 0.8 after 16; the floor is about half a nat below the mean."""
    table = next(table for table in made[0]["tables"] if table["update"] == 16)
    kept = {row["arm"]: row["kept"]["mean"] for row in table["rows"]}

    assert kept["binary"] < 0.9 < kept["combined"]


def test_what_the_person_would_have_written_is_measured_as_if_it_had_been_answered(rows, made):
    base = [row for row in scored(rows) if row["arm"] == "base" and row["set"] == "own" and "mended" in row]
    written = {(row["seed"], row["task"]["id"]): style.mended(row) for row in base}
    instead = [
        row | {"reply": written[row["seed"], row["task"]["id"]]}
        if row["arm"] == "base" and row["set"] == "own" and "reading" in row else row
        for row in rows
    ]  # fmt: skip
    marked = [row for row in scored(instead) if row["arm"] == "base" and row["set"] == "own" and "content" in row]

    assert any(written[row["seed"], row["task"]["id"]] != row["reply"] for row in base)
    assert [row["content"] for row in marked] == [row["mended"] for row in base]
    share = sum(row["mended"] for row in base) / sum(row["content"] for row in base)
    assert made[0]["mended"]["mean"] == pytest.approx(share, abs=1e-6)
    assert f"keep {made[0]['mended']['mean']:.2f}" in made[1]


def test_who_is_ahead_is_told_by_both_intervals_and_by_the_difference_on_the_same_prompts(made):
    claim = next(
        one for one in made[0]["claims"] if one["text"] == "combined ahead of binary at 8 updates, intervals apart"
    )
    ours, our_low, _, theirs, _, their_high, more, low, high = map(float, re.findall(r"[+-]?\d\.\d\d", claim["seen"]))

    assert more == pytest.approx(ours - theirs, abs=0.011)  # three roundings
    assert low < more < high
    assert claim["holds"] == (our_low > their_high)


def test_the_first_gain_is_counted_in_interactions(made):
    """Round 1 ends at 4 updates, with 21 + seed interactions; 22 and 23 of two seeds are 22.5."""
    gain = next(one for one in made[0]["gains"] if (one["arm"], one["measure"]) == ("combined", "style"))
    wanted = {4: 22.5, 8: 43.5, 12: 64.5, 16: 85.5}

    assert gain["interactions"]["mean"] == wanted[gain["update"]]
    assert made[0]["published"]["interactions"] == {"student": 36, "teacher": 24}


def test_the_general_pack_is_a_share_of_what_the_base_has_right(made):
    """The base has eight of ten right. Binary loses one of them with every seed, and combined has one more."""
    costs = {row["arm"]: row["pack"] for row in made[0]["regressions"]}

    assert costs["binary"]["kept"]["mean"] == pytest.approx(7 / 8)
    assert costs["combined"]["kept"]["mean"] == pytest.approx(9 / 8)


def test_how_far_right_answers_lead_is_told_beside_the_share_of_the_general_pack(made):
    """The base leads by 1.2 - 0.4 = 0.8 nats with eight of ten, and lags by as much with two. Combined leads by 0.9
    with those eight and with one of the two, and lags by 0.9 with the other: (8 * 0.1 + 1.7 - 0.1) / 10. Binary lags by
    0.8 with one where the base leads: -1.6 / 10."""
    costs = {row["arm"]: row["pack"] for row in made[0]["regressions"]}
    assert costs["combined"]["lead"]["mean"] == pytest.approx(0.24)
    assert costs["binary"]["lead"]["mean"] == pytest.approx(-0.16)


def test_items_of_the_general_pack_that_changed_sides_are_counted_and_named(made):
    """With both seeds binary loses item 3, which the base has right by 0.8 nats, and combined wins item 1."""
    found, page = made

    assert crossed(found, "binary") == {"lost": 1, "ties": 0, "won": 0}
    assert crossed(found, "combined") == {"lost": 0, "ties": 0, "won": 1}
    [item] = found["crossings"]["items"]
    assert (item["prompt"], item["was_right"], item["seeds"]) == ("Is 1 a number?", False, [1, 2])
    assert (item["lead_before"], item["lead_after"]) == (-0.8, 0.9)
    assert "Is 1 a number?" in page
    assert "−0.80" in page


def test_an_item_that_the_base_hardly_led_is_a_near_tie(plan, rows):
    """Of the eight that the base has right, binary loses item 3, at a lead of 0.4 - 0.35 = 0.05 nats a token."""
    close = [
        {**row, "nats": [-0.35, -0.4]} if (row["set"], row["arm"], row["task"]["id"]) == ("pack", "base", "fact-3")
        else row for row in rows
    ]  # fmt: skip

    found, _ = report.report(plan, close, runs.rounds(plan))

    assert crossed(found, "binary") == {"lost": 1, "ties": 1, "won": 0}


def test_items_that_crossed_with_most_seeds_stand_first_with_the_lead_of_these_seeds_alone(plan, rows):
    """Combined loses item 5 with seed 2 alone, where it lags by 0.3, and items 4 and 6 with both, by 0.1 and 0.2."""
    lags = {("fact-5", 2): 0.3, ("fact-4", 1): 0.1, ("fact-4", 2): 0.1, ("fact-6", 1): 0.2, ("fact-6", 2): 0.2}
    lost = [
        {**row, "right": False, "nats": [-1.0 - lag, -1.0]}
        if (row["set"], row["arm"]) == ("pack", "combined")
        and (lag := lags.get((row["task"]["id"], row["seed"]))) is not None
        else row for row in rows
    ]  # fmt: skip

    found, _ = report.report(plan, lost, runs.rounds(plan))

    assert crossed(found, "combined") == {"lost": 2.5, "ties": 0, "won": 1}
    told = [(item["prompt"], item["seeds"], item["lead_after"]) for item in found["crossings"]["items"]]
    assert told == [
        ("Is 4 a number?", [1, 2], -0.1),
        ("Is 6 a number?", [1, 2], -0.2),
        ("Is 5 a number?", [2], -0.3),
        ("Is 1 a number?", [1, 2], 0.9),
    ]


def test_the_pack_is_told_where_the_base_answered_nothing_else(plan, rows):
    without = [row for row in rows if (row["set"], row["arm"]) != ("own", "base")]

    found, page = report.report(plan, without, runs.rounds(plan))

    assert found["samples"] is None
    assert found["crossings"]["arm"] == "combined"
    assert "Is 1 a number?" in page


def crossed(found, arm):
    pack = next(row["pack"] for row in found["regressions"] if row["arm"] == arm)
    return {what: pack[what] for what in ("lost", "ties", "won")}


def test_two_rows_for_one_place_are_refused(plan, rows):
    with pytest.raises(ValueError, match="two rows"):
        report.report(plan, [*rows, next(row for row in rows if row["set"] == "own")], [])


def test_labels_never_stand_in_each_others_way():
    at = svg_curves.spread({"a": 20.0, "b": 20.5, "c": 21.0, "d": 90.0}, 14, 16, 200)

    places = sorted(at.values())
    assert all(later - earlier >= 13.8 for earlier, later in pairwise(places))
    assert at["d"] == 90.0


def test_a_chart_of_nothing_is_none():
    assert svg_curves.chart("style", "Style", {"base": {}}, ["base"], [0, 4]) is None


def test_a_mean_of_one_stands_at_the_top():
    drawn = svg_curves.chart("style", "Style", {"base": {0: Interval(1.0, 1.0, 1.0, 3)}}, ["base"], [0, 4])

    assert drawn is not None
    assert drawn.lines[0].spots[0].y == svg_curves.TOP
