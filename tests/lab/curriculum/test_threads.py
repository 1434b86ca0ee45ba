"""Threads: what was written to come back after one reply is labelled soundly and stays in its split."""

from __future__ import annotations

import re

import pytest

from judge.hints import hint_words
from lab.curriculum import threads
from lab.curriculum.threads import Thread, parsed
from tests.lab.curriculum.test_phrasings import plain

SPLITS = ("train", "dev", "heldout")
ROLES = ("user", "tool", "environment")


def every(split: str) -> list[Thread]:
    return [thread for role in ROLES for thread in threads.written(split, role)]


def test_no_thread_of_one_split_has_a_line_of_another():
    """Neither a request, nor what a person says in three words or more, nor the reply to them. Tools are called and
    fail in the same words everywhere, and "hm" belongs to all."""
    said: dict[str, set[str]] = {split: set() for split in SPLITS}
    for split in SPLITS:
        for thread in every(split):
            lines = [thread.reply, *(line.text for line in thread.lines)] if thread.role == "user" else []
            said[split] |= {
                plain(text) for text in (thread.request, *(line for line in lines if len(line.split()) > 2))
            }

    assert not said["train"] & said["heldout"]
    assert not said["train"] & said["dev"]
    assert not said["dev"] & said["heldout"]


@pytest.mark.parametrize("split", SPLITS)
def test_every_hint_of_a_thread_is_of_use(split):
    for thread in every(split):
        for line in thread.of("own"):
            assert not hint_words.fault(line.hint, thread.reply), line
            assert re.fullmatch(r"[^\[\]\n]{10,160}", line.hint), line


@pytest.mark.parametrize("split", SPLITS)
def test_what_comes_back_after_a_reply_tells_different_things_of_it(split):
    for thread in every(split):
        assert len(thread.lines) >= 4, thread.request
        if thread.role == "user":
            assert len({threads.SCORES[line.kind] for line in thread.lines}) >= 2, thread.request
        else:
            assert not {"onward", "again", "turned"} & {line.kind for line in thread.lines}, thread.request


def test_there_are_many_threads_in_many_languages():
    languages = {thread.language for thread in threads.written("train")}

    assert len(threads.written("train")) >= 800
    assert len(threads.written("heldout")) >= 90
    assert len(threads.written("train", "tool")) >= 250
    assert languages >= {"en", "de", "fr", "es", "it", "nl", "pt", "pl"}


def test_silence_means_what_the_call_makes_of_it():
    """Mostly nothing; an answer where it was the question, and a failure where the call itself kept the answer away."""
    silent = [
        threads.SCORES[line.kind]
        for split in SPLITS
        for role in ("tool", "environment")
        for thread in threads.written(split, role)
        for line in thread.lines
        if line.text in ("", "(no output)")
    ]

    assert len(silent) > 100
    assert silent.count(0) / len(silent) > 0.6
    assert silent.count(1) > 10
    assert silent.count(-1) > 10


@pytest.mark.parametrize("block", ["Q a\nA b", "Q a\nA b\n* c", "Q a\nA b\n! c", "Q a\nA b\n+ c => d", "A b\n+ c"])
def test_a_block_that_is_no_thread_is_refused(block):
    with pytest.raises(ValueError, match=r"thread|mark|hint"):
        list(parsed(block))
