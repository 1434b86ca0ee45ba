"""Every run, one run, and the recipe, as the operator sees them."""

from __future__ import annotations

import io
import json
import zipfile
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from checkpoints.models import Checkpoint
from tests.sockets import Tab
from tests.webapp.training.pages import text
from training import config, hours, journals
from training.models import Run, RunTag, Sample
from webapp.console.training import run_pages

HISTOGRAM = {"edges": [-1.0, -0.5, 0.5, 1.0], "counts": [2, 5, 3]}
METRICS = [
    {
        "update": n,
        "loss": 0.5 / n,
        "kl": 0.1 * n,
        "entropy": 2.0,
        "clip_fraction": 0.1,
        "gap_mean": 0.012,
        "gap_p99": 0.03,
        "grad_norm": 0.7,
        "tokens": 100.0,
        "seconds": 2.0,
        "tokens_per_s": 50.0,
        "advantage_histogram": HISTOGRAM,
    }
    for n in (1, 2)
]


def page_of(console, run):
    return text(console.get(reverse("console:run", args=[run.pk])))


@pytest.mark.parametrize(
    "address",
    ["/console/runs/", "/console/runs/1/", "/console/runs/1/figures.jsonl", "/console/runs/1/tensorboard",
     "/console/checkpoints/1/adapter.zip", "/console/recipe/"],
)  # fmt: skip
def test_only_staff_see_what_was_trained(client, talker, make_checkpoint, address):
    make_checkpoint(1)
    assert client.get(address).status_code == 302
    client.force_login(talker)
    assert client.get(address).status_code == 403


def test_before_the_first_run_the_list_says_how_one_begins(console):
    page = text(console.get(reverse("console:runs")))
    assert "Nothing has been learned yet." in page
    assert "<table" not in page


def test_a_run_is_one_line_of_what_it_took_and_what_came_of_it(console, make_checkpoint, make_lesson):
    made = make_checkpoint(1)
    now = timezone.now()
    Run.objects.filter(pk=made.run.pk).update(
        metrics=METRICS,
        recipe=config.PRESETS["binary"].model_dump() | {"updates": 2},
        started_at=now - timedelta(minutes=4),
        finished_at=now,
        progress={"peak_mib": 2048.0},
    )
    make_lesson("trained", run=made.run)
    page = text(console.get(reverse("console:runs")))
    for said in ("binary, 1 knob changed", "4 min", ">50<", "2.0 GiB", ">0.012<", "talkback@1"):
        assert said in page


def test_the_list_says_why_a_run_failed_and_narrows_to_those(console, make_run):
    make_run("finished")
    make_run("failed", error="The disk is full.")
    page = text(console.get(reverse("console:runs"), {"status": "failed"}))
    assert "The disk is full." in page
    assert page.count("<tr id=") == 1
    assert "No run is running." in text(console.get(reverse("console:runs"), {"status": "running"}))


def test_older_runs_come_a_page_at_a_time(console, make_run, monkeypatch):
    monkeypatch.setattr(run_pages, "PAGE", 2)
    made = [make_run().pk for _ in range(3)]
    page = text(console.get(reverse("console:runs")))
    assert f'id="run-{made[2]}"' in page
    assert f'id="run-{made[0]}"' not in page
    assert f"?before={made[1]}" in page
    rest = text(console.get(f"{reverse('console:runs')}?before={made[1]}", headers={"HX-Request": "true"}))
    assert f'id="run-{made[0]}"' in rest
    assert "<html" not in rest


def test_however_many_runs_there_are_the_list_asks_equally_often(console, make_run, django_assert_max_num_queries):
    for _ in range(12):
        RunTag.objects.create(run=make_run(metrics=METRICS), name="baseline")
    with django_assert_max_num_queries(11):
        console.get(reverse("console:runs"))


def test_the_board_leads_to_all_runs(console, make_run):
    make_run()
    assert reverse("console:runs") in text(console.get(reverse("console:board")))


