"""What a start runs with is told, remembered or chosen, and kept where only its owner reads it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from installation import settings


@pytest.fixture(autouse=True)
def nobody_set_anything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*settings.KEPT, "PORT", "HOST", "SECRET_KEY", "REDIS_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(settings, "ENV_FILE", tmp_path / "env")


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
