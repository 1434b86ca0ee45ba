"""What a model is shown of a page: the numbered tree, and its screenshot where it sees."""

from __future__ import annotations

import io
from contextlib import nullcontext

import pytest
from asgiref.sync import sync_to_async

from benchmarks.scripted.script import Line
from benchmarks.worlds.ways import called
from chat.models import Turn
from environments.command import parser
from environments.worlds import night
from environments.worlds.browser.world import Browser
from environments.worlds.harness import Sampling
from environments.worlds.player import Way, play
from judge.votes import evidence, shown_pictures
from tests.chat.pictures.conftest import SEEN, answers, seeing_model, sglang

__all__ = ["answers", "seeing_model", "sglang"]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.miniwob,
    pytest.mark.processes,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]


@pytest.fixture
def world():
    world = Browser("click-checkboxes")
    yield world
    world.chromium.end()


async def attempt(client, world):
    task = world.task("click-checkboxes", 1, "train")
    (one,) = await play(client, world, [task], 1, way=Way(sampling=Sampling(max_tokens=96)))
    return one


async def test_a_model_that_sees_is_shown_each_steps_screenshot_beside_the_tree(client, world, answers):
    answers.script.lines += [Line(called("click", element=1), None, 1), Line(called("terminate"), None, 1)]
    one = await attempt(client, world)
    assert (one.status, one.steps) == ("gave_up", 2)
    first, second = answers.calls
    # The opening, and what the click came to.
    assert [len(call["image_data"]) for call in (first, second)] == [1, 2]
    assert first["image_data"][0].startswith("data:image/png;base64,iVBOR")
    assert second["image_data"][0] == first["image_data"][0] != second["image_data"][1]
    prompt = answers.decoded(second["ids"])
    assert prompt.count(SEEN) == 2
    assert "[1] checkbox" in prompt.rpartition(SEEN)[0].rpartition("The page:")[2]
    # A judge of the click is shown the screen before it and the one after it, as the model was.
    click = await Turn.objects.aget(position=0, session__episode__pk=one.episode)
    shown = await sync_to_async(shown_pictures.load)((await sync_to_async(evidence.of)(click)).pictures)
    assert list(shown.values()) == second["image_data"]


async def test_a_model_that_reads_text_only_is_shown_the_tree_alone(client, world, answers, settings, wide_model):
    settings.MODEL = str(wide_model)
    answers.script.lines.append(Line(called("terminate"), None, 1))
    one = await attempt(client, world)
    assert (one.status, one.steps) == ("gave_up", 1)
    assert "image_data" not in answers.calls[0]
    assert "[1] checkbox" in answers.decoded(answers.calls[0]["ids"])


async def test_a_model_that_sees_may_be_played_by_words_alone(client, world, answers, monkeypatch):
    monkeypatch.setattr(night, "open_world", lambda *of: world)
    monkeypatch.setattr(night, "Client", lambda *of, **more: nullcontext(client))
    answers.script.lines.append(Line(called("terminate"), None, 1))
    said = parser().parse_args(
        ["worlds", "play", "--world", "browser:click-checkboxes", "--groups", "1", "--attempts", "1", "--no-pictures"]
    )
    played = []
    await night.play_night(said, "http://testserver", "key", played.append, io.StringIO())
    assert [one.status for one in played] == ["gave_up"]
    (call,) = answers.calls
    assert "image_data" not in call
    assert SEEN not in (prompt := answers.decoded(call["ids"]))
    assert "[1] checkbox" in prompt
    assert not (await Turn.objects.aget(session__episode__pk=played[0].episode)).pictures  # so that it may train
