"""People whom a model plays: it words what detectors decide."""

from __future__ import annotations

import asyncio
from itertools import combinations

import httpx
import pytest

from environments import actor, personas
from environments.actor import Actor
from environments.errors import UserUnavailable
from environments.personas import Persona
from environments.tasks import Task
from environments.users import ANSWER, ModelUser, played
from environments.wishes import WISHES
from tests.environments.stages import chat_server

TASK = Task("t1", "Why is rain wet?", "open")
BRIEF = Persona("brief", "talk", ("short", "asks-back", "no-exclamation"), "train")
SHORT = Persona("short", "talk", ("short",), "train")
LONG = "It is water. It falls. It wets! So it goes."
CATS = Task("t2", "Why do cats purr?", "open")
EMPTY = "As you can see, cats purr, so they do."


async def no_sleep(seconds: float) -> None:
    naps.append(seconds)


naps: list[float] = []


@pytest.fixture
def at():
    """An actor at a server, closed at the end."""
    made: list[Actor] = []

    def make(server, **rest):
        made.append(Actor(server.url, "key", "some-model", sleep=no_sleep, **rest))
        return made[-1]

    naps.clear()
    return make


async def test_a_model_words_it_and_detectors_decide(at):
    with chat_server('<think>Hm.</think>"Shorter, would you?"', "Ta!") as server:
        user = ModelUser(Persona("p", "talk", ("short",), "train"), at(server), seed=3)
        assert user.opening(TASK) == TASK.prompt
        first = await user.hear(LONG, finished=True)
        last = await user.hear("It is water.", finished=True)

    assert (first.text, first.accepts, first.asked) == ("Shorter, would you?", False, "short")
    assert (last.text, last.accepts, last.asked) == ("Ta!", True, None)
    assert server.keys == ["Bearer key"] * 2
    asked = server.asked[0]
    assert asked["path"] == "/v1/chat/completions"
    assert asked["model"] == "some-model"
    assert [message["role"] for message in asked["messages"]] == ["system", "user", "assistant", "user"]
    assert WISHES["short"].hint in asked["messages"][-1]["content"]
    assert LONG in asked["messages"][-1]["content"]
    assert asked["messages"][2]["content"] == TASK.prompt  # the person's own words are the model's
    assert server.asked[1]["messages"][4]["content"] == "Shorter, would you?"


async def test_beside_a_models_complaint_the_correction_box_holds_an_editors_rewrite(at):
    with chat_server("Shorter!", "Ta!") as server:
        user = ModelUser(Persona("p", "talk", ("short",), "train"), at(server), seed=3, writes=1.0)
        user.opening(TASK)
        complaint = await user.hear(LONG, finished=True)
        thanks = await user.hear("It is water.", finished=True)
    assert complaint.instead
    assert WISHES["short"].holds(complaint.instead, finished=True)
    assert thanks.instead is None


async def test_a_model_is_told_that_a_reply_is_no_answer(at):
    with chat_server("And why do they?") as server:
        user = ModelUser(SHORT, at(server), seed=3, writes=1.0)
        user.opening(CATS)
        said = await user.hear(EMPTY, finished=True)
    assert (said.text, said.asked, said.instead) == ("And why do they?", ANSWER, None)
    assert "That is no answer to what you asked." in server.asked[0]["messages"][-1]["content"]


async def test_a_model_gives_up_when_its_person_has_no_patience_left(at):
    with chat_server("Shorter!", "Never mind.") as server:
        user = ModelUser(Persona("p", "talk", ("short",), "train"), at(server), patience=1)
        user.opening(TASK)
        await user.hear(LONG, finished=True)
        said = await user.hear(LONG, finished=True)
    assert (said.text, said.accepts, said.asked) == ("Never mind.", False, None)


async def test_the_model_is_asked_with_the_same_seeds_each_time(at):
    seeds = []
    for _ in range(2):
        with chat_server() as server:
            user = ModelUser(BRIEF, at(server), seed=3)
            user.opening(TASK)
            await user.hear(LONG, finished=True)
            seeds.append([asked["seed"] for asked in server.asked])
    assert seeds[0] == seeds[1]


async def test_a_busy_server_is_asked_again_when_it_says(at):
    busy = (429, {"Retry-After": "7"}, "slow down")
    with chat_server(busy, (503, {}, ""), "Fine.") as server:
        assert await at(server).says([], seed=1) == "Fine."
    assert naps == [7.0, 1.0]


async def test_a_server_that_stays_away_is_named_with_what_it_said(at):
    with (
        chat_server(*[(500, {}, "boom")] * 9) as server,
        pytest.raises(UserUnavailable, match=r"again for 0 s \(500: boom\)"),
    ):
        await at(server, patience_s=0.4).says([], seed=1)


async def test_a_server_is_asked_for_a_few_messages_at_a_time():
    """A person who is let in is there before another, who asks last and through a door of their own, has been
    answered."""
    inside: list[str] = []
    full, answers_now = asyncio.Event(), asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "server":
            inside.append(request.url.path)
            if len(inside) == actor.AT_ONCE:
                full.set()
            await answers_now.wait()
        return httpx.Response(200, json={"choices": [{"message": {"content": "Fine."}}]})

    speaker, later = (
        Actor(f"http://{host}/v1", "key", "some-model", transport=httpx.MockTransport(answer))
        for host in ("server", "another")
    )
    asks = [asyncio.create_task(speaker.says([], seed=seed)) for seed in range(3 * actor.AT_ONCE)]
    await full.wait()
    assert await later.says([], seed=0) == "Fine."
    assert len(inside) == actor.AT_ONCE
    answers_now.set()
    assert await asyncio.gather(*asks) == ["Fine."] * len(asks)
    await speaker.aclose()
    await later.aclose()


async def test_a_refusal_is_not_asked_again(at):
    with chat_server((401, {}, "no such key")) as server, pytest.raises(UserUnavailable, match=r"no such key.*the key"):
        await at(server).says([], seed=1)
    assert len(server.asked) == 1


async def test_a_model_without_words_is_asked_once_more_and_then_named(at):
    with chat_server("", "Well.") as server:
        assert await at(server).says([], seed=1) == "Well."
        assert [asked["seed"] for asked in server.asked] == [1, 2]
    with chat_server("", "<think>I") as server, pytest.raises(UserUnavailable, match="answered twice with no words"):
        await at(server).says([], seed=1)


@pytest.mark.parametrize("body", ["<html>", "[]", '{"choices": []}', '{"error": "x"}'])
async def test_a_server_that_speaks_otherwise_is_named(at, body):
    with chat_server((200, {}, body)) as server, pytest.raises(UserUnavailable):
        await at(server).says([], seed=1)


def test_the_model_is_told_who_it_is_and_never_how_it_is_detected():
    for person in personas.NAMED.values():
        told = played(person)
        assert all(WISHES[name].hint in told for name in person.wishes)
        assert "regular" not in told
    scenes = [played(person) for person in personas.NAMED.values()]
    assert all(one != other for one, other in combinations(scenes, 2))
