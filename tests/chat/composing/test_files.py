"""Files with a message: text goes in as a fenced part with its name, and folds up on the page; the rest is refused."""

from __future__ import annotations

import uuid

import pytest
from asgiref.sync import sync_to_async
from django.core.files.uploadedfile import SimpleUploadedFile

from chat.composing.files import TextFile, split_files, with_files
from chat.models import Turn
from tests.chat.conftest import until

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

CSV = "name,age\nana,7\n"


def file(name: str = "people.csv", content: bytes = CSV.encode(), kind: str = "text/csv") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content, kind)


@pytest.fixture
def send(page, session):
    async def message(*files: SimpleUploadedFile, text: str = "Who is oldest?", to: str = ""):
        said = {"text": text, "message_id": str(uuid.uuid4()), "attached": list(files)}
        answer = await page.post(to or f"/chats/{session.pk}/say/", said, headers={"HX-Request": "true"})

        async def is_over() -> bool:
            return not await Turn.objects.filter(status="answering").aexists()

        await until(is_over, "the reply")
        return answer

    return message


async def test_a_file_is_a_fenced_part_of_the_message_with_its_name(send, engine, session):
    assert (await send(file())).status_code == 200
    turn = await session.turns.aget()
    said = "Who is oldest?\n\nFile: people.csv\n```csv\nname,age\nana,7\n```"
    assert turn.messages == [{"role": "user", "content": said}]
    assert said in engine.asked("stream")[0].prompt
    await session.arefresh_from_db()
    assert session.title == "Who is oldest?"


async def test_it_is_folded_on_the_page_and_brought_when_it_is_opened(send, page, engine, session, htmx):
    await send(file(), file("notes.md", b"# Notes\n```\ncode\n```\n<script>alert(1)</script>", "text/markdown"))
    turn = await session.turns.aget()
    html = (await page.get(f"/chats/{session.pk}/")).content.decode()
    assert "ana,7" not in html
    assert '<span class="quiet small">2 lines</span>' in html
    assert 'data-said="Who is oldest?"' in html
    first = (await page.get(f"/turns/{turn.pk}/files/0/", headers=htmx)).content.decode()
    assert "name,age\nana,7" in first
    second = (await page.get(f"/turns/{turn.pk}/files/1/", headers=htmx)).content.decode()
    assert "&lt;script&gt;" in second
    plain = await page.get(f"/turns/{turn.pk}/files/1/")  # without scripts
    assert plain["Content-Type"] == "text/plain; charset=utf-8"
    assert (await page.get(f"/turns/{turn.pk}/files/2/")).status_code == 404


async def test_other_peoples_files_are_not_there(send, async_client, ben, engine, session):
    await send(file())
    turn = await session.turns.aget()
    await sync_to_async(async_client.force_login)(ben)
    assert (await async_client.get(f"/turns/{turn.pk}/files/0/")).status_code == 404


async def test_other_words_for_a_message_leave_its_files(send, page, engine, session):
    await send(file())
    turn = await session.turns.aget()
    html = (await page.get(f"/chats/{session.pk}/")).content.decode()
    assert ">Who is oldest?</textarea>" in html
    await page.post(f"/turns/{turn.pk}/edit/", {"text": "Who is youngest?"})
    edited = await session.turns.aget(position=1)
    assert edited.messages[-1]["content"] == with_files("Who is youngest?", [TextFile("people.csv", CSV)])


async def test_a_chat_begins_with_a_file(send, engine, ana):
    assert (await send(file(), to="/chats/")).status_code == 200
    assert "File: people.csv" in (await Turn.objects.aget()).messages[0]["content"]


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        (file("cat.png", b"\x89PNG", "image/png"), "cat.png: this model cannot see pictures. Say in words what"),
        (file("photo", b"\xff\xd8", "image/jpeg"), "photo: this model cannot see pictures."),
        (file("book.pdf", b"%PDF", "application/pdf"), "book.pdf: only text can be read here"),
        (file("big.txt", b"x" * 200_001), "big.txt has 200 kB; a file may have at most 200 kB."),
        (file("old.txt", "grün".encode("latin-1")), "old.txt is not text in UTF-8"),
        (file("raw.txt", b"a\0b"), "raw.txt is not text in UTF-8"),
        (file("none.txt", b" \n"), "none.txt is empty."),
    ],
    ids=lambda one: getattr(one, "name", ""),
)  # fmt: skip
async def test_what_cannot_be_read_is_refused_with_a_sentence_and_nothing_is_stored(send, session, sent, sentence):
    answer = await send(sent)
    assert (answer.status_code, sentence in answer.content.decode()) == (422, True)
    assert not await Turn.objects.aexists()


async def test_a_message_takes_so_many_files_and_no_more(send, session):
    answer = await send(*(file(f"{n}.txt", b"x") for n in range(6)))
    assert "A message takes at most 5 files; these are 6." in answer.content.decode()


async def test_a_file_that_fills_the_window_says_so(send, session):
    answer = await send(file("long.txt", b"word " * 30_000))
    assert answer.status_code == 400
    assert "maximum context length" in answer.content.decode()


@pytest.mark.parametrize(
    "files",
    [
        [TextFile("a.md", "```\ninner\n```\n")],
        [TextFile("a.md", "````x\n````\n"), TextFile("b.txt", "File: c.txt\n```\nno\n```\n")],
        [TextFile("Makefile", "all:\n\ttrue\n"), TextFile("empty lines.txt", "\n\nx\n\n")],
    ],
    ids=["fences", "several", "blanks"],
)
def test_what_is_in_a_file_never_ends_it(files):
    words, found = split_files(with_files("Look.", files))
    assert words == "Look."
    assert [(one.name, one.text.rstrip("\n")) for one in found] == [(one.name, one.text.rstrip("\n")) for one in files]


@pytest.mark.parametrize("words", ["File: x", "```\ncode\n```", "See File: a.txt\n```\nx\n```", "a\n\nFile: b\n```\nc"])
def test_words_that_hold_no_file_stay_words(words):
    assert split_files(words) == (words, [])
