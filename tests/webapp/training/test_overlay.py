"""Runs over one another: pictures and figures that are bounded, for operators alone."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse

from webapp.charts import overlays
from webapp.console.training import overlay_pages


def steps(number, **of):
    return [{"update": n, "seconds": 30.0, **{name: value(n) for name, value in of.items()}} for n in range(1, number)]


@pytest.fixture
def two(make_run):
    """A run of three updates and one of two, the first measured on a machine with a card."""
    usage = [
        {"at_s": 30.0, "updates": 0.0, "cpu": 1.5, "memory_mib": 900.0, "gpu": 0.5, "gpu_mib": 4000.0},
        {"at_s": 90.0, "updates": 2.0, "cpu": 2.0, "memory_mib": 950.0, "gpu": 0.9, "gpu_mib": 4100.0},
    ]
    first = make_run(
        metrics=steps(4, loss=lambda n: 1 / n, policy_loss=lambda n: 0.1, kl=lambda n: 0.1 * n), usage=usage
    )
    return first, make_run(metrics=steps(3, loss=lambda n: 2 / n, kl=lambda n: 0.2 * n))


def page_of(console, query):
    return console.get(f"{reverse('console:overlay')}?{query}").content.decode()


def figures_of(console, query):
    answer = console.get(f"{reverse('console:overlay_figures')}?{query}")
    return {chart["key"]: chart for chart in json.loads(answer.content)["charts"]}


def figure_of(page, key):
    return page.partition(f'id="chart-{key}"')[2].partition("</figure>")[0]


def test_only_staff_see_runs_over_one_another(client, talker, two):
    for name in ("console:overlay", "console:overlay_figures"):
        address = f"{reverse(name)}?runs={two[0].pk}"
        assert client.get(address).status_code == 302
        client.force_login(talker)
        assert client.get(address).status_code == 403
        client.logout()


def test_the_list_lets_runs_be_ticked_and_sends_them_as_an_address(console, two):
    page = console.get(reverse("console:runs")).content.decode()
    assert f'<form method="get" action="{reverse("console:overlay")}" id="overlay-choice"' in page
    for run in two:
        assert f'<input type="checkbox" name="runs" value="{run.pk}" form="overlay-choice"' in page


def test_runs_are_pictures_over_one_another_before_any_script(console, two):
    first, second = two
    page = page_of(console, f"runs={first.pk}&runs={second.pk}")
    loss = figure_of(page, "loss")
    assert f'aria-label="run {first.pk}: from 1 to 0.3333, between 0.3333 and 1. run {second.pk}: from 2 to 1' in loss
    # 340 wide, 46 to the left and 10 to the right: three updates stand at 46, 188 and 330; the shorter run ends at 188
    assert loss.count('cx="330.0"') == 1
    assert loss.count('cx="188.0"') == 2
    assert '<th scope="row" class="number">3</th><td class="number">0.3333</td><td class="number">–</td>' in loss
    assert "style=" not in page


def test_one_run_alone_shows_the_parts_of_its_loss_and_several_only_the_whole(console, two):
    first, second = two
    alone = figures_of(console, f"runs={first.pk}")
    assert [line["label"] for line in alone["loss"]["lines"]] == ["loss", "policy"]
    together = figures_of(console, f"runs={second.pk},{first.pk}")
    told = [(line["run"], line["label"], line["tone"]) for line in together["loss"]["lines"]]
    assert told == [(second.pk, f"run {second.pk}", 1), (first.pk, f"run {first.pk}", 2)]  # as the address has them


def test_figures_have_their_update_and_their_time(console, two):
    [line] = figures_of(console, f"runs={two[1].pk}")["kl"]["lines"]
    assert (line["steps"], line["times"], line["values"]) == ([1.0, 2.0], [30.0, 60.0], [0.2, 0.4])


def test_what_the_machine_did_is_drawn_over_time(console, two):
    found = figures_of(console, f"runs={two[0].pk}")
    assert [found[key]["by"] for key in ("loss", "cpu", "gpu_memory")] == ["step", "time", "time"]
    assert found["gpu_memory"]["lines"][0]["values"] == [4000.0, 4100.0]
    assert found["cpu"]["lines"][0]["times"] == [30.0, 90.0]
    page = console.get(reverse("console:run", args=[two[0].pk])).content.decode()
    assert 'aria-label="cores busy: from 1.5 to 2, between 1.5 and 2."' in page


def test_by_time_the_same_pictures_count_minutes(console, two):
    loss = figure_of(page_of(console, f"runs={two[0].pk}&runs={two[1].pk}&x=time"), "loss")
    assert ">minute 0.5</text>" in loss  # 30 seconds each
    assert ">1.5</text>" in loss


def test_a_limit_is_drawn_where_the_runs_agree_on_it(console, make_run):
    recipes = [{"max_gap": 0.5}, {"max_gap": 0.2}]
    runs = [make_run(metrics=[{"update": n, "gap_mean": 0.1} for n in (1, 2)], recipe=recipe) for recipe in recipes]
    assert figures_of(console, f"runs={runs[0].pk}")["gap"]["limit"] == 0.5
    assert figures_of(console, f"runs={runs[0].pk},{runs[1].pk}")["gap"]["limit"] is None


def test_however_long_a_run_is_its_figures_are_bounded_and_keep_their_extremes(console, make_run):
    values = [0.5] * 5000
    values[1234], values[4321] = 9.0, -9.0
    run = make_run(metrics=[{"update": n, "loss": value} for n, value in enumerate(values, 1)])
    answer = console.get(f"{reverse('console:overlay_figures')}?runs={run.pk}")
    [line] = json.loads(answer.content)["charts"][0]["lines"]
    assert len(line["values"]) <= 400
    assert (min(line["values"]), max(line["values"])) == (-9.0, 9.0)
    assert line["steps"][line["values"].index(9.0)] == 1235.0
    assert len(answer.content) < 20_000


@pytest.mark.parametrize("query", ["", "runs=", "runs=x,-1,1.5", f"runs={10**30}", "runs=999"])
def test_an_address_that_names_no_run_says_how_to_choose(console, query):
    page = page_of(console, query)
    assert "No run is chosen." in page
    assert figures_of(console, query) == {}


def test_of_too_many_runs_the_first_are_shown_and_it_says_so(console, make_run):
    runs = [make_run(metrics=steps(3, loss=lambda n: 1.0)).pk for _ in range(overlays.MOST_RUNS + 1)]
    query = "&".join(f"runs={pk}" for pk in runs)
    assert "At most 12 runs can be told apart" in page_of(console, query)
    assert len(figures_of(console, query)["loss"]["lines"]) == 12


def test_a_run_that_is_gone_is_named_and_the_others_shown(console, two):
    page = page_of(console, f"runs={two[0].pk}&runs=999")
    assert "There is no run with the number 999." in page
    assert 'id="chart-loss"' in page


ALL = [
    "loss",
    "policy_loss",
    "distillation_loss",
    "supervised_loss",
    "closed_loss",
    "kl_loss",
    "kl",
    "entropy",
    "clip_fraction",
    "gap_mean",
    "gap_p99",
    "grad_norm",
    "adapter_norm",
    "closed_right",
    "tokens_per_s",
    "advantage_mean",
    "advantage_max",
    "advantage_min",
]
USAGE = [
    {"at_s": 2.0 * n, "updates": 0.0, "cpu": 1.0 + n % 2, "memory_mib": 900.0 + n, "gpu": 0.5, "gpu_mib": 9000.0}
    for n in range(240)
]


@pytest.mark.parametrize("number", [8, 500])
def test_however_many_and_long_its_runs_are_the_page_asks_equally_often_and_is_light(
    console, make_run, django_assert_max_num_queries, number
):
    metrics = steps(number + 1, **{name: lambda n: 1 / n for name in ALL})
    query = "&".join(f"runs={make_run(metrics=metrics, usage=USAGE).pk}" for _ in range(12))
    with django_assert_max_num_queries(12):
        page = page_of(console, query)
    assert len(page.encode()) < 200_000
    with django_assert_max_num_queries(4):
        sent = console.get(f"{reverse('console:overlay_figures')}?{query}").content
    # 10 charts of updates and 4 of the machine, 1,200 points each of some 25 characters
    assert len(sent) < 14 * 1200 * 30


def test_the_address_is_read_within_its_bounds():
    assert [overlay_pages.smoothing(said) for said in ("0.6", "7", "-1", "nan", "")] == [0.6, 0.95, 0.0, 0.0, 0.0]
