"""The Datasets page: a form, the first rows, files to download."""

from __future__ import annotations

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from chat.rendering.renderer import Renderer
from evaluation.datasets import exporting, importing
from evaluation.models import Export, Import
from feedback.models import Feedback
from tests.webapp.conftest import text_of
from training.models import Sample

PAGE = "/console/datasets/"


@pytest.fixture
def taught(make_turn, talker, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    turn = make_turn("observed")
    Feedback.objects.create(turn=turn, by=talker, kind="rewrite", text="Paris. <b>")
    return turn


def test_the_navigation_leads_to_it_and_an_empty_page_says_what_to_do(console, db):
    page = text_of(console.get(PAGE))
    assert f'href="{PAGE}"' in page
    assert "Nothing was exported yet." in page


@pytest.mark.parametrize("method", ["get", "post"])
def test_it_is_for_operators_alone(client, talker, method):
    client.force_login(talker)
    for name, args in (("datasets", ()), ("dataset_export", ()), ("export_file", (1, "x")), ("export_cancel", (1,))):
        assert getattr(client, method)(reverse(f"console:{name}", args=args)).status_code in (403, 405), name


def test_a_preview_shows_the_first_rows_and_what_is_left_out(console, taught, make_turn, talker):
    Feedback.objects.create(turn=make_turn("observed", "No."), by=talker, kind="thumb", value=-1)
    off = make_turn("observed", learns=False)
    Feedback.objects.create(turn=off, by=talker, kind="thumb", value=1)
    page = text_of(console.get(PAGE, {"kind": "sft", "state": "any", "preview": "1"}))
    assert "Paris. &lt;b&gt;" in page
    assert "of the newest 2: no better reply is known" in page
    assert '<span class="number">1</span> in all: off the record' in page


def test_what_makes_no_sense_is_said_in_a_sentence_and_the_page_stays(console, db):
    response = console.get(PAGE, {"since": "soon", "preview": "1"})
    assert response.status_code == 422
    assert "“soon” is no day: write it as 2026-11-29." in text_of(response)
    assert "Show the first rows" in text_of(response)


def test_from_the_preview_to_the_files(console, taught, django_capture_on_commit_callbacks):
    preview = console.get(PAGE, {"state": "any", "preview": "1"})
    sent = {name: value for name, value in preview.context["asked"].items() if value is not False}
    with django_capture_on_commit_callbacks(execute=True):
        assert "is being written" in text_of(console.post(reverse("console:dataset_export"), sent, follow=True))
    made = Export.objects.get()
    assert (made.asked["state"], made.by.username) == ("any", "ana")
    assert 'hx-trigger="every 2s"' in text_of(console.get(PAGE))

    exporting.make(made.pk)
    page = text_of(console.get(PAGE))
    url = reverse("console:export_file", args=[made.pk, "sft.jsonl"])
    assert f'href="{url}"' in page
    assert 'hx-trigger="every 2s"' not in page
    file = console.get(url)
    assert file["Content-Disposition"] == f'attachment; filename="talkback-{made.pk}-sft.jsonl"'
    assert json.loads(b"".join(file.streaming_content))["completion"][0]["content"] == "Paris. <b>"

    Feedback.objects.withdraw(taught, by=taught.session.user, kind="rewrite")
    page = text_of(console.get(url, follow=True))
    assert "1 of its rows were taken back since it was made." in page


def test_files_can_be_deleted_before_their_time_and_a_waiting_export_stopped(console, taught, operator):
    first, second = (exporting.ask(exporting.Filters(state="any"), by=operator) for _ in range(2))
    exporting.make(first.pk)
    console.post(reverse("console:export_delete", args=[first.pk]))
    console.post(reverse("console:export_cancel", args=[second.pk]))
    assert [Export.objects.get(pk=one.pk).status for one in (first, second)] == ["gone", "cancelled"]
    assert "ana deleted its files." in text_of(console.get(PAGE))


def test_the_page_takes_few_queries_however_much_there_is(
    console, taught, talker, operator, make_turn, django_assert_max_num_queries
):
    for _ in range(70):
        Feedback.objects.create(turn=make_turn("observed"), by=talker, kind="rewrite", text="Paris.")
        exporting.ask(exporting.Filters(), by=operator)
    with django_assert_max_num_queries(13):
        console.get(PAGE)
    with django_assert_max_num_queries(13):  # with a preview: keys, turns with their feedback, two counts
        page = console.get(PAGE, {"state": "any", "preview": "1"})
    assert len(page.content) < 200_000


class TestImport:
    """From a file to lessons, through the page."""

    @pytest.fixture
    def brought(self, console, db, settings, tmp_path, tiny_model):
        settings.DATA_DIR, settings.MODEL = tmp_path, str(tiny_model)

        def brought(text, name="examples.jsonl"):
            sent = {"file": SimpleUploadedFile(name, text.encode()), "line": "shared"}
            return console.post(reverse("console:dataset_bring"), sent, follow=True)

        return brought

    def test_a_file_is_looked_at_agreed_to_and_undone(self, console, brought, tiny_model):
        page = text_of(brought('{"prompt": "<b>A?", "completion": "a"}\nnonsense\n'))
        assert "The file is being read." in page
        found = Import.objects.get()
        url = reverse("console:dataset_import", args=[found.pk])
        importing.look(found.pk)

        page = text_of(console.get(url))
        assert "&lt;b&gt;A?" in page
        assert '<span class="mono">line 2</span>: it is no JSON' in page
        assert "at most 4 come from files" in page  # of 16

        agree = reverse("console:dataset_agree", args=[found.pk])
        assert "Say first that these texts may be learned from." in text_of(
            console.post(agree, {"origin": "ours"}, follow=True)
        )
        console.post(agree, {"origin": "ours", "consents": "1"})
        importing.take(found.pk, renderer=Renderer.for_model(tiny_model))
        page = text_of(console.get(url))
        assert "<strong>1 lesson</strong> waits for training." in page
        assert Sample.objects.get().status == "ready"

        page = text_of(console.post(reverse("console:dataset_undo", args=[found.pk]), follow=True))
        assert "<strong>The import was undone.</strong> 1 lesson that waited went." in page
        assert Sample.objects.get().status == "stale"

    def test_pages_of_training_say_that_a_lesson_is_an_example_of_a_file(self, console, db, make_checkpoint):
        made = make_checkpoint(1)
        fields = {"person": "import:7", "checkpoint": made.parent, "prompt_ids": [5], "response_ids": [2]}
        fields |= {"behaviour_logprobs": [0.0], "mask": [0], "rewrite_ids": [8, 2]}
        Sample.objects.create(**fields)
        Sample.objects.create(**fields, run=made.run, status="trained")
        assert 'title="an example of a file"' in text_of(console.get(reverse("console:forecast")))
        assert ": an example of a file</p>" in text_of(console.get(reverse("console:run", args=[made.run.pk])))
        page = console.get(reverse("console:checkpoint_lineage", args=[1]))
        assert "An example of a file: no person’s reply." in text_of(page)

    def test_a_file_of_another_kind_and_none_at_all_are_refused_in_a_sentence(self, console, brought):
        assert "A file ends with one of .jsonl, .json, .parquet, .zip" in text_of(brought("x", "x.exe"))
        page = console.post(reverse("console:dataset_bring"), {"line": "shared"}, follow=True)
        assert "Choose a file first." in text_of(page)

    def test_a_decision_that_comes_too_late_is_said(self, console, brought):
        brought('{"prompt": "A?", "completion": "a"}')
        found = Import.objects.get()
        importing.look(found.pk)
        console.post(reverse("console:dataset_discard", args=[found.pk]))
        page = console.post(reverse("console:dataset_undo", args=[found.pk]), follow=True)
        assert "It has moved on meanwhile" in text_of(page)

    def test_the_pages_are_for_operators_alone(self, client, talker):
        client.force_login(talker)
        for name in ("dataset_agree", "dataset_discard", "dataset_undo"):
            assert client.post(reverse(f"console:{name}", args=[1])).status_code == 403
        assert client.get(reverse("console:dataset_import", args=[1])).status_code == 403
        assert client.post(reverse("console:dataset_bring")).status_code == 403
