"""What a start runs with is told, remembered or chosen, and kept where only its owner reads it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from installation import diagnosis, settings
from installation.places import ROOT


@pytest.fixture(autouse=True)
def nobody_set_anything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*settings.KEPT, "PORT", "HOST", "SECRET_KEY", "REDIS_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    place(tmp_path, monkeypatch)


def place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have DATA_DIR be `folder`."""
    monkeypatch.setattr(settings, "DATA_DIR", folder)
    monkeypatch.setattr(settings, "ENV_FILE", folder / "env")
    monkeypatch.setattr(diagnosis, "DEFAULT_MODEL", folder / "models" / "smollm2-135m-instruct")


def start() -> dict[str, str]:
    """What one start would run with; written down as it is."""
    complete = settings.complete(settings.asked_for())
    settings.write_settings(complete)
    return complete


def test_secrets_are_made_once_and_are_private():
    first, second = start(), start()

    for secret in ("SECRET_KEY", "ENGINE_API_KEY", "ENGINE_ADMIN_KEY", "REDIS_PASSWORD"):
        assert len(first[secret]) >= 32
        assert first[secret] == second[secret]
    assert first["ENGINE_API_KEY"] != first["ENGINE_ADMIN_KEY"]
    assert stat.S_IMODE(settings.ENV_FILE.stat().st_mode) == 0o600


