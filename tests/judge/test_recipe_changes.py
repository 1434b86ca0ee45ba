"""A line's recipe is changed on record, by one person at a time, and back again."""

from __future__ import annotations

import pytest

from checkpoints import lines
from checkpoints.models import SHARED, Line
from judge import recipe_changes
from judge.hints.decisions import NotPossible, Overtaken
from judge.models import Ruling
from training import line_recipes
from training.config import RecipeInvalid

BINARY = {"preset": "binary", "updates": 3}


@pytest.fixture
def line(db):
    return lines.make("The team")


def learns_by(line):
    return Line.objects.get(pk=line.pk).recipe


def test_a_change_says_who_made_it_when_why_and_from_what_to_what(line, person):
    ruling = recipe_changes.give(line, BINARY, by=person, reason=" shorter ")
    assert (learns_by(line), line.recipe) == (BINARY, BINARY)
    assert (ruling.by, ruling.verb, ruling.reason) == (person, "policy", "shorter")
    assert ruling.before == {"line": "the-team", "recipe": {}}
    assert ruling.after == {"line": "the-team", "recipe": BINARY}


def test_a_change_is_taken_back_and_that_is_on_record_too(line, person):
    first = recipe_changes.give(line, BINARY, by=person)
    second = recipe_changes.give(line, {"preset": "opd"}, by=person)
    back = recipe_changes.undo(second, by=person)
    assert learns_by(line) == BINARY
    assert list(recipe_changes.history(line)) == [back, second, first]
    recipe_changes.undo(back, by=person)  # to take back a taking back is to do it again
    assert learns_by(line) == {"preset": "opd"}


def test_what_was_changed_again_since_is_not_taken_back_unseen(line, person):
    first = recipe_changes.give(line, BINARY, by=person)
    recipe_changes.give(line, {"preset": "opd"}, by=person)
    with pytest.raises(Overtaken, match="changed again since"):
        recipe_changes.undo(first, by=person)
    assert learns_by(line) == {"preset": "opd"}


def test_a_person_who_saw_another_recipe_changes_nothing(line, person):
    seen = recipe_changes.mark(line)
    recipe_changes.give(line, BINARY, by=person, seen=seen)
    with pytest.raises(Overtaken, match="changed meanwhile"):
        recipe_changes.give(line, {"preset": "opd"}, by=person, seen=seen)
    assert learns_by(line) == BINARY


def test_what_cannot_be_used_is_refused_and_leaves_no_record(line, person):
    for fields in ({"lr": -1}, {"preset": "best"}, {"weights": "full"}):
        with pytest.raises(RecipeInvalid):
            recipe_changes.give(line, fields, by=person)
    assert learns_by(line) == {}
    assert not Ruling.objects.exists()


def test_the_shared_line_takes_a_recipe_of_its_own_and_gives_it_back(line, person):
    shared = Line.objects.get(pk=SHARED)
    ruling = recipe_changes.give(shared, BINARY, by=person)
    assert line_recipes.recipe_of(SHARED).updates == 3
    assert (
        line_recipes.recipe_of(line.name) == line_recipes.current()
    )  # a line without one learns by the installation's

    recipe_changes.undo(ruling, by=person)
    assert line_recipes.recipe_of(SHARED) == line_recipes.current()


def test_a_change_that_is_none_is_refused(line, person):
    with pytest.raises(NotPossible, match="already"):
        recipe_changes.give(line, {}, by=person)
    with pytest.raises(NotPossible, match="no line's recipe"):
        recipe_changes.undo(
            Ruling.objects.create(verb="policy", before={"source": "web"}, after={"source": "web"}), by=person
        )


def test_the_next_run_of_the_line_learns_by_it_and_the_shared_one_does_not(line, person):
    recipe_changes.give(line, BINARY, by=person)
    assert line_recipes.recipe_of(line.name).updates == 3
    assert line_recipes.recipe_of(SHARED).updates != 3
