"""A data folder of the version before, opened by this one: nothing is lost, and the loop goes on."""

from __future__ import annotations

import json
import sqlite3
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model

from chat.models import Turn
from chat.rendering.renderer import Renderer
from checkpoints import promotion
from checkpoints.models import Checkpoint
from installation.speech import reason_in
from judge import verdicts
from judge.votes import judges
from tests.doubles.fake_engine import FakeEngine
from tests.upgrade.conftest import KEY, dump, migrate, write_old
from training import batches, config, runs
from training.config import Recipe
from training.models import Run, Sample

pytestmark = pytest.mark.database("sqlite")  # old.sql is of SQLite

OPEN = "chatcmpl-53ddcc5577a7475499be66d0aad628c4"
"""A whole reply of before, by checkpoint 2, of which nothing was said yet."""
REMADE = {"django_migrations", "django_content_type", "auth_permission", "sqlite_sequence"}
"""Tables that Django itself writes at each migration."""


def clauses(statement: str) -> list[str]:
    """What stands between the commas of a CREATE TABLE, in no order: columns with types, checks and references.

    >>> clauses('CREATE TABLE "a" ("x" integer CHECK (x IN (1, 2)), "y" text)')
    ['"x" integer CHECK (x IN (1, 2))', '"y" text']
    """
    inside, found, depth = statement[statement.index("(") + 1 : statement.rindex(")")], [""], 0
    for sign in inside:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            found.append("")
        else:
            found[-1] += sign
    return sorted(clause.strip() for clause in found)


def schema(file: Path) -> dict[str, Any]:
    with sqlite3.connect(file) as rows:
        said = rows.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    rows.close()
    return {name: clauses(sql) if kind == "table" else sql for kind, name, sql in said}


def table(file: Path, name: str, columns: list[str]) -> list[tuple[Any, ...]]:
    with sqlite3.connect(file) as rows:
        listed = ", ".join(f'"{column}"' for column in columns)
        said = rows.execute(f"SELECT {listed} FROM {name} ORDER BY {listed}").fetchall()
    rows.close()
    return said


