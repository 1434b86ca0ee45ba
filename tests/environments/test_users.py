"""What people say: natural, about one wish at a time, the same for the same seed, and true."""

from __future__ import annotations

import asyncio
import doctest
import json
import re
import tomllib
from itertools import combinations
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from environments import actor, editing, matter, personas, phrasings, tasks
from environments.actor import Actor
from environments.errors import UserUnavailable
from environments.matter import answers
from environments.personas import Persona, parts
from environments.tasks import Task
from environments.users import ANSWER, ModelUser, ScriptedUser, played
from environments.wishes import WISHES
from tests.environments.stages import chat_server

ROOT = Path(__file__).parents[2]
FILES = ("complaints", "openings", "closings", "tones")
TASK = Task("t1", "Why is rain wet?", "open")
BRIEF = Persona("brief", "talk", ("short", "asks-back", "no-exclamation"), "train")
SHORT = Persona("short", "talk", ("short",), "train")
GOOD = "It is water. What else would it be?"
LONG = "It is water. It falls. It wets! So it goes."


def plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


@pytest.mark.parametrize("module", [actor, editing, matter, phrasings])
def test_the_rules_do_what_their_docstrings_say(module):
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("file", FILES)
def test_no_wording_trains_and_examines(file):
    for table in phrasings.read(file).values():
        train, heldout = (table[split].strip("\n").split("\n") for split in ("train", "heldout"))
        for every in (train, heldout):
            assert len(set(map(plain, every))) == len(every)
            assert all(line.strip() for line in every)
        bare = {"{prompt}", "{said}"}  # said as it is, in both
        assert not set(map(plain, {*train} - bare)) & set(map(plain, {*heldout} - bare))


SORTS = ("no-lists.markup", "answer", "answer.beside")
"""Of complaints, besides one for every wish."""


@pytest.mark.parametrize("wish", [*WISHES, *SORTS])
def test_every_wish_can_be_missed_in_many_words(wish):
    assert len(phrasings.lines("complaints", wish, "train")) >= 12
    assert len(phrasings.lines("complaints", wish, "heldout")) >= 6


def test_there_is_a_complaint_for_nothing_else():
    assert set(phrasings.read("complaints")) == {*WISHES, *SORTS}


def test_no_person_says_what_the_judge_was_taught_or_is_measured_on():
    """A judge that only knew these lines by heart would be no judge."""
    taught = set()
    for file in ("changes", "replies"):
        text = (ROOT / "lab" / "curriculum" / "phrasings" / f"{file}.toml").read_text(encoding="utf-8")
        for table in tomllib.loads(text).values():
            for split in ("train", "heldout"):
                lines = table.get(split, "")
                taught |= {plain(re.sub(r"^[a-z]{2}: ", "", line)) for line in lines.split("\n")} if lines else set()
    for line in (ROOT / "judge" / "calibration" / "gold.jsonl").read_text(encoding="utf-8").splitlines():
        said = json.loads(line)["next_state"]
        taught |= {plain(said)} if isinstance(said, str) else set()
    assert len(taught) > 500
    said = {plain(line) for wish in phrasings.read("complaints") for split in ("train", "heldout")
            for line in phrasings.lines("complaints", wish, split)}  # fmt: skip
    assert not said & taught


async def heard(user, *replies, finished=True, task=TASK):
    user.opening(task)
    return [await user.hear(reply, finished=finished) for reply in replies]


async def test_a_reply_that_obeys_every_wish_is_accepted():
    (said,) = await heard(ScriptedUser(BRIEF, 1), GOOD)
    assert said.accepts
    assert said.asked is None


async def test_one_unmet_wish_is_named_at_a_time_and_others_before_the_same_again():
    first, second, third, last = await heard(ScriptedUser(BRIEF, 1, patience=3), LONG, LONG, LONG, LONG)
    assert {first.asked, second.asked, third.asked} == set(BRIEF.wishes)
    assert not any(said.accepts for said in (first, second, third, last))
    assert last.asked is None  # patience is spent


async def test_a_person_who_writes_shows_it_beside_their_complaint_at_the_share_that_was_asked_for():
    said = [
        (await heard(ScriptedUser(SHORT, seed, writes=0.5), LONG))[0] for seed in range(200)
    ]  # 200 draws at one half: 100, and 30 off is more than four standard deviations
    assert 70 < sum(each.instead is not None for each in said) < 130
    assert all(each.asked == "short" for each in said)
    (silent,) = await heard(ScriptedUser(SHORT, 1), LONG)
    assert silent.instead is None


async def test_tasks_begin_at_different_wishes_so_that_each_is_named():
    named = set()
    for number in range(20):
        (said,) = await heard(ScriptedUser(BRIEF, 1), LONG, task=Task(f"t{number}", "Why?", "open"))
        named.add(said.asked)
    assert named == set(BRIEF.wishes)


async def test_only_what_is_unmet_is_asked_for():
    # short, and it asks back: the exclamation mark is all that is left
    (said,) = await heard(ScriptedUser(BRIEF, 1), "It is water! Is it not?")
    assert said.asked == "no-exclamation"


async def test_a_reply_that_was_cut_off_is_not_accepted():
    (said,) = await heard(ScriptedUser(BRIEF, 1), GOOD, finished=False)
    assert said.asked in ("short", "asks-back")


async def test_the_same_is_not_said_twice_in_the_same_words():
    person = Persona("p", "talk", ("short",), "train")
    said = await heard(ScriptedUser(person, 3, patience=12), *[LONG] * 12)
    wordings = phrasings.lines("complaints", "short", "train")
    found = [next(line for line in wordings if plain(line) in plain(each.text)) for each in said]
    assert len(set(found)) == 12


