"""Importing and exporting chats: once each, with branches and thumbs, teaching nothing by themselves."""

from __future__ import annotations

import json
import os

import pytest
from django.contrib.auth import get_user_model
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chat import branches
from chat.imports import files
from chat.imports.import_rows import Import
from chat.listing.folders import Folder
from chat.models import Session, Turn
from chat.search import finding
from feedback import chat_files, importing
from feedback.models import Feedback
from judge.samples import ledger, sample_rows
from judge.samples.sample_rows import Reason
from privacy import bin as chat_bin
from privacy import erasures
from tests.chat.imports.exports import chatgpt, openwebui, rating, zipped
from webapp import pipeline
from webapp.journeys.barring import barred
from webapp.journeys.known import journey

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def home(settings, tmp_path):
    settings.DATA_DIR = tmp_path


@pytest.fixture
def ana(db):
    return get_user_model().objects.create_user("ana", password="secret")


@pytest.fixture
def own(ana) -> Client:
    client = Client()
    client.force_login(ana)
    return client


def upload(own, data, name="export.zip"):
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return own.post("/chats/import/", {"file": SimpleUploadedFile(name, data)})


def bring(own, data) -> Import:
    """The import, with its person's yes."""
    answer = upload(own, data)
    assert answer.status_code == 302, answer.content.decode()
    own.post(f"{answer.url}start/")
    return Import.objects.first()


def test_a_file_is_shown_before_anything_is_stored(own):
    answer = upload(own, zipped([chatgpt()], [rating("a2")]))
    text = own.get(answer.url).content.decode()
    assert "Chats from ChatGPT" in text
    assert "Steps of tools between messages: 2." in text
    assert "Imported replies teach nothing by themselves" in text
    row = Import.objects.get()
    assert (row.found["chats"], row.found["messages"], row.found["thumbs"]) == (1, 3, 1)
    assert not Session.objects.exists()
    own.post(f"{answer.url}drop/")
    assert not row.file.exists()
    own.post(f"{answer.url}start/")
    assert not Session.objects.exists()


def test_a_chat_comes_with_its_branches_thumbs_and_days(own, ana):
    row = bring(own, zipped([chatgpt()], [rating("a2", text="Good one.", tags=["clear"])]))
    assert (row.status, row.stored) == ("done", {"chats": 1, "messages": 3, "thumbs": 1, "corrections": 0})
    assert not row.file.exists()
    session = Session.objects.get()
    assert (session.title, session.active_at.year, session.user) == ("Rain & <b>snow</b>", 2023, ana)
    tree = branches.Tree.of(session)
    shown = [session.turns.get(pk=pk).text for pk in tree.path]
    assert shown == ["Water that falls.", "Frozen water."]
    assert tree.switches(tree.path[0])[1].total == 2  # two tries at one reply
    assert [message["content"] for message in session.turns.get(text="Frozen water.").messages] == [
        "What is **rain**?", "Water that falls.", "And <script>alert(1)</script> snow?",
    ]  # fmt: skip
    thumb = Feedback.objects.get()
    assert (thumb.turn.text, thumb.value, thumb.text, thumb.tags) == ("Water that falls.", 1, "Good one.", ["clear"])
    assert [hit.turn for hit in finding.find(ana, "frozen").hits] == [session.turns.get(text="Frozen water.").pk]


def test_hostile_text_is_text_on_the_page(own):
    bring(own, [chatgpt(title="<img src=x onerror=alert(1)>")])
    text = own.get(f"/chats/{Session.objects.get().pk}/").content.decode()
    assert "<script>alert(1)" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<img src=x" not in text
    assert ">gpt-4o</span>" in text


def test_importing_twice_makes_no_doubles_even_from_the_bin(own, ana):
    bring(own, zipped([chatgpt(), chatgpt("c2")]))
    answer = upload(own, [chatgpt(), chatgpt("c3")])
    assert "1 of them is here already" in " ".join(own.get(answer.url).content.decode().split())
    row = bring(own, [chatgpt(), chatgpt("c3")])
    assert row.stored == {"known": 1, "chats": 1, "messages": 3, "thumbs": 0, "corrections": 0}
    chat_bin.discard(Session.objects.first())
    assert bring(own, [chatgpt(), chatgpt("c2"), chatgpt("c3")]).stored == {"known": 3}
    other = get_user_model().objects.create_user("ben")
    assert importing.store(other, files.chatgpt.read([chatgpt()]).conversations[0], "chatgpt")["chats"] == 1


