"""Page kinds load, are seeded and award what an agent does, each shown by an agent that knows how it is solved."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from environments.command import main
from environments.errors import Unplayable
from environments.worlds.browser.kinds import HELDOUT, PLAYED, TRAIN, UNPLAYED
from environments.worlds.browser.pages import find_miniwob
from environments.worlds.browser.world import Browser
from tests.environments.worlds.browser.oracles import ORACLES
from tests.environments.worlds.browser.playing import Player

pytestmark = [pytest.mark.browser, pytest.mark.miniwob]

SAMPLE = (
    *("click-button", "enter-text", "choose-list", "use-slider", "enter-date", "email-inbox-delete"),
    *("read-table", "click-collapsible-2", "terminal", "search-engine"),
)


def solve(world: Browser, kind: str, seed: int) -> tuple[str, float | None]:
    with world.open(world.task(kind, seed, "train"), 1) as attempt:
        player = Player(attempt)
        try:
            ORACLES[kind](player)
        except (AssertionError, StopIteration) as error:
            return f"{kind} {seed}: {error}", None
        outcome = player.outcome()
        return f"{kind} {seed}: {player.goal}\n{player.page}", outcome.value


def test_every_page_of_miniwob_is_played_or_is_named_with_a_reason():
    pages = {place.stem for place in (find_miniwob() / "miniwob").glob("*.html")}
    assert len(pages) == 130
    assert set(PLAYED) | set(UNPLAYED) == pages
    assert not set(PLAYED) & set(UNPLAYED)
    assert not set(TRAIN) & set(HELDOUT)


def test_the_oracles_solve_a_sample_of_kinds(world):
    said = [solve(world, kind, seed=2) for kind in SAMPLE]
    assert [text for text, value in said if value != 1.0] == []


@pytest.mark.processes
@pytest.mark.timeout(600)
def test_at_least_sixty_kinds_load_seed_and_score(world):
    """Each oracle solves its kind with two seeds of three: 1 is the most a page awards, and no seed gives it away."""
    assert set(ORACLES) <= set(PLAYED)
    with ThreadPoolExecutor(3) as threads:
        kinds = list(ORACLES)
        every = threads.map(lambda kind: [solve(world, kind, seed) for seed in (1, 2, 3)], kinds)
        solved = {kind: sum(value == 1.0 for _, value in said) for kind, said in zip(kinds, every, strict=True)}
    assert [kind for kind, count in solved.items() if count < 2] == []
    assert len(solved) >= 60
    assert sum(kind in HELDOUT for kind in solved) >= 12


def test_a_kind_that_cannot_be_played_is_refused_with_its_reason():
    with pytest.raises(Unplayable, match=r"drag-box cannot be played: it is done by dragging"):
        Browser("click-button,drag-box")
    with pytest.raises(Unplayable, match="no page 'click-nothing'"):
        Browser("click-nothing")


def test_held_out_kinds_are_disjoint_and_equal_seeds_draw_equal_tasks(world):
    train, heldout = world.tasks("train", 200, seed=3), world.tasks("heldout", 200, seed=3)
    assert not {task.data["kind"] for task in train} & {task.data["kind"] for task in heldout}
    assert {task.data["kind"] for task in heldout} == set(HELDOUT)
    assert world.tasks("train", 200, seed=3) == train != world.tasks("train", 200, seed=4)
    assert len({task.id for task in train}) == 200


def test_a_check_says_of_each_page_whether_it_can_be_played_and_why_not(tmp_path, capsys):
    """Of a person's own pages one is sound, one has no task, and one draws from what no seed decides."""
    head = '<script src="/core/core.js"></script><script>window.onload = () => core.startEpisode();'
    body = "</script><body><div id='query'>Go</div><button id='b'></button></body>"
    put = "var genProblem = () => { document.getElementById('b').textContent = %s; };"
    (tmp_path / "sound.html").write_text(head + put % "core.randi(0, 1e6)" + body)
    (tmp_path / "unsound.html").write_text(head + put % "crypto.getRandomValues(new Uint32Array(1))[0]" + body)
    (tmp_path / "plain.html").write_text("<p>Nothing to do.</p>")
    assert main(["worlds", "check", "--world", f"browser:{tmp_path}/"]) == 1
    lines = capsys.readouterr().out.splitlines()
    said = {line[4:44].strip(): (line[:3].strip(), line[44:].strip()) for line in lines[:-1]}
    assert said["sound"] == ("ok", "")
    assert said["unsound"] == ("no", "The same seed gave another page: it draws from what is not Math.random.")
    assert said["plain"][1].startswith("The page plain is not of MiniWoB's form")
    assert lines[-1] == "1 of 3 can be played."
