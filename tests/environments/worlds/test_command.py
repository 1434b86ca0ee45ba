"""The command and the queue play nights before the real API: lines, table, progress, capacity, what is kept."""

from __future__ import annotations

import asyncio
import io
import json
import threading

import pytest
from celery.exceptions import Reject

from core import stops
from environments import command
from environments.client import KEY, URL
from environments.errors import Unplayable
from environments.worlds import progress as progresses
from environments.worlds import queue, till
from environments.worlds.played import Figures, Played, table
from environments.worlds.progress import Progress, Troubles
from environments.worlds.till import Till
from environments.worlds.width import Width
from episodes.models import Episode
from webapp.celery import app

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

NIGHT = ("--world", "till", "--groups", "2", "--attempts", "2", "--max-tokens", "96")


@pytest.fixture
def play(site, key, keeps_till, capsys, monkeypatch):
    monkeypatch.setenv(KEY, key.secret)

    def play(*more: str) -> tuple[int, str, str]:
        code = command.main(["worlds", "play", *NIGHT, "--url", site, *more])
        said = capsys.readouterr()
        return code, said.out, said.err

    return play


def test_a_night_ends_with_a_table(play):
    code, out, err = play()
    heading, first, second, every = out.splitlines()
    assert code == 0
    assert heading.split() == ["task", "counted", "solved", "success", "steps", "cut", "invalid", "tokens"]
    assert [line.split()[0] for line in (first, second)] == sorted(task.id for task in Till().tasks("train", 2, 1))
    # 4 of 4: Wilson's interval is 4 / (4 + 1.96²) = 0.51 to 1
    assert every.split()[:10] == ["all", "4", "4", "1.00", "(0.51", "to", "1.00)", "6.0", "0.00", "0.00"]
    assert err.splitlines()[-1].startswith("4 of 4 attempts, 4 of 4 solved")


def test_each_attempt_can_be_had_as_json_and_a_second_night_of_that_name_plays_nothing(play):
    rows = [json.loads(line) for line in play("--json")[1].splitlines()]
    assert {(row["status"], row["steps"], row["counts"], len(row["scores"])) for row in rows} == {
        ("solved", 6, True, 6)
    }
    code, out, _ = play()
    assert (code, Episode.objects.count()) == (0, 4)
    assert "4 begun by an earlier player" in out
    assert "--night NAME plays these again" in out


def test_only_the_tasks_that_are_named_are_played(play):
    task = Till().tasks("train", 2, 1)[1].id
    assert {json.loads(line)["task"] for line in play("--json", "--tasks", task)[1].splitlines()} == {task}
    code, _, err = play("--tasks", "train-3-x")
    assert (code, "it is not among those that --groups and --seed draw" in err) == (1, True)


def test_what_is_always_solved_is_counted_and_a_night_keeps_its_tasks(play, tmp_path):
    first = {json.loads(line)["task"] for line in play("--json", "--keep", str(tmp_path))[1].splitlines()}
    kept = json.loads((tmp_path / "till.json").read_text())
    assert kept["tasks"] == {task: [2, 2] for task in first}
    # though both are less likely from now on, the same night has the same tasks
    again = {json.loads(line)["task"] for line in play("--json", "--keep", str(tmp_path))[1].splitlines()}
    assert again == first
    assert json.loads((tmp_path / "till.json").read_text()) == kept
    assert [file.name for file in tmp_path.iterdir()] == ["till.json"]


def test_a_world_with_few_tasks_is_played_whole_where_no_number_is_said(site, key, keeps_till, capsys, monkeypatch):
    monkeypatch.setattr(till, "MANY", 3)
    monkeypatch.setenv(URL, site)
    few = ("worlds", "play", "--world", "till", "--attempts", "1", "--max-tokens", "96", "--key", key.secret)
    assert command.main(few) == 0
    assert Episode.objects.count() == 3
    first = capsys.readouterr().err.splitlines()[0]
    assert first == f"World till, 3 × 1 attempts. {site}/worlds/ plays them back."
    assert command.main([*few, "--groups", "4"]) == 1
    assert "till has 3 train tasks, and 4 were asked for" in capsys.readouterr().err


def test_a_night_without_a_key_says_how_to_make_one(play, monkeypatch):
    code, _, err = play("--key", "")
    assert (code, "--scope episodes" in err) == (1, True)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def won(status="solved", **more) -> Played:
    return Played("till", "t", "train", "g", 0, status, steps=6, completion_tokens=50, **more)