def test_a_finished_run_shows_its_curves_with_numbers_and_how_they_are_read(console, make_run):
    page = page_of(console, make_run(metrics=METRICS))
    assert 'aria-label="loss: from 0.5 to 0.25 in 2 updates, between 0.25 and 0.5."' in page
    assert "A steep rise is worrying" in page
    assert "30 % above 0, 20 % below, 50 % about 0" in page
    assert '<th scope="row" class="number">2</th><td class="number">0.25</td>' in page
    assert "style=" not in page  # the policy allows no inline style


def test_a_run_without_figures_says_that_there_is_nothing_to_draw(console, make_run):
    page = page_of(console, make_run("failed", error="Nothing to learn."))
    assert "It failed.</strong> Nothing to learn." in page
    assert "It ended before its first update" in page


def test_a_runs_recipe_is_read_as_what_differs_from_a_preset(console, make_run):
    recipe = config.PRESETS["embedded"].model_dump() | {"lr": 0.25, "of_another_version": 1}
    page = page_of(console, make_run(recipe=recipe))
    assert "The preset <strong>embedded</strong>, and different from it:" in page
    assert '<td class="number mono">0.25</td><td class="number mono quiet">0.003</td>' in page
    assert "of_another_version" in page


def test_a_run_of_an_earlier_version_is_its_preset_and_shows_the_knobs_that_are_gone(console, make_run):
    recipe = config.PRESETS["embedded"].model_dump() | {"w_dpo": 3.5, "clip_low": 0.2}
    recipe["gate"] |= {"handful": 4}
    page = page_of(console, make_run(recipe=recipe))
    assert "The preset <strong>embedded</strong>, unchanged." in page
    assert "3 knobs of an earlier version" in page
    for name, value in (("gate.handful", "4"), ("w_dpo", "3.5"), ("clip_low", "0.2")):
        assert f'<dt class="mono">{name}</dt><dd class="mono">{value}</dd>' in page


def test_its_samples_lead_to_their_turns_with_reward_hint_and_reason(console, make_run, make_lesson):
    run = make_run()
    lesson = make_lesson("trained", run=run)
    lesson.reason = "its hint waits for a person"
    lesson.save()
    page = page_of(console, run)
    assert reverse("console:turn", args=[lesson.turn_id]) in page
    assert "−1 ✎" in page
    assert "Say it in one word." in page
    assert "Its hint waits for a person" in page
    assert "the judges’ majority" in page


def test_a_sample_that_late_feedback_replaced_still_leads_to_its_turn(console, make_run, make_lesson):
    run = make_run()
    lesson = make_lesson("trained", run=run)
    lesson.learned, lesson.sample = lesson.sample, None
    lesson.save()
    assert reverse("console:turn", args=[lesson.turn_id]) in page_of(console, run)


def test_words_off_the_record_and_deleted_ones_are_not_on_a_runs_page(console, make_run, make_lesson):
    run = make_run()
    lesson = make_lesson("trained", run=run, hint="A secret hint.")
    lesson.turn.learns = False
    lesson.turn.save()
    Sample.objects.create(
        status="trained", run=run, checkpoint=Checkpoint.live(), prompt_ids=[], response_ids=[], behaviour_logprobs=[]
    )
    page = page_of(console, run)
    assert "Paris, of course." not in page
    assert "A secret hint." not in page
    assert "1 conversation of these was deleted since." in page


def test_a_runs_figures_can_be_taken_away(console, make_run):
    answer = console.get(reverse("console:run_figures", args=[make_run(metrics=METRICS).pk]))
    head, *steps = map(json.loads, answer.content.decode().splitlines())
    assert head["recipe"]["batch_size"] == 16
    assert [step["loss"] for step in steps] == [0.5, 0.25]
    assert ".jsonl" in answer["Content-Disposition"]


