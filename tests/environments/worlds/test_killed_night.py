"""A night of attempts while web, player and judges are killed at random: each counts once, or says why not."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from benchmarks.stack import wait_for
from tests.environments.worlds.nights import ATTEMPTS, GROUPS, Till128

pytestmark = [pytest.mark.processes, pytest.mark.timeout(1200)]

KILLS = 20
SEED = 4
ALL = GROUPS * ATTEMPTS
STEPS = 6  # 3 prices, 2 sums and the answer


def test_twenty_kills_count_no_attempt_twice_and_lose_none_without_a_reason(wide_model: Path, tmp_path: Path):
    seed = int(os.environ.get("KILL_SEED") or random.SystemRandom().randrange(10**6))
    print(f"KILL_SEED={seed}")
    chance, stack, told = random.Random(seed), Till128(tmp_path, wide_model), list[str]()

    def play() -> subprocess.Popen[str]:
        return stack.night("--lease", "20", seed=SEED, parallel=8)

    def hear(player: subprocess.Popen[str]) -> None:
        told.extend(line for line in player.communicate()[0].splitlines() if line.endswith("}"))

    try:
        stack.open()
        stack.start("judge", "beat")
        player, deaths = play(), 0
        points = sorted(chance.sample(range(1, ALL * STEPS - 160), KILLS))
        for point in points:
            wait_for(f"{point} actions", lambda: player.poll() is not None or stack.actions(SEED) >= point, 120)  # noqa: B023  asked at once
            victim = chance.choice(("web", "player", "judge"))
            if victim == "player" or player.poll() is not None:
                deaths += 1
                player.kill()
                hear(player)
                player = play()
            if victim != "player":
                stack.kill(victim)
                stack.start(victim)
            if victim == "web":
                stack.wait_for_web()
        player.wait(600)
        hear(player)
        last = play()
        last.wait(600)
        hear(last)

        wait_for("the sweep has closed what the dead had played", lambda: "" not in stack.endings(SEED), 180)
        endings = stack.endings(SEED)
        assert sum(endings.values()) == ALL
        assert set(endings) == {"solved", "infra_error"}
        assert stack.rows("SELECT count(*) FROM episodes_action GROUP BY turn_id, call HAVING count(*) > 1") == []

        sql = "SELECT count(*) FROM episodes_episode WHERE ending = 'infra_error' AND reason = ''"
        words = sum(json.loads(line)["status"] == "infra_error" for line in told)
        unexplained = int(stack.rows(sql)[0][0]) - words
        assert unexplained <= 8 * deaths  # a player that dies may not have said what it had just closed

        # Of each attempt that counts each step makes one sample, once its group is judged.
        open_groups = """SELECT count(*) FROM episodes_group g WHERE judged_at IS NULL AND 2 <=
            (SELECT count(*) FROM episodes_episode e WHERE e.group_id = g.id AND e.ending = 'solved')"""
        wait_for("all groups are judged", lambda: stack.rows(open_groups) == [(0,)], 240)
        samples = stack.rows("""SELECT count(*), count(DISTINCT episode_id || '/' || step) FROM training_sample
            WHERE episode_id IS NOT NULL""")[0]
        in_judged = stack.rows("""SELECT count(*) FROM episodes_episode e JOIN episodes_group g ON g.id = e.group_id
            WHERE e.ending = 'solved' AND g.judged_at IS NOT NULL""")[0][0]
        assert samples[0] == samples[1]
        assert samples[0] >= STEPS * in_judged > 0
    except BaseException:
        for name in stack.logs:
            print(f"--- {name}\n{stack.log(name)[-3000:]}")
        raise
    finally:
        stack.stop()
