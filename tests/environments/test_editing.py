"""An editor's pen: what was said stays, as far as the wishes let it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from environments.editing import edited
from environments.personas import Persona, composed, parts
from environments.prose import words

REPLY = (
    "Sure! **Water** is important for individuals.\n\n1. It carries two things around!\n2. It cools the body down.\n"
    "3. Numerous organisms utilize it."
)


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
        "as-list",
    ],
)
def test_each_wish_that_a_pen_can_meet_is_met(wish):
    text = pen(person(wish))

    assert text is not None
    assert parts(person(wish), text, finished=True) == {wish: True}


def test_what_was_not_wished_for_stays():
    assert pen(person("digits"), "It has two parts! Both are red.") == "It has 2 parts! Both are red."


def test_a_sentence_that_was_cut_off_goes():
    text = pen(person("short"), "It rains. Then it sto", finished=False)

    assert text == "It rains."


def test_a_wish_beyond_a_pen_is_left_to_complaints():
    assert pen(person("example"), "It rains.") is None
    assert pen(person("shows-working"), "He has 12.") is None


def test_nothing_to_edit_is_no_rewrite():
    assert pen(person("short"), "…") is None


@given(st.integers(0, 10_000), st.text(alphabet="Aabe .!?\n-*1", max_size=120), st.booleans())
def test_whatever_was_said_a_rewrite_obeys_every_wish_or_there_is_none(seed, reply, finished):
    persona = composed("train", 1, seed)[0]
    text = edited(persona, reply, asked="Why a or b?", finished=finished, rng=random.Random(seed))

    assert text is None or all(parts(persona, text, finished=True).values())


def test_a_brief_rewrite_says_nothing_that_was_not_said():
    text = pen(person("short"))

    assert text is not None
    assert set(words(text)) <= set(words(REPLY))
