"""Lines made from a file and listed, as scripts do it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError

from chat.api_keys import ApiKey
from checkpoints.models import SHARED, Checkpoint, Line, Member
from judge.models import Ruling
from training import line_recipes

pytestmark = pytest.mark.django_db

ROW = {
    "title": "Brief, seed 1",
    "name": "brief-1",
    "people": ["brief-1"],
    "recipe": {"preset": "topk", "batch_size": 4},
    "keys": {"talk": {}, "probe": {"serve_only": True}},
}


@pytest.fixture
def make(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def make(*rows: Any) -> list[dict[str, Any]]:
        file = tmp_path / "lines.jsonl"
        file.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
        call_command("lines", "make", str(file))
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return make


def test_a_line_is_made_with_its_person_recipe_and_keys(make) -> None:
    (said,) = make(ROW)
    assert said["line"] == "brief-1"
    assert line_recipes.recipe_of("brief-1").batch_size == 4
    person = User.objects.get(username="brief-1")
    assert Line.of(person) == "brief-1"
    assert not person.has_usable_password()
    talk, probe = (ApiKey.objects.find_open(said["keys"][name]) for name in ("talk", "probe"))
    assert (talk.user, talk.learns) == (person, True)
    assert (probe.user, probe.learns) == (person, False)


def test_twice_makes_nothing_twice_and_issues_the_keys_anew(make) -> None:
    (first,), (second,) = make(ROW), make(ROW)
    assert Line.objects.count() == 2  # with the shared one
    assert Member.objects.count() == 1
    assert first["keys"]["talk"] != second["keys"]["talk"]
    assert all(ApiKey.objects.find_open(said["keys"]["talk"]) for said in (first, second))


def test_another_recipe_is_set(make) -> None:
    make(ROW)
    make(ROW | {"recipe": {"preset": "binary"}})
    assert line_recipes.recipe_of("brief-1").w_opd == 0


def test_a_policy_is_set_once_and_stays(make) -> None:
    row = ROW | {"policy": {"auto_approve": True, "guard": "off"}}
    make(row)
    make(row)
    assert Line.objects.get(name="brief-1").policy == {"auto_approve": True, "guard": "off"}
    assert Ruling.objects.filter(after__has_key="policy").count() == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("{", "line 2 is no JSON"),
        ({"name": "x"}, 'line 2: a line needs a "title"'),
        ({"title": "X", "colour": 1}, "line 2: 'colour' is none of"),
        ({"title": "X", "people": ["x"], "recipe": {"lr": -1}}, "line 2: The recipe's lr cannot be used"),
        ({"title": "X", "policy": {"margin": 2}}, "line 2: The policy cannot be used: margin"),
        ({"title": "X", "keys": {"talk": {}}}, "line 2: keys belong to people"),
        ({"title": "shared"}, "line 2: There is, or was, a line called 'shared'"),
    ],
)
def test_what_cannot_be_made_names_its_line_and_nothing_is_made(make, wrong: Any, said: str) -> None:
    with pytest.raises(CommandError, match=said):
        make(ROW, wrong)
    assert Line.objects.count() == 1
    assert not User.objects.filter(username="brief-1").exists()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"nowhere\.jsonl cannot be read"):
        call_command("lines", "make", str(tmp_path / "nowhere.jsonl"))


def test_lines_are_listed_with_what_waits_and_what_ran(make, make_checkpoint, capsys) -> None:
    make(ROW)
    made = make_checkpoint(1)
    Checkpoint.objects.filter(pk=made.pk).update(line="brief-1", reason="its replies are empty")
    made.run.line_id = "brief-1"
    made.run.save()
    call_command("lines", "list")
    shared, own = capsys.readouterr().out.splitlines()
    assert shared.split()[:2] == [SHARED, "talkback@0"]
    assert own.split() == ["brief-1", "talkback@0", "0", "of", "4", "lessons", "brief-1"]
    call_command("lines", "list", "brief-1", "--json")
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["live"], told["samples"]) == (0, {"ready": 0, "needed": 4, "wanting": 4, "corrections": 0})
    assert told["checkpoints"][0] | {"folder": ""} == {
        "number": 1,
        "name": "talkback@1",
        "status": "passed",
        "reason": "its replies are empty",
        "run": made.run.pk,
        "adapter": made.adapter,
        "folder": "",
    }
    assert told["runs"][0]["id"] == made.run.pk
    assert told["recipe"]["distillation"] == "topk"


def test_listing_a_line_that_is_not_there_fails_with_a_sentence() -> None:
    with pytest.raises(CommandError, match="There is no line 'x'"):
        call_command("lines", "list", "x")
