"""Other programs' exports, as they are read: trees, thumbs, what is left out, and what is refused."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from datetime import UTC, datetime

import pytest

from chat.imports import files
from chat.imports.conversations import ImportRefused, Node, moment, read_tree
from tests.chat.imports.exports import chatgpt, node, openwebui, rating, zipped


@pytest.fixture
def read(tmp_path):
    def read(data):
        path = tmp_path / "given"
        path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
        return files.read(path)

    return read


def told(chat):
    return [(one.id, one.after, one.said, one.reply) for one in chat.exchanges]


def test_a_tree_of_chatgpts_becomes_exchanges_with_its_branches(read):
    found = read([chatgpt()])
    (chat,) = found.conversations
    assert told(chat) == [
        ("a1", None, "What is **rain**?", "Water."),
        ("a2", None, "What is **rain**?", "Water that falls."),
        ("a3", "a2", "And <script>alert(1)</script> snow?", "Frozen water."),
    ]
    assert (chat.id, chat.shown, chat.exchanges[0].model) == ("c1", "a3", "gpt-4o")
    assert chat.begun == datetime.fromtimestamp(1_700_000_000, UTC)
    assert found.skipped == {"tools": 2}


def test_thumbs_come_with_the_zip_and_those_on_nothing_are_counted(read):
    found = read(
        zipped(
            [chatgpt()],
            [rating("a2", text="Good one.", tags=["clear"]), rating("a1", "thumbsDown"), rating("elsewhere")],
        )
    )
    first, second, _ = found.conversations[0].exchanges
    assert (first.given[0].value, second.given[0].value, second.given[0].text) == (-1, 1, "Good one.")
    assert second.given[0].tags == ("clear",)
    assert found.skipped["thumbs"] == 1
    assert found.summed_up()["thumbs"] == 2


def test_pictures_messages_without_a_reply_and_broken_entries_are_counted(read):
    picture = {"content_type": "multimodal_text", "parts": [{"asset_pointer": "file-service://x"}, "What is this?"]}
    nodes = [node("q", None, "user", picture), node("a", "q", "assistant", "A cat."), node("q2", "a", "user", "Sure?")]
    found = read([chatgpt("c2", nodes), {"mapping": 7}, "x", chatgpt("c3", [node("only", None, "user", "Hello?")])])
    assert [told(chat) for chat in found.conversations] == [[("a", None, "What is this?", "A cat.")]]
    assert found.skipped == {"pictures": 1, "unanswered": 2, "broken": 2, "empty": 1}


def test_open_webuis_export_is_read_with_its_ratings(read):
    found = read([openwebui()])
    (chat,) = found.conversations
    assert told(chat) == [("r1", None, "Is it wet?", "Never."), ("r2", None, "Is it wet?", "Yes.")]
    down, up = (one.given[0] for one in chat.exchanges)
    assert (down.value, down.text, down.tags) == (-1, "No.", ("not factually correct", "weather"))
    assert (up.value, up.text, up.tags) == (1, "", ())
    assert (chat.shown, chat.is_archived, found.kind) == ("r1", True, "openwebui")
    assert found.skipped == {"unanswered": 1}


def test_a_tree_that_bites_its_tail_ends_and_a_deep_one_is_read():
    circle = {"a": Node("a", "b", "user", "x"), "b": Node("b", "a", "assistant", "y")}
    assert read_tree(circle, Counter()) == ([], {})
    line = {"0": Node("0", None, "user", "q")}
    for n in range(1, 6000):
        line[str(n)] = Node(str(n), str(n - 1), "user" if n % 2 == 0 else "assistant", "w")
    exchanges, _ = read_tree(line, Counter())
    assert len(exchanges) == 3000


@pytest.mark.parametrize(
    ("given", "year"),
    [(1_700_000_000, 2023), (1_700_000_000_000, 2023), (1.7e18, 2023), ("2023-11-14T22:13:20Z", 2023), (-1, None),
     (True, None), ("soon", None), (None, None), (float("nan"), None)],
)  # fmt: skip
def test_moments_are_read_in_every_unit(given, year):
    assert getattr(moment(given), "year", None) == year


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "no JSON"),
        (b"<html>", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no chat in this file"),
        (b'{"a": 1}', "none of the files that can be imported"),
        (b"[1, 2]", "none of the files that can be imported"),
        (zipped({"not": "a list"}), "is not a list"),
        (zipped([chatgpt()])[:-40], "no JSON"),
    ],
)
def test_a_file_that_is_none_is_refused_in_a_sentence(read, data, sentence):
    with pytest.raises(ImportRefused, match=sentence):
        read(data)


def test_a_zip_without_chats_and_a_locked_one_are_refused(read, tmp_path):
    path = tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("photos.json", "[]")
    with pytest.raises(ImportRefused, match=r"holds no conversations\.json"):
        files.read(path)
    locked = bytearray(zipped([chatgpt()]))
    for mark in (b"PK\x03\x04", b"PK\x01\x02"):  # the flag that says "encrypted", in both headers
        at = locked.find(mark)
        locked[at + (6 if mark[2] == 3 else 8)] |= 1
    with pytest.raises(ImportRefused, match="locked with a password"):
        read(bytes(locked))


def test_what_is_too_large_is_refused_before_it_is_read(read, monkeypatch):
    monkeypatch.setattr(files, "LARGEST", 2000)
    with pytest.raises(ImportRefused, match="larger than 100 MB"):
        read(b" " * 2001)


@pytest.mark.parametrize("lies", [False, True])
def test_a_zip_bomb_is_refused_whatever_it_says_of_its_size(read, monkeypatch, lies):
    monkeypatch.setattr(files, "LARGEST", 100_000)
    bomb = zipped(["x" * 50_000_000])
    assert len(bomb) < 100_000
    if lies:  # the central directory says 1000 bytes
        at = bomb.find(b"PK\x01\x02") + 24
        bomb = bomb[:at] + (1000).to_bytes(4, "little") + bomb[at + 4 :]
    with pytest.raises(ImportRefused, match=r"unpacks to more than 100 MB|damaged"):
        read(bomb)


def test_replies_between_which_tools_answered_are_one_exchange(read):
    def turn(pk, follows, said, reply, **more):
        return {"id": pk, "follows": follows, "said": said, "reply": reply, **more}

    call = [{"name": "price", "arguments": "{}", "result": "4"}]
    mark = [{"kind": "marks", "spans": [[0, 2, 1]]}]
    turns = [
        turn("1", None, "What is bread?", "I look.", calls=call),
        turn("2", "1", "", "", calls=call),
        turn("3", "2", "", "It costs 4.", feedback=mark),
        turn("4", "2", "", "Four."),
        turn("5", "3", "And milk?", "", calls=call),  # its person wrote on without an answer
        turn("6", "5", "Never mind.", "Well."),
    ]
    found = read({"object": "talkback.chats", "version": 1, "chats": [{"id": "c", "turns": turns}]})
    (chat,) = found.conversations
    assert told(chat) == [
        ("3", None, "What is bread?", "I look.\n\nIt costs 4."),
        ("4", None, "What is bread?", "I look.\n\nFour."),
        ("6", "3", "Never mind.", "Well."),
    ]
    # "It" begins at 9: behind the seven characters of "I look." and two line ends.
    assert chat.exchanges[0].given[0].spans == ((9, 11, 1),)
    assert found.skipped == {"tools": 3, "unanswered": 1}