def test_open_webuis_ratings_become_thumbs(own):
    bring(own, [openwebui()])
    said = {one.turn.text: (one.value, one.tags, one.text) for one in Feedback.objects.select_related("turn")}
    assert said == {"Never.": (-1, ["not factually correct", "weather"], "No."), "Yes.": (1, [], "")}
    session = Session.objects.get()
    assert session.archived_at is not None
    assert Turn.objects.get(pk=session.head).text == "Never."


def test_an_imported_reply_teaches_nothing_and_says_why(own, ana):
    bring(own, zipped([chatgpt()], [rating("a2")]))
    turn = Turn.objects.get(text="Water that falls.")
    assert sample_rows.unfit(turn) == Reason.IMPORTED
    assert not Turn.objects.trainable().exists()
    told = ledger.why(turn)
    assert (told.code, Turn.objects.annotate(code=ledger.CODE).get(pk=turn.pk).code) == ("imported", "imported")
    assert journey(turn).label == "imported"
    assert "Another model wrote this reply" in barred(turn)
    # No verdict is due of what was brought along; one of a thumb that is given here says the same.
    assert not Turn.objects.filter(status=Turn.Status.OBSERVED).exists()
    Feedback.objects.give(turn, by=ana, kind="thumb", value=-1)
    turn.refresh_from_db()
    assert (turn.status, sample_rows.unfit(turn)) == (Turn.Status.OBSERVED, Reason.IMPORTED)


def test_a_long_import_goes_on_in_a_worker_and_stores_each_chat_once(own, monkeypatch):
    monkeypatch.setattr(importing, "AT_ONCE", 2)
    row = bring(own, [chatgpt(f"c{n}") for n in range(5)])
    assert (row.status, row.done) == ("asked", 2)
    text = own.get(f"/chats/import/{row.pk}/", headers={"HX-Request": "true"}).content.decode()
    assert "2 of 5 chats are looked at." in text
    assert "every 1s" in text
    assert any(arrow.model is Import and arrow.status == "asked" for arrow in pipeline.ARROWS)
    stale = Import.objects.get()  # two workers begin at the same place
    importing.go_on(row)
    importing.go_on(stale)
    row.refresh_from_db()
    assert (row.status, row.done, row.stored["chats"], Session.objects.count()) == ("done", 5, 5, 5)


def test_a_file_that_went_is_said_and_one_without_a_yes_is_dropped(own):
    row = Import.objects.get(pk=upload(own, [chatgpt()]).url.split("/")[3])
    Import.objects.update(created_at="2020-01-01T00:00:00Z")
    importing.clear()
    row.refresh_from_db()
    assert (row.status, row.file.exists()) == ("failed", False)
    orphan = row.folder() / "orphan"
    orphan.write_text("words")
    os.utime(orphan, (0, 0))
    row = Import.objects.get(pk=upload(own, [chatgpt("c2")]).url.split("/")[3])
    importing.clear()
    assert (orphan.exists(), row.file.exists()) == (False, True)
    row.file.unlink()
    own.post(f"/chats/import/{row.pk}/start/")
    row.refresh_from_db()
    assert (row.status, row.error) == ("failed", "The file is gone: upload it once more.")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [(b"", " is empty."), (b"x", "no JSON"), (b"[]", "There is no chat"), (b'{"mapping": {}}', "no chat")],
)
def test_a_refused_file_says_why_and_leaves_nothing(own, data, sentence, tmp_path):
    answer = upload(own, data)
    assert (answer.status_code, sentence in answer.content.decode()) == (422, True)
    assert not Import.objects.exists()
    assert not [one for one in tmp_path.rglob("*") if one.is_file()]


