"""A line's recipe as a form: what is typed is kept, what would change is shown first, and each fault has its field."""

from __future__ import annotations

import doctest
import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from checkpoints import lines
from checkpoints.models import SHARED
from judge.models import Ruling
from tests.webapp.conftest import text_of
from training import config, line_recipes
from training.models import Run
from webapp.console.training import recipe_form


@pytest.fixture
def line(db):
    return lines.make("The team")


@pytest.fixture(autouse=True)
def installation(settings):
    settings.RECIPE = ""  # the preset embedded


def post(console, name, *, fragment=False, **said):
    fields = {"knob-" + key.replace("__", "."): value for key, value in said.items() if key not in NO_KNOB}
    rest = {key: value for key, value in said.items() if key in NO_KNOB}
    headers = {"HX-Request": "true"} if fragment else {}
    return console.post(reverse("console:recipe_give", args=[name]), fields | rest, follow=True, headers=headers)


NO_KNOB = ("preset", "act", "agreed", "reason", "seen", "shown")


def hidden(page, name):
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    return found.group(1).replace("&quot;", '"') if found else ""


def saved(console, name, **said):
    """The page after what would change was seen, and saved."""
    seen = text_of(post(console, name, **said))
    return text_of(post(console, name, **said, act="save", agreed=hidden(seen, "agreed"), seen=hidden(seen, "seen")))


def field_of(page, knob):
    return page.partition(f'id="knob-{knob}"')[2].partition('<div class="knob')[0]


def test_every_knob_has_a_field_with_its_own_docstring(console):
    page = text_of(console.get(reverse("console:recipe")))
    for name, doc in config.reasons().items():
        assert f'name="knob-{name}"' in page
        first = doc.split(".")[0].replace("`", "")[:30].split("'")[0].split("\n")[0]
        assert first in field_of(page, name), name
    assert page.index('id="knob-lr"') < page.index('id="recipe-advanced"') < page.index('id="knob-epsilon"')
    assert "Sane: 0.00001 to 0.01." in field_of(page, "lr")


def test_every_preset_is_a_card_that_says_what_it_is_for(console):
    page = text_of(console.get(reverse("console:recipe")))
    for name in config.PRESETS:
        assert f'<input type="radio" name="preset" value="{name}">' in page
    assert "For one card of 24 GB." in page
    assert 'name="preset" value="" checked' in page  # the installation's


def test_what_would_change_is_shown_before_it_is_saved(console, line):
    page = text_of(post(console, line.name, preset="embedded", lr="0.001", updates="8"))
    for knob, before, after in (("lr", "0.003", "0.001"), ("updates", "4", "8")):
        row = f'<code class="quiet">{knob}</code></span> <span class="number"><del>{before}</del>'
        assert f'{row} <span aria-label="becomes">▸</span> <ins>{after}</ins></span>' in page
    assert page.count("<del>") == 2
    assert "There is no lesson yet, so there is nothing to estimate." in page
    assert not Ruling.objects.exists()
    assert line_recipes.recipe_of(line.name) == line_recipes.current()


def test_it_says_how_much_longer_a_run_takes_and_what_memory(console, make_lesson, make_run):
    """A run of the small model's recipe read its lesson of 6 tokens in 10 minutes, and held 2 GiB."""
    began = timezone.now() - timedelta(minutes=30)
    run = make_run(
        recipe=config.PRESETS["embedded"].model_dump(),
        started_at=began,
        finished_at=began + timedelta(minutes=10),
        progress={"peak_mib": 2048.0},
    )
    make_lesson("trained", run=run)
    make_lesson()
    page = text_of(post(console, SHARED, preset="embedded", updates="8", micro_batch="1"))
    took, takes = re.findall(r"about (\d+) min", page)
    assert int(takes) > 1.5 * int(took)  # twice as many updates, and the frozen models read once as before
    assert "2.0 GiB" in page
    assert "shows with the first such run" in page  # no run had micro_batch 1