def test_a_database_once_named_is_remembered_until_it_is_emptied(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://somewhere/talkback")
    start()
    monkeypatch.delenv("DATABASE_URL")
    assert start()["DATABASE_URL"] == "postgresql://somewhere/talkback"

    monkeypatch.setenv("DATABASE_URL", "")
    assert "DATABASE_URL" not in start()


def test_the_port_is_not_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PORT", "9000")
    assert start()["PORT"] == "9000"
    monkeypatch.delenv("PORT")
    assert start()["PORT"] == "8000"


def test_our_own_redis_is_never_taken_for_one_that_was_named(monkeypatch: pytest.MonkeyPatch):
    ours = start()
    assert ours["REDIS_URL"].endswith(f"@127.0.0.1:{ours['REDIS_PORT']}/0")
    assert "REDIS_URL" not in settings.asked_for()

    monkeypatch.setenv("REDIS_URL", "redis://elsewhere:6379/0")
    named = start()
    assert named["REDIS_URL"] == "redis://elsewhere:6379/0"
    assert "REDIS_PORT" not in named
    monkeypatch.delenv("REDIS_URL")
    assert start()["REDIS_URL"] == "redis://elsewhere:6379/0"


def test_a_value_may_hold_an_equals_sign(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://h/d?options=-csearch_path%3Dx&sslmode=require")
    start()
    assert settings.written()["DATABASE_URL"].endswith("sslmode=require")


def test_a_value_of_two_lines_cannot_smuggle_in_a_second_setting(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MODEL_NAME", "friendly\nDEBUG=1")
    with pytest.raises(settings.Trouble, match="MODEL_NAME"):
        start()


def test_a_judge_that_teaches_is_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JUDGE_TEACHES", "1")
    start()
    monkeypatch.delenv("JUDGE_TEACHES")
    assert start()["JUDGE_TEACHES"] == "1"


def test_a_start_that_says_nothing_of_a_host_is_reached_at_localhost(monkeypatch: pytest.MonkeyPatch):
    """Passkeys work under a name, and 127.0.0.1 is none."""
    assert settings.address(start()) == "http://localhost:8000"

    for host, address in (
        ("localhost", "http://localhost:8000"),
        # web holds one family then, and the other loopback address is free to any program
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::1", "http://[::1]:8000"),
        ("::", "http://[::1]:8000"),
        ("10.0.0.7", "http://10.0.0.7:8000"),
        ("fd00::7", "http://[fd00::7]:8000"),
        ("talk.example.org", "http://talk.example.org:8000"),
    ):
        monkeypatch.setenv("HOST", host)
        assert settings.address(start()) == address


def test_a_judge_with_a_card_gets_an_address_and_a_key_that_no_other_judge_is_sent(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    for name, value in {"PROFILE": "gpu", "PRM_GPUS": "1", "JUDGE_MODEL": "/models/judge"}.items():
        monkeypatch.setenv(name, value)

    first = start()
    assert first["JUDGE_URL"] == f"http://127.0.0.1:{first['JUDGE_PORT']}/v1"
    assert first["JUDGE_API_KEY"]

    monkeypatch.setenv("PRM_GPUS", "")
    monkeypatch.setenv("JUDGE_URL", "https://judge.example.org/v1")
    assert "JUDGE_API_KEY" not in start()


def test_whether_learner_and_engine_have_one_card_is_found_anew(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROFILE", "gpu")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert start()["LEARNER_SHARES"] == "1"

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert start()["LEARNER_SHARES"] == "0"


def test_several_engines_get_an_address_each_and_those_of_others_are_adopted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ENGINE_COUNT", "3")
    ours = start()
    assert len(set(ours["ENGINE_PORTS"].split(","))) == 3
    assert ours["ENGINE_URLS"] == ",".join(f"http://127.0.0.1:{port}" for port in ours["ENGINE_PORTS"].split(","))
    assert start()["ENGINE_PORTS"] == ours["ENGINE_PORTS"]

    monkeypatch.setenv("ENGINE_COUNT", "1")
    assert "ENGINE_URLS" not in start()

    monkeypatch.setenv("ENGINE_URLS", "http://gpu-1:30000, http://gpu-2:30000")
    adopted = start()
    assert not {"ENGINE_PORT", "ENGINE_PORTS", "ENGINE_URL"} & adopted.keys()
    monkeypatch.delenv("ENGINE_URLS")
    assert start()["ENGINE_URLS"] == "http://gpu-1:30000, http://gpu-2:30000"


def test_what_nobody_said_is_not_written_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    start()
    assert not {"MODEL", "PROFILE"} & settings.written().keys()

    monkeypatch.setenv("MODEL", str(tmp_path / "models" / "smollm2-135m-instruct"))  # the default, in full
    start()
    assert "MODEL" not in settings.written()

    monkeypatch.setenv("MODEL", "Qwen/Qwen3-4B")  # and one that was said is, as it was said
    start()
    assert settings.written()["MODEL"] == "Qwen/Qwen3-4B"


def seen_by_manage(folder: Path, *names: str) -> list[str]:
    """These settings as a management command has them in any shell."""
    clean = {name: value for name, value in os.environ.items() if name not in {*settings.KEPT, "ENV_FILE", "PORT"}}
    asked = "; ".join(["from webapp import settings", *(f"print(settings.{name})" for name in names)])
    command = [sys.executable, "-c", asked]
    done = subprocess.run(
        command, cwd=ROOT, env=clean | {"DATA_DIR": str(folder)}, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_a_folder_that_was_moved_names_nothing_of_where_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    old, new = tmp_path / "old", tmp_path / "new"
    (old / "models" / "own").mkdir(parents=True)
    (old / "recipe.json").write_text("{}")
    place(old, monkeypatch)
    monkeypatch.setenv("MODEL", str(old / "models" / "own"))
    monkeypatch.setenv("RECIPE", str(old / "recipe.json"))
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{old}/own.sqlite3")
    start()
    for name in ("MODEL", "RECIPE", "DATABASE_URL"):
        monkeypatch.delenv(name)

    old.rename(new)

    place(new, monkeypatch)
    asked = settings.asked_for()
    assert (asked["MODEL"], asked["RECIPE"]) == (str(new / "models" / "own"), str(new / "recipe.json"))
    assert asked["DATABASE_URL"] == f"sqlite:///{new}/own.sqlite3"
    seen = seen_by_manage(new, "MODEL", "RECIPE", "DATA_DIR", "DATABASES['default']['NAME']")
    assert seen == [str(new / "models" / "own"), str(new / "recipe.json"), str(new), str(new / "own.sqlite3")]


def test_a_backup_of_before_whose_model_nobody_set_is_restored_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    new = tmp_path / "new"
    (new / "models" / "smollm2-135m-instruct").mkdir(parents=True)
    # As earlier versions wrote it.
    written = ["DATA_DIR=/srv/gone", "MODEL=/srv/gone/models/smollm2-135m-instruct", "PROFILE=embedded"]
    (new / "env").write_text("".join(f"{line}\n" for line in written))

    place(new, monkeypatch)

    assert "MODEL" not in settings.asked_for()
    assert diagnosis.model_files(settings.asked_for()).fine
    assert seen_by_manage(new, "MODEL") == [str(new / "models" / "smollm2-135m-instruct")]


def test_a_model_of_the_hub_is_found_in_its_copy_wherever_the_folder_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("MODEL", "Qwen/Qwen3-4B")
    start()
    copy = tmp_path / "models" / "Qwen--Qwen3-4B"
    copy.mkdir(parents=True)
    (copy / "config.json").write_text("{}")
    assert seen_by_manage(tmp_path, "MODEL") == [str(copy)]