def columns(file: Path) -> dict[str, list[str]]:
    with sqlite3.connect(file) as rows:
        tables = [name for (name,) in rows.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        said = {name: [row[1] for row in rows.execute(f"PRAGMA table_info({name})")] for name in tables}
    rows.close()
    return said


def test_an_upgraded_database_has_the_schema_of_a_fresh_one(taken_over: Path, empty_database: Path):
    fresh = schema(empty_database)
    upgraded = schema(taken_over)
    assert upgraded.keys() == fresh.keys()
    assert {name: said for name, said in upgraded.items() if said != fresh[name]} == {}
    assert "judge_vote" in fresh  # names of tables stay
    assert any("training_checkpoint" in clause for clause in fresh["training_run"])


def test_an_upgrade_keeps_every_row_of_every_table(taken_over: Path, tmp_path: Path):
    before = write_old(tmp_path)
    kept, now = columns(before), columns(taken_over)
    assert kept.keys() <= now.keys()
    lost = {(name, column) for name in kept.keys() - REMADE for column in {*kept[name]} - {*now[name]}}
    assert lost == {("training_checkpoint", "run_id")}  # the run names the checkpoint now
    rows = 0
    for name in kept.keys() - REMADE:
        stay = [column for column in kept[name] if column in now[name]]
        was = table(before, name, stay)
        assert table(taken_over, name, stay) == was, name
        rows += len(was)
    # 1 account, 3 keys, 24 sessions, 24 turns, 39 words of feedback, 6 questions asked again, 2 exams, 17 hints, 22
    # judgements, 34 votes, 3 checkpoints, 3 decisions, 1 line, 2 rehearsals, 2 runs, 20 samples
    assert rows == 203


def test_runs_name_the_checkpoints_that_named_them(house: Path):
    made = Run.objects.order_by("pk").values_list("pk", "status", "checkpoint__number")
    assert list(made) == [(1, "finished", 1), (2, "finished", 2)]
    states = Checkpoint.objects.order_by("number").values_list("number", "status")
    assert list(states) == [(0, "retired"), (1, "rejected"), (2, "live")]


def test_an_upgrade_is_done_once(taken_over: Path, tmp_path: Path):
    (tmp_path / "talkback.sqlite3").write_bytes(taken_over.read_bytes())
    before = dump(tmp_path / "talkback.sqlite3")
    assert migrate(tmp_path).returncode == 0
    assert dump(tmp_path / "talkback.sqlite3") == before


def test_after_an_upgrade_the_loop_goes_on(house: Path, client, engine: FakeEngine, settings):
    live = Checkpoint.live()
    engine.loaded[live.adapter] = str(live.folder)
    headers = {"Authorization": f"Bearer {KEY}"}

    def post(path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = client.post(path, json.dumps(body), content_type="application/json", headers=headers)
        assert answer.status_code == 200, answer.content
        return dict(answer.json())

    # chat, with the key of before, by the weights of before
    engine.says("Rome.", to="Italy")
    said = post("/v1/chat/completions", {"messages": [{"role": "user", "content": "What is the capital of Italy?"}]})
    assert (said["model"], said["choices"][0]["message"]["content"]) == ("talkback@2", "Rome.")

    # feedback on a turn of before, and its verdict
    taught = post("/v1/feedback", {"completion_id": OPEN, "thumb": "down"})
    assert taught["learning"]["stage"] == "judging"
    turn = Turn.objects.get(completion_id=OPEN)
    assert turn.status == "observed"
    renderer = Renderer.for_model(settings.MODEL)
    recipe = Recipe(batch_size=4, w_opd=0, w_sft=1.0, max_gap=1000.0)  # the wide model is not the one that answered
    assert verdicts.judge(str(turn.pk), who=judges.panel(), engine=engine, renderer=renderer, recipe=recipe)
    turn = Turn.objects.get(completion_id=OPEN)
    assert (turn.status, turn.judgement.reward, turn.judgement.sample.status) == ("judged", -1, "ready")

    # roll back, since the weights of checkpoint 2 are not in old.sql and a run begins from the live ones
    back = async_to_sync(promotion.roll_back)(by=get_user_model().objects.get(), reason="it was better")
    assert (back.number, Checkpoint.live().number) == (0, 0)
    assert Checkpoint.objects.get(number=2).status == "retired"

    # a run of what waited: the three samples that were ready before and the one of just now
    run = batches.fill(recipe)
    assert run is not None
    assert set(run.samples.values_list("pk", flat=True)) == {17, 19, 20, turn.judgement.sample.pk}
    candidate = runs.train(run)
    assert candidate is not None
    assert (candidate.number, candidate.status, candidate.parent.number) == (3, "candidate", 0)
    run.refresh_from_db()
    assert (run.status, run.checkpoint) == ("finished", candidate)
    assert (candidate.folder / "adapter_model.safetensors").exists()
    assert not Sample.objects.exclude(status="trained").exists()


def test_pages_show_what_the_version_before_wrote(house: Path, client):
    client.force_login(get_user_model().objects.get())
    pages = [f"/console/checkpoints/{number}/" for number in range(3)]
    pages += [f"/console/runs/{pk}/" for pk in (1, 2)]
    pages += [f"/console/turns/{pk}/" for pk in Turn.objects.values_list("pk", flat=True)]
    pages += [f"/console/hints/{pk}/?status=all" for pk in range(1, 18)]
    pages += ["/console/", "/console/checkpoints/tree/", "/console/audit/", "/console/ledger/", "/console/rewards/"]
    bad = [(page, answer.status_code) for page in pages if (answer := client.get(page)).status_code != 200]
    assert bad == []
    assert (
        "58% of its replies to different prompts differ"
        in client.get("/console/checkpoints/1/figures/").content.decode()
    )


def test_an_older_database_is_refused_in_one_sentence_and_left_alone(old: Path):
    with sqlite3.connect(old / "talkback.sqlite3") as rows:  # as one that was last started before 0012_asked_again
        rows.execute("DELETE FROM django_migrations WHERE app = 'judge' AND name = '0012_asked_again'")
    rows.close()
    before = dump(old / "talkback.sqlite3")

    refused = migrate(old)

    assert refused.returncode == 1
    [sentence] = refused.stderr.splitlines()
    assert sentence == (
        "CommandError: This database is of an older Talkback than this version can take over, and nothing was changed. "
        "Start the version between once on the same DATA_DIR (git checkout 6fe218b, make up, make down), then this one "
        "again."
    )
    assert dump(old / "talkback.sqlite3") == before


def test_a_recipe_that_names_gone_knobs_is_refused_before_the_upgrade(old: Path):
    """Nothing would be judged or learned, and the console's pages would be that sentence."""
    recipe = old / "recipe.json"
    recipe.write_text('{"preset": "binary", "w_again": 0.5, "updates": 2}')
    before = dump(old / "talkback.sqlite3")

    refused = migrate(old, RECIPE=str(recipe))

    assert refused.returncode == 1
    [sentence] = refused.stderr.splitlines()
    assert sentence == (
        f"CommandError: RECIPE={recipe}: The recipe names knobs that are gone: w_again. Delete them: each is fixed, as "
        "in the presets."
    )
    assert dump(old / "talkback.sqlite3") == before


def test_recipes_of_lines_lose_the_knobs_that_are_gone_and_operators_are_told(old: Path):
    chosen = {"preset": "topk-union", "w_again": 0.5, "updates": 2, "gate": {"handful": 2, "prompts": 4}}
    with sqlite3.connect(old / "talkback.sqlite3") as rows:
        rows.execute("UPDATE training_line SET recipe = ?", [json.dumps(chosen)])
    rows.close()

    assert migrate(old).returncode == 0

    [(recipe,)] = table(old / "talkback.sqlite3", "training_line", ["recipe"])
    assert json.loads(recipe) == {"preset": "topk", "updates": 2, "gate": {"prompts": 4}}
    assert config.read(recipe).gate.prompts == 4
    [(level, text)] = table(old / "talkback.sqlite3", "training_notice", ["level", "text"])
    assert (level, text) == (
        "warning",
        "The recipe of the line Shared named what is gone: w_again, gate.handful, the preset topk-union, now topk. It "
        "was deleted: each is fixed, as in the presets.",
    )


def test_every_knob_that_is_gone_is_deleted_from_recipes_of_lines():
    gone = import_module("training.migrations.0004_gone_knobs")
    assert gone.GONE | {f"gate.{name}" for name in gone.GONE_OF_GATE} == config.REMOVED
    assert {*gone.PRESETS.values()} <= {*config.PRESETS}


def test_make_up_says_a_refusal_without_djangos_name_for_it(old: Path):
    (old / "recipe.json").write_text('{"w_again": 0.5}')
    refused = migrate(old, RECIPE=str(old / "recipe.json"))
    assert reason_in(refused.stderr).startswith(f"RECIPE={old}")
