"""What rows keep in English is said in the reader's language: the application's own sentences, and no person's."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils import translation
from django.utils.translation import trans_real

from checkpoints import notices, rulings
from checkpoints.models import Checkpoint
from gate import findings
from gate.models import Examination
from tests.webapp.conftest import text_of, unfolded
from training.provenance import taints
from webapp.serving import retold

SENTENCES = [sentence for says in retold.SAYS for sentence in says.values()]


@pytest.fixture
def german(monkeypatch):
    """Puts sentences into the German catalogue: each the same in « »."""
    known = trans_real.translation("de")._catalog._catalogs[0]
    for sentence in [*SENTENCES, "rejected"]:
        monkeypatch.setitem(known, sentence, f"«{sentence}»")


class Numbers(dict):
    """A value for each name that a sentence asks for: "12 %"."""

    def __missing__(self, name):
        return "12 %"


@pytest.mark.parametrize("sentence", SENTENCES)
def test_retold_finds_each_sentence_with_its_values_between_a_persons_words(german, sentence):
    said = sentence % Numbers()
    with translation.override("de"):
        # What stands before and after is not known, and stays as it is.
        assert retold.retold(f"Not now! {said} It was late. {said}") == f"Not now! «{said}» It was late. «{said}»"
    with translation.override("en"):
        assert retold.retold(said) == said


def test_retold_keeps_the_sentences_apart(german):
    copied = findings.SAYS["repetition"] % {"now": "90%", "live": "2%"}
    gone = rulings.SAYS["gone back"] % {"checkpoint": "talkback@3", "live": "talkback@2"}
    with translation.override("de"):
        assert retold.retold(f"{gone} {copied} {copied}") == f"«{gone}» «{copied}» «{copied}»"


def test_retold_an_exam_is_read_in_german_and_kept_in_english(german, console, make_checkpoint):
    candidate = make_checkpoint(1, "rejected")
    said = findings.SAYS["not empty"] % {"now": "25%", "live": "0%"}
    Checkpoint.objects.filter(pk=candidate.pk).update(reason=f"{said} Ask ana.")
    check = {"name": "not empty", "passed": False, "value": 0.25, "limit": 0.1, "sentence": said, "worst": []}
    exam, _ = Examination.objects.update_or_create(
        checkpoint=candidate, defaults={"against": Checkpoint.live(), "checks": [check], "passed": False}
    )

    asked = {"headers": {"Accept-Language": "de"}}
    assert f"«{said}»" in unfolded(console, 1, **asked)
    listed = text_of(console.get(reverse("console:checkpoints"), **asked))
    # The list shows why in 90 characters: the sentence with its « » has 58.
    assert f"«{said}» Ask ana." in listed
    assert "«rejected»" in listed
    assert f"{said} Ask ana." in text_of(console.get(reverse("console:checkpoints")))
    exam.refresh_from_db()
    assert exam.checks[0]["sentence"] == said


@pytest.mark.parametrize(("replies", "german"), [(1, "Was aus einer Antwort"), (2, "Was aus 2 Antworten")])
def test_retold_a_notice_of_what_was_taken_back_is_read_in_german(console, replies, german):
    said = taints.SAYS["one" if replies == 1 else "many"] % {"n": replies, "names": "talkback@2, talkback@1"}
    notices.tell("taint shared", f"{said} {taints.SAYS['then']}")
    page = text_of(console.get(reverse("console:board"), headers={"Accept-Language": "de"}))
    rest = "gelernt wurde, ist zurückgenommen und steckt noch in den Gewichten von talkback@2, talkback@1."
    assert f"{german} {rest} Unter „Verlernen“ lernt die Linie neu, ohne dies." in page


def test_keys_that_open_the_api_are_no_keys_of_a_keyboard(console):
    page = text_of(console.get(reverse("connect:keys"), headers={"Accept-Language": "de"}))
    assert "<h1>Schlüssel</h1>" in page
