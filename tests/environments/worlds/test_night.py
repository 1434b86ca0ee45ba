"""A night of real processes: 128 attempts at once, a player that is killed, and one that is stopped."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.stack import wait_for
from tests.environments.worlds.nights import ATTEMPTS, GROUPS, Till128

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def stack(wide_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Till128]:
    stack = Till128(tmp_path_factory.mktemp("night"), wide_model)
    try:
        stack.open()
        yield stack
    except BaseException:
        print(stack.log("web"))
        raise
    finally:
        stack.stop()


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_128_attempts_at_once_are_each_played_once(stack):
    out, err = stack.night(seed=1, parallel=128).communicate(timeout=280)
    played = lines(out)
    assert (len(played), {one["status"] for one in played}) == (128, {"solved"}), err
    assert len({(one["task"], one["attempt"]) for one in played}) == 128
    assert stack.endings(1) == {"solved": 128}
    # 3 prices, 2 sums and the answer, each done once
    assert stack.rows("SELECT count(*), count(DISTINCT turn_id) FROM episodes_action") == [(768, 768)]
    assert err.splitlines()[-1].startswith("128 of 128 attempts, 128 of 128 solved")


def test_a_player_and_a_web_that_are_killed_lose_no_attempt_and_play_none_twice(stack):
    first = stack.night("--lease", "20", seed=2)
    stack.wait_for_actions(2, 150)
    first.kill()
    early = lines(first.communicate()[0])
    second = stack.night("--lease", "20", seed=2)
    stack.wait_for_actions(2, 400)
    stack.kill("web")
    stack.start("web")
    out, err = second.communicate(timeout=280)
    late = lines(out)
    assert second.returncode == 0, err

    def lapse() -> bool:
        stack.manage("shell", "-c", "from episodes.lapses import close_lapsed; close_lapsed()")
        return "" not in stack.endings(2)

    wait_for("leases of the killed player have lapsed", lapse, every_s=3)
    solved = {(one["task"], one["attempt"]) for one in (*early, *late) if one["status"] == "solved"}
    before = {(one["task"], one["attempt"]) for one in late if one["status"] == "before"}
    assert len(late) == GROUPS * ATTEMPTS == len({(one["task"], one["attempt"]) for one in late})
    assert {one["status"] for one in late} <= {"solved", "before", "left", "infra_error"}
    endings = stack.endings(2)
    assert sum(endings.values()) == GROUPS * ATTEMPTS
    assert set(endings) == {"solved", "infra_error"}
    assert endings["infra_error"] <= 16 + 16  # what was played when the player died, and when web did
    assert before
    # an answer that told of an end may have died with the first player: its attempt is solved all the same
    assert len(solved) <= endings["solved"] <= len(solved | before)
    lost = stack.rows("SELECT reason FROM episodes_episode WHERE ending = 'infra_error'")
    told = [one["reason"] for one in late if one["status"] == "infra_error"]
    assert len([reason for (reason,) in lost if reason]) + len(told) == len(lost)
    twice = "SELECT count(*) FROM episodes_action GROUP BY turn_id, call HAVING count(*) > 1"
    assert stack.rows(twice) == []


def test_a_player_that_is_interrupted_ends_in_good_order_and_goes_on(stack):
    first = stack.night(seed=3, parallel=64)
    stack.wait_for_actions(3, 150)
    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=60)
    assert first.returncode == 130
    assert "The same command goes on" in err
    cancelled = [one for one in lines(out) if one["status"] == "cancelled"]
    assert cancelled
    assert set(stack.endings(3)) <= {"solved", "cancelled"}
    late = lines(stack.night(seed=3).communicate(timeout=280)[0])
    assert {one["status"] for one in late} <= {"before", "solved"}
    endings = stack.endings(3)
    assert sum(endings.values()) == GROUPS * ATTEMPTS
    assert endings["cancelled"] >= len(cancelled)
