"""Threads: what was written to come back after one reply is labelled soundly and stays in its split."""

from __future__ import annotations

import re

import pytest

from curriculum import threads
from curriculum.threads import Thread, parsed
from judge import hints
from tests.curriculum.test_phrasings import plain

SPLITS = ("train", "dev", "heldout")
ROLES = ("user", "tool", "environment")


def every(split: str) -> list[Thread]:
    return [thread for role in ROLES for thread in threads.written(split, role)]


def test_no_thread_of_one_split_has_a_line_of_another():
    """Neither a request, nor a reply, nor what a person says; tools fail in the same words everywhere."""
    said = {
        split: {
            plain(text)
            for thread in every(split)
            for text in (
                thread.request,
                thread.reply,
                *(line.text for line in thread.lines if thread.role == "user"),
            )
        }
        for split in SPLITS
    }

    assert not said["train"] & said["heldout"]
    assert not said["train"] & said["dev"]
    assert not said["dev"] & said["heldout"]


@pytest.mark.parametrize("split", SPLITS)
def test_every_hint_of_a_thread_is_of_use(split):
    for thread in every(split):
        for line in thread.of("own"):
            assert not hints.fault(line.hint, thread.reply), line
            assert re.fullmatch(r"[^\[\]\n]{10,160}", line.hint), line


@pytest.mark.parametrize("split", SPLITS)
def test_every_thread_of_a_person_goes_on_and_can_be_asked_again(split):
    for thread in threads.written(split):
        assert thread.of("onward"), thread.request
        assert thread.of("again"), thread.request
        assert {line.kind for line in thread.lines} >= {"builds", "wrong", "own", "unsure"}, thread.request


def test_there_are_many_threads_in_many_languages():
    languages = {thread.language for thread in threads.written("train")}

    assert len(threads.written("train")) >= 100
    assert len(threads.written("heldout")) >= 15
    assert len(threads.written("train", "tool")) >= 30
    assert languages >= {"en", "de", "fr", "es", "it", "nl", "pt", "pl"}


def test_silence_says_nothing_of_an_action():
    silent = [line for split in SPLITS for thread in every(split) for line in thread.lines if not line.text]

    assert len(silent) > 20
    assert {threads.SCORES[line.kind] for line in silent} == {0}


@pytest.mark.parametrize("block", ["Q a\nA b", "Q a\nA b\n* c", "Q a\nA b\n! c", "Q a\nA b\n+ c => d", "A b\n+ c"])
def test_a_block_that_is_no_thread_is_refused(block):
    with pytest.raises(ValueError, match=r"thread|mark|hint"):
        list(parsed(block))
