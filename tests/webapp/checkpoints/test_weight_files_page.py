"""The files of a checkpoint on its page: a button each, progress, a link with its sum."""

from __future__ import annotations

import pytest
from django.urls import reverse

from benchmarks.tiny import write_tiny_adapter
from checkpoints.models import Checkpoint
from evaluation import weight_files
from evaluation.models import Export
from tests.webapp.conftest import text_of
from training.provenance import retention


@pytest.fixture
def taught(db, settings, tmp_path, tiny_model):
    settings.DATA_DIR, settings.MODEL = tmp_path, str(tiny_model)
    write_tiny_adapter(tmp_path / "checkpoints" / "talkback-1", seed=3, scale=0.1)
    return Checkpoint.objects.create(
        number=1, kind="lora", status="passed", parent=Checkpoint.live(), adapter="talkback-1",
        path="checkpoints/talkback-1",
    )  # fmt: skip


def test_a_button_makes_the_file_and_the_page_shows_how_far_it_is(console, taught):
    page = reverse("console:checkpoint", args=[1])
    before = text_of(console.get(page))
    assert 'id="make-gguf"' in before
    assert f"about {retention.size(weight_files.size())}" in before  # said before it is asked for

    console.post(reverse("console:checkpoint_files", args=[1]), {"what": "gguf"})
    export = Export.objects.get()
    assert (export.what, export.by.username) == ("gguf", "ana")
    moving = text_of(console.get(reverse("console:checkpoint_files_now", args=[1])))
    assert "Waits for a worker." in moving
    assert 'hx-trigger="every 2s"' in moving

    Export.objects.filter(pk=export.pk).update(status="writing", progress={"done": 40, "total": 100})
    moving = text_of(console.get(reverse("console:checkpoint_files_now", args=[1])))
    assert '<progress max="100" value="40"' in moving
    assert "40 of 100" in moving

    Export.objects.filter(pk=export.pk).update(status="queued")
    weight_files.make(export.pk)
    export.refresh_from_db()
    done = text_of(console.get(page))
    url = reverse("console:export_file", args=[export.pk, "talkback-1.gguf"])
    assert f'href="{url}"' in done
    assert export.made["files"][1]["sha256"] in done
    data = b"".join(console.get(url).streaming_content)
    assert data[:4] == b"GGUF"

    console.post(reverse("console:export_delete", args=[export.pk]))
    assert "ana deleted its files." in text_of(console.get(page))


def test_the_base_has_no_such_card(console, taught):
    assert 'id="make-gguf"' not in text_of(console.get(reverse("console:checkpoint", args=[0])))


def test_it_is_for_operators_alone(client, talker, taught):
    client.force_login(talker)
    assert client.post(reverse("console:checkpoint_files", args=[1]), {"what": "gguf"}).status_code == 403
    assert client.get(reverse("console:checkpoint_files_now", args=[1])).status_code == 403
