"""Who they are: compositions that agree and stay apart, and files that say what is wrong with them."""

from __future__ import annotations

import doctest
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from environments import personas
from environments.errors import Unplayable
from environments.personas import Persona
from environments.wishes import WISHES


def test_the_rules_do_what_their_docstrings_say():
    assert doctest.testmod(personas).failed == 0


def test_no_composition_trains_and_examines():
    train, heldout = personas.compositions("train"), personas.compositions("heldout")
    assert not {frozenset(each) for each in train} & {frozenset(each) for each in heldout}
    assert len(train) == len(set(train)) > 50
    assert len(heldout) == len(set(heldout)) > 20


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_every_composition_can_be_obeyed_and_leaves_something_to_learn(split):
    for wishes in personas.compositions(split):
        assert 2 <= len(set(wishes)) == len(wishes) <= 3
        assert personas.agree(wishes)
        assert sum(wish in personas.OFTEN for wish in wishes) <= 1


@given(st.integers(1, 30), st.integers(0, 2**31))
@settings(max_examples=30)
def test_composed_personas_are_different_and_the_same_for_the_same_seed(number, seed):
    drawn = personas.composed("train", number, seed)
    assert drawn == personas.composed("train", number, seed)
    assert len({person.wishes for person in drawn}) == number
    assert {person.wishes for person in drawn} <= set(personas.compositions("train"))


def test_another_seed_composes_others():
    assert personas.composed("train", 5, 1) != personas.composed("train", 5, 2)


def test_more_than_there_are_is_refused_with_the_number_there_is():
    there = len(personas.compositions("heldout"))
    with pytest.raises(Unplayable, match=f"There are {there} heldout"):
        personas.composed("heldout", there + 1, 1)


def test_style_is_the_share_of_wishes_obeyed():
    person = Persona("p", "talk", ("short", "asks-back", "digits"), "train")
    # short and in digits, and no question: two of three
    assert personas.style(person, "It takes 3 days.", finished=True) == pytest.approx(2 / 3)
    # cut off: only the digits are left
    assert personas.style(person, "It takes 3 days. Is it", finished=False) == pytest.approx(1 / 3)
    assert personas.style(person, "", finished=True) == 0
    assert personas.style(person, "It takes 3 days. Do you have them?", finished=True) == 1


def test_the_people_of_the_method_want_what_it_says():
    assert personas.NAMED["student"].wishes == ("shows-working", "no-lists", "no-banner")
    assert personas.NAMED["teacher"].wishes == ("specific", "kind")
    assert personas.NAMED["assistant"].wishes == ("specific",)


def test_a_machine_written_solution_is_what_the_student_wants_changed():
    banner = "1. **Multiply**: 4 x 3 = 12\n\n**Final answer:** 12"
    assert personas.parts(personas.STUDENT, banner, finished=True) == {
        "shows-working": True,
        "no-lists": False,
        "no-banner": False,
    }
    assert personas.style(personas.STUDENT, "I take 4 x 3 = 12, so he has 12 pens.", finished=True) == 1


def written(tmp_path, *lines):
    path = tmp_path / "people.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def test_a_file_brings_people_of_ones_own(tmp_path):
    path = written(
        tmp_path,
        {"name": "brief", "wishes": ["short", "digits"]},
        "",
        {"name": "Ms Kay", "scene": "teacher", "wishes": ["kind"], "split": "train"},
    )
    assert personas.load(path) == [
        Persona("brief", "talk", ("short", "digits"), "heldout"),
        Persona("Ms Kay", "teacher", ("kind",), "train"),
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"name": "a"', "line 2 is no JSON"),
        ("[]", "line 2 is no object"),
        ({"wishes": ["short"]}, "line 2: name is missing"),
        ({"name": "a"}, "line 2: wishes is a list"),
        ({"name": "a", "wishes": []}, "line 2: wishes is a list"),
        ({"name": "a", "wishes": ["brief"]}, "line 2: there is no wish 'brief'. Known are short, long"),
        ({"name": "a", "wishes": ["short", "long"]}, "line 2: no reply can be both 'short' and 'long'"),
        ({"name": "a", "wishes": ["short", "short"]}, "line 2: a wish stands there twice"),
        (
            {"name": "a", "wishes": ["short"], "scene": "bar"},
            "line 2: scene is one of talk, student, teacher, assistant",
        ),
        ({"name": "a", "wishes": ["short"], "split": "dev"}, "line 2: split is train or heldout"),
        ({"name": "a", "wish": ["short"]}, "line 2: unknown field 'wish'. Accepted are name, wishes, scene and split"),
        ({"name": "first", "wishes": ["short"]}, "line 2: two personas are called 'first'"),
        ({"name": "a\x1b[2J", "wishes": ["short"]}, "line 2: A name holds only characters that are seen"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_by_line(tmp_path, line, says):
    path = written(tmp_path, {"name": "first", "wishes": ["short"]}, line)
    with pytest.raises(Unplayable) as refused:
        personas.load(path)
    assert str(refused.value).startswith("people.jsonl, ")
    assert says in str(refused.value)


def test_a_file_that_names_no_persona_is_refused(tmp_path):
    with pytest.raises(Unplayable, match="names no persona"):
        personas.load(written(tmp_path, "", " "))


@pytest.mark.parametrize("name", WISHES)
def test_every_wish_makes_a_person_by_its_name(name):
    assert personas.named(name).wishes == (name,)


def test_wishes_that_contradict_make_no_persona():
    with pytest.raises(Unplayable, match="no reply can be both"):
        personas.named("short+long")


def test_an_unknown_name_says_who_there_is():
    with pytest.raises(Unplayable, match="There are student, teacher, assistant"):
        personas.named("headmaster")
