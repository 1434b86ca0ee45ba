"""Notes and tags of runs."""

from __future__ import annotations

from django.urls import reverse

from tests.webapp.training.pages import text
from training.models import Run, RunNote, RunTag
from webapp.console.training import run_pages


def note_of(console, run, **said):
    address = reverse("console:run_note", args=[run.pk])
    return console.post(address, {"text": "", "tags": "", "seen": "", **said}, headers={"HX-Request": "true"})


def test_a_note_and_tags_are_kept_with_who_wrote_them_and_found_again(console, make_run):
    run, other = make_run(), make_run()
    said = text(note_of(console, run, text="Half the rate.\n<b>Better.</b>", tags="baseline, short replies"))
    assert "<html" not in said
    assert "Half the rate.<br>&lt;b&gt;Better.&lt;/b&gt;" in said
    assert "Written by ana" in said
    for query in ({"tag": "short replies"}, {"q": "HALF THE"}, {"q": "base"}, {"q": f"run {run.pk}"}):
        page = text(console.get(reverse("console:runs"), query))
        assert f'<tr id="run-{run.pk}"' in page, query
        assert f'<tr id="run-{other.pk}"' not in page, query
    for query in ({"tag": "short"}, {"q": "quarter"}):
        assert "No run is found by that." in text(console.get(reverse("console:runs"), query)), query
    page = text(console.get(reverse("console:runs")))
    assert "Half the rate." in page
    assert '<a href="?tag=short%20replies"' in page


def test_a_note_that_cannot_be_kept_stays_typed_with_the_reason(console, make_run):
    run = make_run()
    for said, fault in (
        ({"text": "x" * 2001}, "at most 2000 characters; this one has 2001"),
        ({"text": "short", "tags": "y" * 41}, "A tag may have at most 40 characters."),
        ({"text": "short", "tags": ",".join(map(str, range(13)))}, "at most 12 tags; these are 13"),
    ):
        answer = note_of(console, run, **said)
        assert answer.status_code == 422
        assert fault in text(answer)
        assert said["text"] in text(answer)
    assert not RunNote.objects.exists()
    without = console.post(reverse("console:run_note", args=[run.pk]), {"text": "x" * 2001})
    assert without.status_code == 422
    assert "Back to run" in text(without)


def test_two_people_do_not_write_over_one_another(console, make_run):
    run = make_run()
    note_of(console, run, text="Ana’s words.")
    late = note_of(console, run, text="Written on the empty page.", seen="")
    assert late.status_code == 409
    assert "Another person changed this note meanwhile" in text(late)
    assert "Written on the empty page." in text(late)
    assert RunNote.objects.get().text == "Ana’s words."


def test_a_note_is_taken_away_by_emptying_it_and_a_tag_keeps_its_author(console, make_run, talker):
    run = make_run()
    RunTag.objects.create(run=run, name="old", by=talker)
    note_of(console, run, text="Words.", tags="old, new")
    assert dict(RunTag.objects.values_list("name", "by__username")) == {"old": "ben", "new": "ana"}
    note_of(console, run, text=" ", tags="new", seen=RunNote.objects.get().at.isoformat())
    assert not RunNote.objects.exists()
    assert [tag.name for tag in RunTag.objects.all()] == ["new"]


def test_only_staff_write_notes(client, talker, make_run):
    address = reverse("console:run_note", args=[make_run().pk])
    client.force_login(talker)
    assert client.post(address, {"text": "mine"}).status_code == 403


def test_older_runs_of_a_search_are_of_that_search(console, make_run, monkeypatch):
    monkeypatch.setattr(run_pages, "PAGE", 1)
    for _ in range(2):
        RunTag.objects.create(run=make_run("failed"), name="base line")
    page = text(console.get(reverse("console:runs"), {"tag": "base line", "status": "failed"}))
    assert f'href="?status=failed&amp;tag=base+line&amp;before={Run.objects.first().pk}"' in page