def test_the_event_file_is_made_of_the_runs_figures(console, make_run):
    run = make_run(metrics=METRICS)
    run.refresh_from_db()  # PostgreSQL has an order of its own for the figures of an update
    address = reverse("console:run_tensorboard", args=[run.pk])
    assert address in page_of(console, run)
    answer = console.get(address)
    assert answer.content == journals.tensorboard(run)  # which tests/training/test_journals.py reads
    assert "events.out.tfevents" in answer["Content-Disposition"]
    assert console.get(reverse("console:run_tensorboard", args=[make_run(metrics=[]).pk])).status_code == 404


def test_an_adapter_is_taken_away_with_its_base_and_its_card(console, make_checkpoint, settings, tmp_path):
    settings.DATA_DIR, settings.MODEL = tmp_path, str(tmp_path / "smol")
    checkpoint = make_checkpoint(1)
    address = reverse("console:adapter", args=[1])
    assert console.get(address).status_code == 404
    checkpoint.folder.mkdir(parents=True)
    (checkpoint.folder / "adapter_config.json").write_text('{"r": 16, "base_model_name_or_path": "/somewhere/here"}')
    (checkpoint.folder / "adapter_model.safetensors").write_bytes(b"weights")
    (checkpoint.folder / "optimizer.pt").write_bytes(b"not for others")
    answer = console.get(address)
    archive = zipfile.ZipFile(io.BytesIO(b"".join(answer.streaming_content)))
    weights = {"adapter_config.json", "adapter_model.safetensors", "README.md"}
    assert set(archive.namelist()) == weights | {"receipt.json", "receipt.pub"}
    assert json.loads(archive.read("adapter_config.json")) == {"r": 16, "base_model_name_or_path": "smol"}
    assert console.get(reverse("console:adapter", args=[0])).status_code == 404  # the base has none


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_nobody_but_staff_hears_of_a_run(talker, make_run):
    run = await sync_to_async(make_run)("running")
    for user, code in ((None, 4401), (talker, 4403)):
        async with Tab(f"/ws/console/runs/{run.pk}/", user) as tab:
            assert await tab.ends() == code
            assert await tab.is_silent()


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_a_run_that_is_not_there_ends_its_page_without_a_traceback(operator, caplog):
    async with Tab("/ws/console/runs/7/", operator) as tab:
        assert await tab.ends() == 4403
    async with Tab(f"/ws/console/runs/{10**30}/", operator) as tab:
        assert not tab.is_open  # no row has this number, so there is no such path
    assert not [line for line in caplog.records if line.exc_info]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_an_open_run_receives_its_progress_its_curves_and_its_end(operator, make_run):
    run = await sync_to_async(make_run)("running", progress={"phase": "learning", "share": 0.1875, "eta_s": 70})
    async with Tab(f"/ws/console/runs/{run.pk}/", operator) as tab:
        whole = await tab.hears()
        assert whole.count('hx-swap-oob="true"') == len(run_pages.PARTS)
        assert "19 %" in whole

        progress = {"phase": "learning", "share": 0.5625, "eta_s": 40}
        await Run.objects.filter(pk=run.pk).aupdate(progress=progress, metrics=METRICS)
        news = await tab.hears()
        assert "56 %" in news
        assert "loss: from 0.5 to 0.25" in news

        await Run.objects.filter(pk=run.pk).aupdate(status="failed", error="Stopped by a person.")
        end = await tab.hears()
        assert "It failed.</strong> Stopped by a person." in end
        assert 'id="cancel"' not in end


def test_a_page_connects_only_while_there_is_something_to_wait_for(console, make_run):
    assert "ws-connect=" in page_of(console, make_run("running"))
    assert "ws-connect=" not in page_of(console, make_run("finished"))


def test_a_dry_run_says_in_figures_what_learn_now_would_take(console, make_lesson, settings):
    settings.RECIPE = ""
    assert "nothing to estimate" in text(console.get(reverse("console:forecast")))
    make_lesson()
    page = text(console.get(reverse("console:forecast")))
    assert '<dt>Updates</dt><dd class="number">4</dd>' in page
    assert "Learn now from 1 lesson" in page
    assert not Run.objects.exists()


