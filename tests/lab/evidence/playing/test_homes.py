"""How many Talkbacks a run of evidence starts, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from environments.errors import Unplayable
from lab.evidence.playing import homes
from lab.evidence.playing.homes import folders


def names(found: list[Path]) -> list[str]:
    return [folder.name for folder in found]


def test_there_is_a_talkback_for_three_cores_and_no_more_than_lines_that_learn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homes, "cores", lambda: 16)
    four = ["talkback", "talkback-2", "talkback-3", "talkback-4"]
    assert names(folders(tmp_path, 21, {})) == [*four, "talkback-5"]  # 16 // 3 = 5
    assert names(folders(tmp_path, 4, {})) == four
    assert names(folders(tmp_path, 0, {})) == ["talkback"]  # base alone is answered by one
    monkeypatch.setattr(homes, "cores", lambda: 2)
    assert names(folders(tmp_path, 21, {})) == ["talkback"]
    assert names(folders(tmp_path, 21, {}, asked=2)) == ["talkback", "talkback-2"]


def test_a_run_goes_on_with_the_talkbacks_that_it_began_with(tmp_path: Path) -> None:
    for name in ("talkback", "talkback-2", "talkback-3"):
        (tmp_path / name).mkdir()
    assert names(folders(tmp_path, 1, {})) == ["talkback", "talkback-2", "talkback-3"]
    with pytest.raises(Unplayable, match="was begun with --talkbacks 3"):
        folders(tmp_path, 1, {}, asked=2)


def test_an_engine_that_is_there_already_has_one_talkback(tmp_path: Path) -> None:
    given = {"ENGINE_URL": "http://127.0.0.1:9"}
    assert names(folders(tmp_path, 21, given)) == ["talkback"]
    with pytest.raises(Unplayable, match="no --talkbacks"):
        folders(tmp_path, 21, given, asked=2)
