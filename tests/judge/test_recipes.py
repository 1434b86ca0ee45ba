"""A line's recipe is changed on record, by one person at a time, and back again."""

from __future__ import annotations

import pytest

from judge import recipes
from judge.models import Ruling
from judge.reviews import NotPossible, Overtaken
from training import config, line_recipes, lines
from training.config import RecipeInvalid
from training.models import SHARED, Line

BINARY = {"preset": "binary", "updates": 3}


@pytest.fixture
def line(db):
    return lines.make("The team")


def learns_by(line):
    return Line.objects.get(pk=line.pk).recipe


def test_a_change_says_who_made_it_when_why_and_from_what_to_what(line, person):
    ruling = recipes.give(line, BINARY, by=person, reason=" shorter ")
    assert (learns_by(line), line.recipe) == (BINARY, BINARY)
    assert (ruling.by, ruling.verb, ruling.reason) == (person, "policy", "shorter")
    assert ruling.before == {"line": "the-team", "recipe": {}}
    assert ruling.after == {"line": "the-team", "recipe": BINARY}


def test_a_change_is_taken_back_and_that_is_on_record_too(line, person):
    first = recipes.give(line, BINARY, by=person)
    second = recipes.give(line, {"preset": "opd"}, by=person)
    back = recipes.undo(second, by=person)
    assert learns_by(line) == BINARY
    assert list(recipes.history(line)) == [back, second, first]
    recipes.undo(back, by=person)  # to take back a taking back is to do it again
    assert learns_by(line) == {"preset": "opd"}


def test_what_was_changed_again_since_is_not_taken_back_unseen(line, person):
    first = recipes.give(line, BINARY, by=person)
    recipes.give(line, {"preset": "opd"}, by=person)
    with pytest.raises(Overtaken, match="changed again since"):
        recipes.undo(first, by=person)
    assert learns_by(line) == {"preset": "opd"}


def test_a_person_who_saw_another_recipe_changes_nothing(line, person):
    seen = recipes.mark(line)
    recipes.give(line, BINARY, by=person, seen=seen)
    with pytest.raises(Overtaken, match="changed meanwhile"):
        recipes.give(line, {"preset": "opd"}, by=person, seen=seen)
    assert learns_by(line) == BINARY


def test_what_cannot_be_used_is_refused_and_leaves_no_record(line, person):
    for fields in ({"lr": -1}, {"preset": "best"}, {"weights": "full"}):
        with pytest.raises(RecipeInvalid):
            recipes.give(line, fields, by=person)
    assert learns_by(line) == {}
    assert not Ruling.objects.exists()


def test_the_shared_line_takes_a_recipe_of_its_own_and_gives_it_back(line, person):
    shared = Line.objects.get(pk=SHARED)
    ruling = recipes.give(shared, BINARY, by=person)
    assert line_recipes.recipe_of(SHARED).updates == 3
    assert line_recipes.recipe_of(line.name) == config.current()  # a line without one learns by the installation's

    recipes.undo(ruling, by=person)
    assert line_recipes.recipe_of(SHARED) == config.current()


def test_a_change_that_is_none_is_refused(line, person):
    with pytest.raises(NotPossible, match="already"):
        recipes.give(line, {}, by=person)
    with pytest.raises(NotPossible, match="no line's recipe"):
        recipes.undo(Ruling.objects.create(verb="policy", before={"source": "web"}, after={"source": "web"}), by=person)


def test_the_next_run_of_the_line_learns_by_it_and_the_shared_one_does_not(line, person):
    recipes.give(line, BINARY, by=person)
    assert line_recipes.recipe_of(line.name).updates == 3
    assert line_recipes.recipe_of(SHARED).updates != 3
