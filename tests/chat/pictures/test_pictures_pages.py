"""Pictures on pages: sent with a message, shown to their owner alone, kept through an edit and another try."""

from __future__ import annotations

import json
import os
import uuid
from base64 import b64encode
from hashlib import sha256

import pytest
from asgiref.sync import sync_to_async
from django.core.files.uploadedfile import SimpleUploadedFile

from chat.composing.files import read_seen
from chat.imports import talkback
from chat.models import Turn
from chat.pictures import keeping
from chat.pictures.picture import MOST_BYTES
from evaluation.datasets.cleaning import NotARow, words_alone
from feedback import chat_files
from judge.samples.sample_rows import Reason
from judge.votes import evidence
from tests.chat.conftest import until
from tests.chat.pictures.samples import SVG, data_url, png
from webapp.journeys.known import journey
from webapp.journeys.verdict_words import unlearned

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


def file(name: str = "cat.png", content: bytes = b"", kind: str = "image/png") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content or png(), kind)


async def over() -> bool:
    return not await Turn.objects.filter(status="answering").aexists()


@pytest.fixture
def send(page, session, sglang):
    async def message(*files: SimpleUploadedFile, text: str = "What is it?"):
        said = {"text": text, "message_id": str(uuid.uuid4()), "attached": list(files)}
        answer = await page.post(f"/chats/{session.pk}/say/", said, headers={"HX-Request": "true"})
        await until(over, "the reply")
        return answer

    return message


async def test_a_picture_is_shown_to_the_model_and_stays_in_the_history(send, session, sglang):
    notes = SimpleUploadedFile("a.txt", b"words", "text/plain")
    assert (await send(file(), notes)).status_code == 200
    await send(text="And now?")
    assert [call["image_data"] for call in sglang.calls] == [[data_url(png())]] * 2
    turn = await session.turns.aget(position=0)
    assert turn.messages[0]["content"] == "What is it?\n\nFile: a.txt\n```txt\nwords\n```"
    assert turn.status == Turn.Status.OBSERVED


async def test_the_page_shows_it_with_its_size_and_says_that_it_does_not_train(send, page, session):
    await send(file())
    turn = await session.turns.select_related("session").aget()
    address = f"/turns/{turn.pk}/pictures/{turn.messages[0]['pictures'][0]['digest']}/"
    html = (await page.get(f"/chats/{session.pk}/")).content.decode()
    assert f'<img src="{address}" width="3" height="2" loading="lazy" alt="Picture 1, 3 by 2 pixels">' in html
    answer = await page.get(address)
    assert (answer.content, answer["Content-Type"], answer["X-Content-Type-Options"]) == (png(), "image/png", "nosniff")
    assert "no-store" in answer["Cache-Control"]
    assert (await page.get(f"/turns/{turn.pk}/pictures/{'0' * 64}/")).status_code == 404
    told = await sync_to_async(journey)(turn)
    assert (told.label, told.detail) == ("holds a picture", unlearned(Reason.PICTURE))


async def test_no_other_person_sees_it(send, async_client, ben, session):
    await send(file())
    turn = await session.turns.aget()
    address = f"/turns/{turn.pk}/pictures/{turn.messages[0]['pictures'][0]['digest']}/"
    await sync_to_async(async_client.force_login)(ben)
    assert (await async_client.get(address)).status_code == 404
    await sync_to_async(async_client.logout)()
    assert (await async_client.get(address)).status_code == 302


async def test_other_words_and_another_try_keep_the_picture(send, page, session, sglang):
    await send(file())
    turn = await session.turns.aget()
    await page.post(f"/turns/{turn.pk}/edit/", {"text": "And its colour?"})
    await until(over, "the reply")
    await page.post(f"/turns/{turn.pk}/again/")
    await until(over, "the reply")
    assert [call["image_data"] for call in sglang.calls] == [[data_url(png())]] * 3


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        (file(content=png()[:-5]), "cat.png: This picture is damaged or cut short: save it once more"),
        (file(content=png(said=(9000, 9000))), "cat.png: This picture has 9000 × 9000 pixels"),
        (file("cat.jpg", SVG, "image/jpeg"), "cat.jpg: This is no picture that can be read here"),
        (file("cat.bmp", b"BM123", "image/bmp"), "cat.bmp: This is no picture that can be read here"),
    ],
    ids=["cut", "bomb", "svg", "bmp"],
)
async def test_a_bad_picture_is_refused_in_words(send, kept, sent, sentence):
    answer = await send(sent)
    assert (answer.status_code, sentence in answer.content.decode()) == (422, True)
    assert (await Turn.objects.acount(), kept()) == (0, [])


