"""What people say: natural, about one wish at a time, the same for the same seed, and true."""

from __future__ import annotations

import doctest
import json
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from environments import actor, editing, matter, personas, phrasings, tasks
from environments.matter import answers
from environments.personas import Persona, parts
from environments.tasks import Task
from environments.users import ANSWER, ScriptedUser
from environments.wishes import WISHES

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


def test_there_is_a_task_for_every_scene():
    for person in personas.NAMED.values():
        assert tasks.tasks(tasks.FITTING[person.scene], "train", 2, seed=1)