def test_a_line_is_given_a_recipe_and_it_is_taken_back(console, operator, line):
    page = saved(console, line.name, preset="binary", updates="3", reason="shorter")
    assert "“The team” learns by binary with updates 3 from its next run on." in page
    assert line_recipes.recipe_of(line.name) == config.PRESETS["binary"].model_copy(update={"updates": 3})
    for said in (operator.username, "the installation’s recipe", "shorter"):
        assert said in page
    assert "binary with updates 3" in text_of(console.get(reverse("console:audit")))

    ruling = Ruling.objects.get()
    page = text_of(console.post(reverse("console:recipe_undo", args=[ruling.pk]), follow=True))
    assert "It learns by the installation’s recipe again." in page
    assert line_recipes.recipe_of(line.name) == line_recipes.current()


def test_what_was_not_shown_is_not_saved(console, line):
    seen = text_of(post(console, line.name, preset="binary", updates="3"))
    page = text_of(post(console, line.name, preset="binary", updates="5", act="save", agreed=hidden(seen, "agreed")))
    assert "What would change" in page
    assert "<ins>5</ins>" in page
    assert not Ruling.objects.exists()


@pytest.mark.parametrize(
    ("knob", "typed", "fault"),
    [
        ("updates", "0", "Should be greater than or equal to 1."),
        ("lr", "quick", "Must be a number."),
        ("lr", "", "Must be a number."),
        ("batch_size", "1.5", "Should be a valid integer, got a number with a fractional part."),
        ("gate.variety", "2", "Should be less than or equal to 1."),
        ("teacher", "me", "Should be 'base' or 'policy'."),
    ],
)
def test_a_fault_stands_beside_its_field_and_nothing_is_lost(console, line, knob, typed, fault):
    answer = post(console, line.name, preset="binary", beta="0.07", **{knob.replace(".", "__"): typed})
    page = text_of(answer)
    assert answer.status_code == 422
    assert fault.replace("'", "&#x27;") in field_of(page, knob)
    assert 'aria-invalid="true"' in field_of(page, knob)
    assert 'value="0.07"' in field_of(page, "beta")
    assert knob == "teacher" or f'value="{typed}"' in field_of(page, knob)
    assert not Ruling.objects.exists()


def test_a_fault_of_several_knobs_is_said_above_them(console, line):
    page = text_of(post(console, line.name, preset="binary", w_rl="0"))
    assert "nothing would be learned" in page.replace("&#x27;", "'")
    assert 'value="0"' in field_of(page, "w_rl")
    page = text_of(post(console, line.name, preset="binary", weights="full"))
    assert "A line&#x27;s weights cannot be full" in page


def test_another_preset_keeps_what_was_typed_and_takes_the_rest(console, line):
    """The form showed embedded; a person typed one knob and chose binary."""
    embedded = recipe_form.texts(config.PRESETS["embedded"])
    draft = recipe_form.composed(
        {"preset": "binary", "shown": "{}", **{f"knob-{name}": text for name, text in embedded.items()}}
        | {"knob-updates": "7"},
        {},
    )
    assert draft.fields == {"preset": "binary", "updates": 7}


def test_what_was_typed_stays_through_one_preset_after_another(console, line):
    """As a browser does it: each answer's fields are sent back whole."""

    def sent_back(page, **said):
        fields = dict(re.findall(r'name="(knob-[^"]+)" value="([^"]*)"', page))
        rest = {name: hidden(page, name) for name in ("shown", "touched", "seen")}
        return text_of(console.post(reverse("console:recipe_give", args=[line.name]), fields | rest | said))

    page = text_of(console.get(reverse("console:recipe"), {"line": line.name}))
    page = sent_back(page, preset="binary", **{"knob-updates": "7"})
    assert 'value="0.0001"' in field_of(page, "lr")  # binary's, where the page showed embedded's 0.003
    page = sent_back(page, preset="embedded")
    assert 'value="0.003"' in field_of(page, "lr")
    assert hidden(page, "shown") == '{"preset": "embedded", "updates": 7}'
    page = sent_back(page, preset="embedded", act="save", agreed=hidden(page, "agreed"))
    line.refresh_from_db()
    assert line.recipe == {"preset": "embedded", "updates": 7}


def test_the_same_preset_keeps_what_the_line_had_changed(console, line):
    saved(console, line.name, preset="binary", updates="3", max_tokens="64")
    line.refresh_from_db()
    page = saved(console, line.name, preset="binary", max_tokens="")
    line.refresh_from_db()
    assert line.recipe == {"preset": "binary", "updates": 3}  # all tokens is binary's own
    assert "binary with updates 3" in page