async def test_the_button_says_what_it_takes_and_why_not_more(page, session, sglang, settings, tiny_model):
    html = (await page.get(f"/chats/{session.pk}/")).content.decode()
    assert 'aria-label="Add pictures or text files"' in html
    settings.MODEL = str(tiny_model)
    html = (await page.get(f"/chats/{session.pk}/")).content.decode()
    assert 'aria-label="Add text files" aria-description="This model reads text only: say in words what is' in html


async def test_a_file_of_the_chat_holds_its_pictures_once(send, page, session, sglang):
    await send(file())
    await send(text="And now?")
    first, second = (await page.get(f"/chats/{session.pk}/export.json")).json()["chats"][0]["turns"]
    assert first["pictures"] == [{"type": "image/png", "width": 3, "height": 2, "data": b64encode(png()).decode()}]
    assert "pictures" not in second
    told = (await page.get(f"/chats/{session.pk}/export.md")).content.decode()
    assert told.count("> image/png, 3 × 2\n") == 1
    digest = (await session.turns.aget(position=0)).messages[0]["pictures"][0]["digest"]
    (keeping.folder(session.pk) / digest).unlink()
    file_ = json.loads(await sync_to_async(chat_files.as_json)(session))
    assert file_["chats"][0]["turns"][0]["pictures"][0]["data"] is None
    # Who imports it is told what was left out.
    assert talkback.read(file_).skipped == {"pictures": 1}


async def test_what_was_said_of_a_reply_to_a_picture_is_no_row_of_words(send, session, sglang):
    await send(file())
    turn = await session.turns.aget()
    with pytest.raises(NotARow, match="it holds tool calls or pictures"):
        words_alone(turn.messages)
    # A judge that does not see reads that there is one.
    assert (await sync_to_async(evidence.of)(turn)).request == (("user", "What is it?\n(picture)"),)


async def test_the_picture_of_the_next_message_is_evidence_too_and_seen_by_its_person_alone(
    send, session, page, async_client, ben, sglang
):
    await send(file())
    await send(file(content=png(4, 4)), text="No, like this.")
    turn = await session.turns.aget(position=0)
    shown = (await sync_to_async(evidence.of)(turn)).pictures
    assert [(one.digest, one.is_after) for one in shown] == [
        (sha256(png()).hexdigest(), False),
        (sha256(png(4, 4)).hexdigest(), True),
    ]
    address = f"/turns/{turn.pk}/pictures/{shown[1].digest}/"
    assert (await page.get(address)).content == png(4, 4)
    await sync_to_async(async_client.force_login)(ben)
    assert (await async_client.get(address)).status_code == 404


async def test_a_cut_reply_to_a_picture_offers_no_rest(send, page, session, sglang):
    await send(file())
    await session.turns.aupdate(finish_reason="length", status=Turn.Status.SERVED)
    html = (await page.get(f"/chats/{session.pk}/")).content.decode()
    assert "Cut off at its length limit." in html
    assert "/continue/" not in html


def test_a_file_that_is_too_large_is_refused_unread(sglang):
    class Large(SimpleUploadedFile):
        def read(self, *count: int) -> bytes:
            raise AssertionError("it was read")

    large = Large("cat.png", b"", "image/png")
    large.size = MOST_BYTES + 1
    with pytest.raises(Exception, match=r"cat.png: This picture has 5.0 MB; one may have at most 5 MB"):
        read_seen(large, "cat.png")


def test_the_sweep_passes_over_what_is_no_conversations(sglang):
    home = keeping.home()
    for name in ("notes", uuid.uuid4().hex):
        (home / name).mkdir(parents=True)
        os.utime(home / name, (1, 1))
    assert (keeping.sweep(), [place.name for place in home.iterdir()]) == (1, ["notes"])


async def test_a_chat_that_is_deleted_takes_its_pictures_at_once(send, session, sglang, monkeypatch, kept):
    await send(file())
    await send(text="And now?")
    dropped: list[object] = []
    monkeypatch.setattr(keeping, "drop_unheld", lambda *said: dropped.append(said))
    await session.adelete()
    assert (kept(), dropped) == ([], [])