def test_another_persons_import_and_chat_are_out_of_reach(own, ana):
    ben = get_user_model().objects.create_user("ben")
    row, session = Import.objects.create(user=ben, kind="chatgpt"), Session.objects.create(user=ben, title="Secret")
    assert own.get(f"/chats/import/{row.pk}/").status_code == 404
    assert own.post(f"/chats/import/{row.pk}/start/").status_code == 404
    for ending in ("md", "json"):
        assert own.get(f"/chats/{session.pk}/export.{ending}").status_code == 404


def test_our_own_export_comes_back_as_it_was(own, ana):
    bring(own, zipped([chatgpt()], [rating("a2", text="Good one.", tags=["clear"])]))
    session, turn = Session.objects.get(), Turn.objects.get(text="Water that falls.")
    Feedback.objects.create(turn=turn, by=ana, kind="rewrite", text="Water from clouds.")
    Feedback.objects.create(turn=turn, by=ana, kind="guidance", text="Be brief.", wish="Be brief, always.")
    Feedback.objects.create(turn=turn, by=ana, kind="marks", spans=[[0, 5, 1], [6, 10, -1]])
    answer = own.get(f"/chats/{session.pk}/export.json")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="rain-b-snow-b.json"'
    # While the chat is here it is known by its own number.
    assert bring(own, answer.content).stored == {"known": 1}
    session.delete()
    row = bring(own, answer.content)
    assert row.stored == {"chats": 1, "messages": 3, "thumbs": 1, "corrections": 3}
    back = Session.objects.get()
    assert without_numbers(chat_files.as_json(back)) == without_numbers(answer.content)


def without_numbers(data: bytes) -> object:
    """A file without the numbers and moments of its rows: which turn follows which is told by places."""
    chat = json.loads(data)["chats"][0]
    places = {turn["id"]: place for place, turn in enumerate(chat["turns"])}
    told = [
        {name: turn[name] for name in ("said", "reply", "model", "created_at")}
        | {"follows": places.get(turn["follows"]), "feedback": sorted(turn["feedback"], key=lambda one: one["kind"])}
        for turn in chat["turns"]
    ]
    kept = {name: chat[name] for name in ("title", "created_at", "active_at", "archived", "pinned")}
    return kept, places.get(chat["shown"]), told


def test_delete_mine_takes_files_and_folders_along(own, ana):
    row = Import.objects.get(pk=upload(own, [chatgpt()]).url.split("/")[3])
    Folder.objects.create(user=ana, name="Work")
    erasures.ask(ana, revokes_keys=False)
    assert (row.file.exists(), Folder.objects.exists()) == (False, False)


def test_markdown_tells_the_branch_that_is_shown(own):
    bring(own, zipped([chatgpt()], [rating("a2", text="Good one.", tags=["clear"])]))
    text = own.get(f"/chats/{Session.objects.get().pk}/export.md").content.decode()
    assert text.startswith("# Rain & <b>snow</b>\n")
    assert "## You\n\nWhat is **rain**?\n\n## gpt-4o\n\nWater that falls.\n\n> 👍 clear Good one.\n\n## You\n\n" in text
    assert "Water.\n" not in text


def test_a_long_chat_keeps_the_newest_of_what_was_said_before():
    from datetime import UTC, datetime

    from chat.imports.conversations import Exchange

    line = [Exchange(str(n), str(n - 1) if n else None, "q" * 500, "a" * 500) for n in range(100)]
    made = importing._make_turns(Session(), line, "chatgpt", datetime(2026, 1, 1, tzinfo=UTC))
    # 30 exchanges of 1,000 characters fit, and the question itself: 61 messages.
    assert [len(turn.messages) for turn in made.values()][-1] == 61
    assert made["99"].messages[0]["role"] == "user"


def test_the_pages_ask_little(own):
    bring(own, [chatgpt(f"c{n}") for n in range(30)])
    for url in ("/chats/import/", f"/chats/import/{Import.objects.get().pk}/"):
        with CaptureQueriesContext(connection) as asked:
            own.get(url)
        assert len(asked) <= 12
