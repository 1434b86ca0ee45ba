"""An editor's pen: what was said stays, as far as the wishes let it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from environments.editing import BEYOND, SIMPLER, edited
from environments.personas import Persona, composed, parts
from environments.prose import words
from environments.wishes import LONG_WORD

REPLY = (
    "Sure! **Water** is important for individuals.\n\n1. It carries two things around!\n2. It cools the body down.\n"
    "3. Numerous organisms utilize it."
)


RNG = random.Random(0)


def person(*wishes: str) -> Persona:
    return Persona("p", "talk", wishes, "train")


def pen(persona: Persona, reply: str = REPLY, *, finished: bool = True) -> str | None:
    return edited(persona, reply, asked="What is water for?", finished=finished, rng=random.Random(1))


@pytest.mark.parametrize(
    "wish",
    [
        "short",
        "no-lists",
        "asks-back",
        "second-person",
        "no-exclamation",
        "plain-words",
        "digits",
        "no-opening",
    ],
)
def test_each_wish_that_a_pen_can_meet_is_met(wish):
    text = pen(person(wish))

    assert text is not None
    assert parts(person(wish), text, finished=True) == {wish: True}


def test_a_list_is_made_of_the_sentences():
    assert pen(person("as-list"), "It rains. It pours.") == "- It rains.\n- It pours."


def test_an_example_is_what_stands_by_itself_behind_something():
    wanted = "It rains. So it does. For example, towns are wet."

    assert pen(person("example"), "It rains. So it does. Towns are wet.").replace("instance", "example") == wanted
    assert pen(person("example"), "It rains. Imagine a town.") is None  # it has one
    assert pen(person("example"), "It rains. Does it? So it does.") is None  # a question is none, nor what leans


def test_what_was_not_wished_for_stays():
    assert pen(person("digits"), "It has two parts! Both are red.") == "It has 2 parts! Both are red."


def test_a_sentence_that_was_cut_off_goes():
    text = pen(person("short"), "It rains. Then it sto", finished=False)

    assert text == "It rains."


def test_what_was_said_already_is_not_written_again():
    reply = "You can add salt to it. You can add sugar to it. You can add salt to it. It cools. It cools!"

    # "can add sugar to", "you can add sugar" and "add sugar to it" are new: three of the second's three runs of four
    assert pen(person("as-list"), reply) == "- You can add salt to it.\n- You can add sugar to it.\n- It cools."


def test_who_wants_it_long_is_not_served_by_saying_it_again():
    who = person("second-person", "long")

    assert pen(who, "It rains. It pours. It is wet. It is cold. It is grey. It rains.") is None  # five are left


def test_a_wish_beyond_a_pen_is_left_to_complaints():
    assert pen(person("example"), "It rains.") is None  # of nothing before it
    assert pen(person("shows-working"), "He has 12.") is None


def test_who_has_wishes_beyond_a_pen_writes_for_the_others():
    who = person("second-person", "long")

    assert pen(who, "We sleep at night. Bodies rest.") == "You sleep at night. Bodies rest."
    assert pen(who, "You sleep at night. Bodies rest.") is None  # it is too short, and nothing can be done


def test_who_wants_it_long_keeps_every_sentence():
    reply = "It is simple. You boil it. You wait. You stir. You taste. You eat."  # six: without the first it were five
    text = pen(person("second-person", "long"), reply)

    assert text is not None
    assert "you" in text.split(".")[0].lower()
    assert text.endswith("is simple. You boil it. You wait. You stir. You taste. You eat.")


def test_nothing_to_edit_is_no_rewrite():
    assert pen(person("short"), "…") is None


@given(st.integers(0, 10_000), st.text(alphabet="Aabe .!?\n-*1", max_size=120), st.booleans())
def test_whatever_was_said_a_rewrite_mends_all_that_a_pen_can_and_spoils_nothing(seed, reply, finished):
    persona = composed("train", 1, seed)[0]
    text = edited(persona, reply, asked="Why a or b?", finished=finished, rng=random.Random(seed))

    if text is not None:
        before, after = parts(persona, reply, finished=finished), parts(persona, text, finished=True)
        assert all(obeyed or wish in BEYOND for wish, obeyed in after.items())
        assert all(after[wish] for wish, obeyed in before.items() if obeyed)
        assert sum(after.values()) > sum(before.values())


def test_a_brief_rewrite_says_nothing_that_was_not_said():
    text = pen(person("short"))

    assert text is not None
    assert set(words(text)) <= set(words(REPLY))


def test_a_brief_rewrite_is_of_what_was_asked_and_leans_on_nothing_that_is_gone():
    reply = (
        "That is a question which scholars everywhere have always debated. Zebras have stripes because biting flies "
        "cannot settle where stripes dazzle them. It also seems certain that others disagree strongly about everything."
    )
    text = edited(person("short", "asks-back"), reply, asked="Why do zebras have stripes?", finished=True, rng=RNG)

    assert text is not None
    assert text.startswith("Zebras have stripes because biting flies cannot settle where stripes dazzle them.")


def test_what_would_be_no_answer_is_not_written():
    reply = "There are several reasons why zebras have stripes:\n1. Flies.\n2. Heat."

    assert edited(person("short"), reply, asked="Why do zebras have stripes?", finished=True, rng=RNG) is None
    assert edited(person("short"), reply, asked="Why do they have stripes?", finished=True, rng=RNG) is not None


def test_a_question_at_the_end_names_what_was_asked_where_the_reply_does():
    text = edited(
        person("asks-back"), "Apples keep in a cellar.", asked="How do I keep apples?", finished=True, rng=RNG
    )
    other = edited(person("asks-back"), "They keep in a cellar.", asked="How do I keep apples?", finished=True, rng=RNG)

    assert text is not None
    assert text.endswith("apples?")
    assert other is not None
    assert "apples" not in other


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        ("It is simple. You boil the water. Then you wait.", "You boil the water. Then you wait."),
        ("We feel tired because our bodies work.", "You feel tired because your bodies work."),
        ("People can see far.", "You can see far."),
    ],
)
def test_who_wants_to_be_spoken_to_writes_it_in_the_replys_own_words(reply, wanted):
    assert pen(person("second-person"), reply) == wanted


def test_a_brief_rewrite_in_plain_words_picks_plain_sentences():
    reply = "Photosynthesis necessitates considerable illumination. Plants need light to grow."

    assert pen(person("short", "plain-words"), reply) == "Plants need light to grow."


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        ("An important ant is an excellent individual.", "A key ant is a very good person."),
        ("An essential additional procedure.", "A vital extra way."),
        ("It is an *important* and _necessary_ procedure.", "It is a *key* and _needed_ way."),
        ("A beneficial or an additional ingredients list.", "A good or an extra things list."),
        ("A different significant technique.", "Another large way."),
    ],
)
def test_a_plainer_word_takes_its_article_with_it(reply, wanted):
    assert pen(person("plain-words"), reply) == wanted


def test_every_plainer_word_is_one():
    for word, other in SIMPLER.items():
        assert max(map(len, words(other))) < LONG_WORD, word
        assert not SIMPLER.keys() & set(words(other)), word