async def test_progress_rewrites_one_line_on_a_terminal_and_writes_few_elsewhere():
    terminal, file = Terminal(), io.StringIO()
    for out in (terminal, file):
        async with Progress(3, Width(2), out) as progress:
            for _ in range(3):
                progress.note(won())
    assert "\r\x1b[K3 of 3 attempts, 3 of 3 solved" in terminal.getvalue()
    assert (terminal.getvalue().count("\n"), terminal.getvalue()[-1]) == (1, "\n")
    # the first, then none for 10 s, and the last
    assert [line.split(",")[0] for line in file.getvalue().splitlines()] == ["0 of 3 attempts", "3 of 3 attempts"]


class Watched(io.StringIO):
    """A file that says when it has so many lines."""

    def __init__(self, wanted: int) -> None:
        super().__init__()
        self._wanted, self.has_them = wanted, asyncio.Event()

    def write(self, text: str, /) -> int:
        count = super().write(text)
        if self.getvalue().count("\n") >= self._wanted:
            self.has_them.set()
        return count


async def test_progress_speaks_at_once_and_again_before_any_attempt_has_ended(monkeypatch):
    monkeypatch.setattr(progresses, "FILE_S", 0.001)
    out, width = Watched(3), Width(2)
    async with Progress(8, width, out):
        assert out.getvalue() == "0 of 8 attempts, 0 of 0 solved, 0 replies, 0 tokens/s\n"
        width.answered(0.0)
        await asyncio.wait_for(out.has_them.wait(), 20)
    assert out.getvalue().splitlines()[-1].startswith("0 of 8 attempts, 0 of 0 solved, 1 replies")


def test_the_same_trouble_is_said_once_in_a_while(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(progresses, "monotonic", lambda: now[0])
    out = io.StringIO()
    say = Troubles(out)
    for after_s, trouble in (
        (0, "No route."),
        (30, "No route."),
        (1, "It starts."),
        (59, "It starts."),
        (2, "It starts."),
    ):
        now[0] += after_s
        say(trouble)
    assert out.getvalue().splitlines() == ["No route.", "It starts.", "It starts."]


def test_figures_leave_out_what_says_nothing_of_the_agent():
    played = [
        won(),
        won("failed", invalid=3),
        won("truncated", truncated_by="horizon"),
        won("truncated", truncated_by="context"),
        won("infra_error", reason="No sandbox."),
        won("before"),
    ]
    of = Figures.of(played)
    assert (of.attempts, of.counted, of.solved) == (6, 3, 1)
    assert of.success == pytest.approx(1 / 3)
    assert of.truncated == pytest.approx(2 / 4)  # a full window cuts as well
    assert of.invalid == pytest.approx(3 / 18)
    assert of.tokens_solved == 300  # what all sampled, for one that solved
    said = table(played)
    assert "1 void, for the world failed. No sandbox." in said
    assert "1 filled the model's window" in said


@pytest.fixture
def host(site, key, keeps_till, monkeypatch):
    monkeypatch.setenv(URL, site)
    monkeypatch.setenv(KEY, key.secret)


def test_a_worker_of_the_queue_plays_what_a_message_says(host):
    assert app.tasks["worlds.play"].apply(args=[list(NIGHT)]).get() == {"attempts": 4, "counted": 4, "solved": 4}
    assert {one.ending for one in Episode.objects.all()} == {"solved"}


def test_its_messages_go_to_hosts_of_their_own_and_hold_no_key():
    assert app.amqp.router.route({}, "worlds.play")["queue"].name == "play"
    for secret in (["--key", "sk-1"], ["--url", "http://elsewhere"], ["--ke", "sk-1"]):
        with pytest.raises(Unplayable, match="unrecognized arguments"):
            queue.play.run([*NIGHT, *secret])


def test_a_host_plays_no_more_at_once_than_it_declares(host, monkeypatch, keeps_till):
    most, under_way = 0, 0
    lock = threading.Lock()
    opened = Till.open

    def count(self, task, seed):
        nonlocal most, under_way
        with lock:
            under_way += 1
            most = max(most, under_way)
        attempt = opened(self, task, seed)

        def close() -> None:
            nonlocal under_way
            with lock:
                under_way -= 1

        attempt.close = close
        return attempt

    monkeypatch.setattr(Till, "open", count)
    monkeypatch.setenv(queue.PARALLEL, "2")
    queue.play.run([*NIGHT, "--parallel", "64"])
    assert most == 2
    monkeypatch.setenv(queue.PARALLEL, "many")
    with pytest.raises(Unplayable, match="PLAY_PARALLEL is 'many'"):
        queue.play.run(list(NIGHT))


def test_a_worker_that_is_asked_to_stop_hands_the_night_back(host, keeps_till, monkeypatch):
    keeps_till.hold()
    monkeypatch.setattr(stops, "is_asked", keeps_till.holding.is_set)
    with pytest.raises(Reject) as handed:
        queue.play.run(list(NIGHT))
    assert handed.value.requeue
    assert {one.ending for one in Episode.objects.all()} == {"cancelled"}