def test_a_change_of_the_installations_recipe_is_the_lines_own(console, line):
    saved(console, line.name, preset="", updates="6")
    line.refresh_from_db()
    assert line.recipe == {"preset": "embedded", "updates": 6}
    saved(console, line.name, preset="", shown='{"preset": "embedded", "updates": 6}')
    line.refresh_from_db()
    assert line.recipe == {}


def test_a_form_is_filled_with_a_preset_anew(console, line):
    saved(console, line.name, preset="binary", updates="3")
    page = text_of(console.get(reverse("console:recipe"), {"line": line.name}))
    assert 'value="3"' in field_of(page, "updates")
    assert "The preset has 1." in field_of(page, "updates")
    part = console.get(
        reverse("console:recipe"), {"line": line.name, "preset": "binary"}, headers={"HX-Request": "true"}
    )
    assert "<html" not in text_of(part)
    assert 'value="1"' in field_of(text_of(part), "updates")


def test_a_value_beyond_its_sane_range_is_unusual_and_allowed(console, line):
    page = text_of(post(console, line.name, preset="binary", lr="0.5"))
    assert "unusual" in field_of(page, "lr")
    assert "<ins>0.5</ins>" in page


def test_two_people_do_not_decide_over_one_another(console, line):
    seen = text_of(post(console, line.name, preset="binary", updates="3"))
    line_recipes.set_recipe(line, {"preset": "opd"})
    said = {"act": "save", "agreed": hidden(seen, "agreed"), "seen": hidden(seen, "seen"), "shown": "{}"}
    answer = post(console, line.name, preset="binary", updates="3", **said)
    assert answer.status_code == 409
    assert "was changed meanwhile" in text_of(answer)
    assert 'value="3"' in field_of(text_of(answer), "updates")


def test_a_choice_that_stands_already_is_nothing_to_save(console, line):
    saved(console, line.name, preset="binary")
    page = text_of(post(console, line.name, preset="binary", shown='{"preset": "binary"}'))
    assert "there is nothing to save" in page
    assert 'value="save"' not in page


def test_a_recipe_that_cannot_be_used_any_more_is_said_and_replaced(console, line):
    line.recipe = {"preset": "binary", "clip_low": 0.2}
    line.save()
    page = text_of(console.get(reverse("console:recipe"), {"line": line.name}))
    assert "knobs that are gone: clip_low" in page
    assert "learns by binary with updates 2" in saved(console, line.name, preset="binary", updates="2")


def test_which_recipe_the_shared_line_learns_by_is_said_plainly(console, settings, tmp_path, make_lesson):
    file = tmp_path / "ours.json"
    file.write_text('{"preset": "opd"}', encoding="utf-8")
    settings.RECIPE = str(file)
    page = text_of(console.get(reverse("console:recipe")))
    assert "Learning uses the preset opd." in page
    assert "the file ours.json says" in page

    make_lesson()
    page = saved(console, SHARED, preset="binary", batch_size="1")
    assert "It was chosen here, as binary with batch_size 1. The file ours.json, which RECIPE names, holds for" in page
    console.post(reverse("console:learn_now"))
    assert Run.objects.get().recipe["batch_size"] == 1  # and "learn now" learns by it


def test_only_staff_choose_a_recipe(client, talker, line):
    client.force_login(talker)
    assert client.post(reverse("console:recipe_give", args=[line.name]), {"preset": "opd"}).status_code == 403
    assert client.post(reverse("console:recipe_undo", args=[1])).status_code == 403
    assert client.get(reverse("console:recipe")).status_code == 403


def test_however_many_lines_there_are_the_page_asks_equally_often_and_stays_small(
    console, operator, django_assert_max_num_queries
):
    for place in range(20):
        made = lines.make(f"Team {place}")
        line_recipes.set_recipe(made, {"preset": "binary"})
    with django_assert_max_num_queries(12):
        answer = console.get(reverse("console:recipe"))
    assert len(answer.content) < 200_000


def test_the_docstrings_of_the_form_hold():
    found = doctest.testmod(recipe_form)
    assert found.attempted
    assert not found.failed
