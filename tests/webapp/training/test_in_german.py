"""What runs, recipes and datasets say in another language: whole sentences, also where a word of them is a button."""

from __future__ import annotations

from datetime import UTC, datetime
from html import unescape

import pytest
from django.template import Context, Template
from django.urls import reverse
from django.utils.html import strip_tags
from django.utils.translation import override, trans_real

from training import config, hours
from training.filling import Filling
from webapp.charts import run_charts


@pytest.fixture
def german(client, monkeypatch):
    """A catalogue of these messages, for a reader whose browser asks for German."""
    client.defaults["HTTP_ACCEPT_LANGUAGE"] = "de"
    monkeypatch.setattr(trans_real, "_translations", {})

    def know(**messages):
        catalogue = trans_real.translation("de")._catalog
        for said, told in messages.items():
            catalogue[said] = told

    return lambda messages: know(**messages)


def read(response):
    """What a person reads of a page: its text without its tags."""
    return " ".join(unescape(strip_tags(response.content.decode())).split())


def test_now_is_a_button_wherever_a_language_puts_the_word(console, german, make_lesson):
    make_lesson()
    german({
        "%(lessons)s Training starts at %(size)s, or %(now)s.": "%(lessons)s Es beginnt %(now)s oder ab %(size)s.",
        "%(n)s of %(size)s lessons.": "%(n)s von %(size)s Lektionen.",
        "training starts\x04now": "jetzt",
        "Learn now": "Jetzt lernen",
    })  # fmt: skip
    page = read(console.get(reverse("console:board")))
    assert "1 von 16 Lektionen. Es beginnt jetzt oder ab 16." in page
    tag = Template('{% load console %}{% next_training batch "start" %}')
    with override("de"):
        said = tag.render(Context({"batch": Filling(16, ready=1)}))
    button = '<button class="link" form="start" title="Jetzt lernen" aria-label="Jetzt lernen">jetzt</button>'
    assert f"Es beginnt {button} oder ab 16." in said


def test_a_sentence_without_now_has_no_button():
    assert Filling(16).parts == ("0 of 16 lessons. Training starts at 16.", "", "")
    assert Filling(16, ready=9).parts == ("9 of 16 lessons. Training starts at 16, or ", "now", ".")


def test_a_recipe_says_what_a_knob_is_for(console, german):
    meaning = "Optimiser updates on a run's batch."
    assert meaning in config.reasons()["updates"]
    german({meaning: "Schritte je Lauf.", "Updates a run takes": "Schritte"})
    page = read(console.get(reverse("console:recipe")))
    assert page.count("Schritte je Lauf.") == 2  # beside its field, and in the table of all knobs
    assert "Schritte updates" in page  # the knob's name stays


def test_the_fault_of_a_knob_is_told_beside_it(console, german):
    german({"should be greater than %(bound)s": "muss größer als %(bound)s sein"})
    said = {"knob-lr": "0", "act": "preview", "preset": "binary"}
    page = read(console.post(reverse("console:recipe_give", args=["shared"]), said))
    assert "Muss größer als 0 sein." in page


def test_a_run_and_the_limit_that_it_passed_are_told(console, german, make_run):
    run = make_run("finished", metrics=[{"update": 1, "clip_fraction": 0.4}])
    german({
        "finished": "fertig",
        "Run %(n)s": "Lauf %(n)s",
        "Clip fraction": "Anteil am Anschlag",
        "%(title)s was %(worst)s, above its limit %(at)s, since update %(since)s (updates past it: %(n)s of %(of)s).":
            "%(title)s war %(worst)s, über der Grenze %(at)s, seit Schritt %(since)s (%(n)s von %(of)s).",
        "Much of the batch taught no more.": "Vieles lehrte nichts mehr.",
        "%(name)s: %(value)s in its one update.": "%(name)s: %(value)s im einzigen Schritt.",
        "share of tokens": "Anteil der Token",
    })  # fmt: skip
    page = read(console.get(reverse("console:run", args=[run.pk])))
    assert f"Lauf {run.pk} fertig" in page
    assert (
        "Anteil am Anschlag war 0.4, über der Grenze 0.3, seit Schritt 1 (1 von 1). Vieles lehrte nichts mehr." in page
    )
    assert "Anteil der Token: 0.4 im einzigen Schritt." in page
    with override("en"):  # nothing of the page before is kept
        assert run_charts.charts(run.metrics, run.recipe)[0].title == "Clip fraction"


def test_why_an_example_is_refused_is_told(console, german):
    german({"it is no JSON": "es ist kein JSON", "an import\x04read": "gelesen"})
    made = importable(console)
    page = read(console.get(reverse("console:dataset_import", args=[made.pk])))
    assert "1: es ist kein JSON" in page
    assert " gelesen " in page


def importable(console):
    """An import that was read, with one line that is no JSON."""
    from checkpoints.models import Line
    from evaluation.models import Import

    told = {"rows": 0, "first": [], "refused": {"it is no JSON": 1}, "where": [["line 1", "it is no JSON"]]}
    return Import.objects.create(name="a.jsonl", line=Line.objects.get(name="shared"), status="read", found=told)


def test_a_time_is_told_with_the_days_own_name():
    now = datetime(2026, 3, 2, 14, tzinfo=UTC)
    with override("de"):  # 4 March 2026 is a Wednesday; the name is Django's own
        assert hours.clock(datetime(2026, 3, 4, 9, tzinfo=UTC), now) == "09:00 am Mittwoch, 4. März"