async def test_a_patient_person_with_no_words_left_says_them_again():
    person = Persona("p", "talk", ("short",), "heldout")
    said = await heard(ScriptedUser(person, 3, patience=30), *[LONG] * 30)
    assert all(each.asked == "short" for each in said)


async def test_what_is_said_does_not_depend_on_what_was_played_before():
    fresh, busy = ScriptedUser(BRIEF, 7), ScriptedUser(BRIEF, 7)
    await heard(busy, LONG, LONG, task=Task("other", "Why?", "open"))
    assert busy.opening(TASK) == fresh.opening(TASK)
    assert await heard(busy, LONG, GOOD) == await heard(fresh, LONG, GOOD)


async def test_seeds_say_it_differently():
    openings = {ScriptedUser(BRIEF, seed).opening(TASK) for seed in range(20)}
    complaints = {(await heard(ScriptedUser(BRIEF, seed), LONG))[0].text for seed in range(20)}
    assert len(openings) > 3
    assert len(complaints) > 10


@given(st.text(max_size=80))
@settings(max_examples=40)
def test_every_opening_holds_the_prompt_as_it_is(prompt):
    for kind in ("open", "arithmetic", "homework"):
        assert prompt in ScriptedUser(BRIEF, 1).opening(Task("t", prompt, kind))


async def test_the_split_decides_whose_words_they_are():
    for split, other in (("train", "heldout"), ("heldout", "train")):
        ours, theirs = (
            [plain(line) for wish in BRIEF.wishes for line in phrasings.lines("complaints", wish, of)]
            for of in (split, other)
        )
        for seed in range(30):
            (said,) = await heard(ScriptedUser(BRIEF, seed, split=split), LONG)
            assert any(line in plain(said.text) for line in ours)
            assert not any(line in plain(said.text) for line in theirs)


async def test_a_complaint_about_form_names_the_form():
    person = Persona("p", "talk", ("no-lists",), "train")
    for reply, kind in (("- tea\n- milk", "no-lists"), ("It is **tea**.", "no-lists.markup")):
        (said,) = await heard(ScriptedUser(person, 2), reply)
        assert any(plain(line) in plain(said.text) for line in phrasings.lines("complaints", kind, "train"))


async def test_people_give_up_politely_or_curtly_and_each_tone_is_heard():
    ends, tones = set(), set()
    for seed in range(40):
        user = ScriptedUser(BRIEF, seed, patience=0)
        (said,) = await heard(user, LONG)
        assert not said.accepts
        tones.add(user._tone)
        ends |= {
            kind for kind in ("gives_up.politely", "gives_up.curtly")
            if plain(said.text) in map(plain, phrasings.lines("closings", kind, "train"))
        }  # fmt: skip
    assert ends == {"gives_up.politely", "gives_up.curtly"}
    assert tones == set(phrasings.read("tones"))


@pytest.mark.parametrize(
    "person", [*personas.NAMED.values(), *personas.composed("heldout", 6, 1)], ids=lambda one: one.name
)
async def test_what_is_asked_for_is_always_unmet(person):
    replies = (GOOD, LONG, "- a\n- b", "**Answer:** 4", "You said 4 x 3 = 12, well done.", "Sure! Fine.", "")
    for reply in replies:
        (said,) = await heard(ScriptedUser(person, 1), reply)
        obeyed = parts(person, reply, finished=True)
        assert said.accepts == all(obeyed.values())
        assert said.asked is None or not obeyed[said.asked]


CATS = Task("t2", "Why do cats purr?", "open")
BESIDE = "Bread is made of flour, yeast, water and patience."
EMPTY = "As you can see, cats purr, so they do."
ANSWERED = "Purring comes from muscles of the throat that twitch while they breathe."


async def test_a_person_who_asks_wants_an_answer_before_all_and_asks_again():
    for reply, kind in ((BESIDE, "answer.beside"), (EMPTY, "answer")):
        (said,) = await heard(ScriptedUser(SHORT, 1, writes=1.0), reply, task=CATS)
        assert (said.asked, said.accepts, said.instead) == (ANSWER, False, None)  # an editor's pen knows no answer
        every = phrasings.lines("complaints", kind, "train")
        assert any(plain(line.replace("{prompt}", CATS.prompt)) in plain(said.text) for line in every)
        assert "{prompt}" not in said.text
    (said,) = await heard(ScriptedUser(SHORT, 1), ANSWERED, task=CATS)
    assert said.accepts


async def test_another_persons_question_may_want_a_word_for_an_answer_and_a_sheet_is_no_question():
    for task in (TASK, tasks.filed(CATS), Task("t", CATS.prompt + " In French?", "open")):
        (said,) = await heard(ScriptedUser(SHORT, 1), "Well done.", task=task)
        assert said.accepts


SPOKEN = (
    "the",
    "cats",
    "purr",
    "while",
    "breathing",
    "muscles",
    "twitch",
    "throat",
    "bread",
    "flour",
    "water",
    ".",
    ". So",
)
words = st.sampled_from(SPOKEN)


@given(st.lists(words, min_size=1, max_size=20).map(" ".join))
async def test_an_answer_is_asked_for_where_there_is_none_and_nothing_is_written_that_is_none(reply):
    (said,) = await heard(ScriptedUser(SHORT, 1, writes=1.0), reply, task=CATS)
    assert (said.asked == ANSWER) == (not answers(CATS.prompt, reply))
    assert said.instead is None or answers(CATS.prompt, said.instead)


# A model that plays the person


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


def test_there_is_a_task_for_every_scene():
    for person in personas.NAMED.values():
        assert tasks.tasks(tasks.FITTING[person.scene], "train", 2, seed=1)