def test_a_run_that_a_pause_holds_back_says_so(console, make_run, operator):
    run = make_run("queued")
    assert "Waiting for the learner" in page_of(console, run)
    hours.pause(by=operator, reason="a demonstration")
    assert "It waits: paused by ana (a demonstration) until a person resumes it." in page_of(console, run)
    assert "Training waits: paused by ana" in text(console.get(reverse("console:forecast")))


def test_a_run_says_what_it_did_otherwise_and_why_there_is_no_gap(console, make_run):
    told = {"note": "It went on with 1.", "gap_note": "not measured", "replies_praised": 3, "replies_hinted": 2}
    page = page_of(console, make_run(metrics=[{"loss": 0.5} | told]))
    for said in ("It went on with 1.", "<dd>not measured</dd>", ": 3 praised, 2 hinted"):
        assert said in page


def test_a_run_begins_with_loss_and_kl_and_says_whether_anything_is_worrying(console, make_run):
    steps = [{"update": 1, "loss": 0.5, "kl": 0.01, "clip_fraction": 0.1, "entropy": 1.0}]
    normal = page_of(console, make_run(metrics=steps))
    assert "Nothing here is worrying: every figure is within its limits." in normal
    assert normal.index('id="run-limits"') < normal.index('id="chart-loss"') < normal.index('id="chart-kl"')
    assert normal.index('id="chart-kl"') < normal.index('id="run-more"') < normal.index('id="chart-clip"')
    # the run of the review: a clip fraction of 0.34 over 0.3 and a gradient norm of 1.87 over 1
    figures = ((1, 0.1, 1.87), (2, 0.34, 0.5), (3, 0.32, 0.5))
    steps = [{"update": n, "loss": 1.0, "clip_fraction": clip, "grad_norm": norm} for n, clip, norm in figures]
    odd = page_of(console, make_run(metrics=steps))
    assert "2 limits were passed." in odd
    assert "Clip fraction was 0.34, above its limit 0.3, since update 2 (updates past it: 2 of 3)." in odd
    assert "<strong>Lower the rate (lr), or take fewer updates.</strong>" in odd
    assert "Gradient norm was 1.87, above its limit 1, since update 1 (updates past it: 1 of 3)." in odd
    assert "Nothing here is worrying" not in odd


def test_the_list_marks_a_run_that_passed_a_limit_and_no_other(console, make_run):
    fine, odd = make_run(metrics=METRICS), make_run(metrics=[{"update": 1, "loss": None}])
    rows = text(console.get(reverse("console:runs"))).split('<tr id="run-')
    assert "Loss is not a number since update 1." in next(row for row in rows if row.startswith(f"{odd.pk}"))
    assert "limit-mark" not in next(row for row in rows if row.startswith(f"{fine.pk}"))


def test_a_run_of_very_many_updates_is_still_a_light_page(console, make_run):
    histogram = {"edges": [n / 4 for n in range(-8, 9)], "counts": [n + 1 for n in range(16)]}
    parts = ("policy_loss", "distillation_loss", "supervised_loss", "closed_loss", "kl_loss", "adapter_norm")
    figures = {**METRICS[0], **dict.fromkeys(parts, 0.1234), "closed_right": 0.7, "advantage_histogram": histogram}
    metrics = [figures | {"update": n, "loss": 1 / n, "grad_norm": n % 7 / 7} for n in range(1, 1001)]
    usage = [
        {"at_s": float(n), "updates": 0.0, "cpu": 1.0, "memory_mib": 900.0 + n, "gpu": 0.5, "gpu_mib": 9000.0}
        for n in range(240)
    ]
    assert len(page_of(console, make_run(metrics=metrics, usage=usage)).encode()) < 200_000


def test_the_list_in_the_terminal_says_which_limits_a_run_passed(make_run, capsys):
    make_run(metrics=[{"update": 1, "clip_fraction": 0.34, "grad_norm": 1.87}])
    make_run(metrics=METRICS)
    call_command("runs", "list")
    fine, odd = capsys.readouterr().out.splitlines()  # the newest stands first
    assert odd.endswith("past its limits: clip, grad_norm")
    assert "limits" not in fine
