"""Whether a server takes pictures: it says so itself, and silence is a no that is not remembered for long."""

from __future__ import annotations

import httpx
import pytest

from gpu_workers.engine import sight
from judge.votes import judges


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    """What the server says of its model, and when; `asked` counts how often it was asked."""
    said: dict[str, object] = {"asked": 0, "now": 0.0, "answer": {}}

    def get(url: str, **options: object) -> httpx.Response:
        said["asked"] += 1
        if said["answer"] is None:
            raise httpx.ConnectTimeout("silence")
        return httpx.Response(200, json=said["answer"])

    monkeypatch.setattr(sight, "_known", {})
    monkeypatch.setattr(sight.httpx, "get", get)
    monkeypatch.setattr(sight, "monotonic", lambda: said["now"])
    return said


@pytest.mark.parametrize(
    ("answer", "sees"),
    [
        ({"has_image_understanding": True}, True),
        ({"has_image_understanding": False}, False),
        ({"has_image_understanding": "yes"}, False),
        ({"model_path": "/models/tiny"}, False),  # the embedded engine
        ([], False),
        (None, False),
    ],
    ids=str,
)
def test_a_server_is_taken_at_its_word(server, answer, sees):
    server["answer"] = answer
    assert sight.sees("http://engine") is sees


def test_an_answer_counts_for_half_a_minute_and_silence_for_3_seconds(server):
    server["answer"] = {"has_image_understanding": True}
    assert [sight.sees("http://engine") for _ in range(3)] == [True] * 3
    server["answer"], server["now"] = None, 31.0
    assert [sight.sees("http://engine") for _ in range(3)] == [False] * 3
    assert server["asked"] == 2
    server["answer"], server["now"] = {"has_image_understanding": True}, 34.5
    assert sight.sees("http://engine")


def test_a_page_waits_for_a_server_that_is_asked_twice(monkeypatch):
    waits = []

    def get(url: str, **options: object) -> httpx.Response:
        waits.append(options["timeout"])
        return httpx.Response(200, json={"data": []})

    monkeypatch.setattr(sight, "_known", {})
    monkeypatch.setattr(sight.httpx, "get", get)
    assert not sight.chat_sees("http://engine/v1", "wise-1")
    assert len(waits) == 2
    assert sum(waits) < judges.SIGHT_S
