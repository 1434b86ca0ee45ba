"""Which hints say the same, and which ask for opposite things."""

from __future__ import annotations

import time
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.hints import hint_words
from judge.hints.likeness import alike, conflicts, groups, of_a_kind, opposed

SAID = {
    ("length", "short"): (
        "Keep it short.",
        "Use fewer words.",
        "Be more concise, please.",
        "Your answers are too long.",
        "Don't make it so long.",
        "One sentence is enough.",
        "Answer in at most 20 words.",
        "No more than three sentences, please.",
        "Get to the point.",
        "Less text, please!",
        "Please keep the reply to a single sentence.",
    ),
    ("length", "long"): (
        "Explain it in more detail.",
        "That was not detailed enough.",
        "Write at least 200 words.",
        "Give a longer answer.",
        "Elaborate, please.",
        "Don't be brief.",
        "Too short!",
    ),
    ("lists or prose", "list"): (
        "Use bullet points.",
        "Give it to me as a list.",
        "Answer with a numbered list next time.",
        "I prefer lists.",
        "Don't avoid bullet points.",
    ),
    ("lists or prose", "prose"): (
        "No lists.",
        "Don't use lists",
        "dont use bullet points!!",
        "Write without lists.",
        "Stop with the lists.",
        "Stop using bullet points, please.",
        "I don't want lists.",
        "I do not want you to use lists.",
        "Too many bullets.",
        "Lists are not needed.",
        "Never use a list again.",
        "Avoid bullets.",
        "Write prose instead of lists.",
        "Instead of lists, write prose.",
        "Enough with the lists!",
        "Please use whole paragraphs rather than bullets.",
        "No longer use lists.",
        "I'm tired of bullet points.",
    ),
    ("tone", "formal"): ("Be more formal.", "Write formally.", "It was too casual.", "Don't be so informal."),
    ("tone", "casual"): ("Be less formal.", "Too formal!", "Don't be so formal.", "A chatty tone, please."),
    ("how technical", "simple"): (
        "Use plain language.",
        "Explain it in simple words.",
        "No jargon.",
        "That is too technical.",
        "Explain it for a child.",
    ),
    ("how technical", "technical"): ("Be more technical.", "Write it for experts.", "Don't be so simple."),
    ("code", "with"): ("Include a code example.", "Show code.", "Don't leave out the code."),
    ("code", "without"): ("No code, please.", "Leave out the code.", "No code needed.", "Stop giving me code."),
    ("examples", "with"): ("Give an example.", "More examples, please.", "There were not enough examples."),
    ("examples", "without"): ("Skip the examples.", "Without examples.", "I don't need examples."),
    ("emojis", "with"): ("Use emojis.", "Add an emoji or two."),
    ("emojis", "without"): ("No emojis!", "Drop the emojis.", "I hate emojis.", "Stop using emoticons."),
    ("bold", "without"): ("Don't use bold text.", "No bold.", "Never write in bold."),
    ("bold", "with"): ("Put the names in bold.", "Use bold type for it."),
    ("greeting", "without"): ("No greetings.", "Skip the pleasantries.", "Don't greet me."),
    ("greeting", "with"): ("Start with a greeting.", "Begin with a greeting, please."),
    ("questions back", "with"): ("Ask a clarifying question first.", "Ask me back when it is unclear."),
    ("questions back", "without"): (
        "Don't ask me questions.",
        "Do not end with a question.",
        "No follow-up questions.",
    ),
    ("steps or answer", "steps"): ("Show your working.", "Explain it step by step.", "Don't skip the steps."),
    ("steps or answer", "answer only"): ("Just give the final answer.", "Only the result, please.", "The answer only."),
    ("units", "metric"): ("Use metric units.", "Say it in kilometres.", "Answer in Celsius."),
    ("units", "imperial"): ("Use imperial units.", "Say it in miles.", "Answer in Fahrenheit."),
    ("language", "german"): ("Answer in German.", "Write in german, please.", "German please."),
    ("language", "french"): ("Reply in French.", "Switch to French next time."),
    ("spelling", "british"): ("Use British spelling.",),
    ("spelling", "american"): ("Use American spelling.",),
}
EVERY = [(axis, way, text) for (axis, way), texts in SAID.items() for text in texts]


SAME = [(one, other) for texts in SAID.values() for one, other in combinations(texts, 2)]
OPPOSITES = [
    (one, other)
    for axis in sorted({axis for axis, _ in SAID})
    for (_, texts), (_, others) in combinations([item for item in SAID.items() if item[0][0] == axis], 2)
    for one in texts
    for other in others
]


def test_no_two_wordings_of_one_wish_are_said_to_contradict_each_other():
    assert [(one, other) for one, other in SAME if opposed(one, other)] == []


def test_most_opposites_are_noted_and_none_is_alike():
    # 210 of the 270; of the others most name an amount ("One sentence is enough.") or a language.
    assert len(OPPOSITES) == 270
    assert sum(opposed(one, other) for one, other in OPPOSITES) >= 210
    assert not any(alike(one, other) or of_a_kind(one, other) for one, other in OPPOSITES)


def test_more_than_half_of_the_wordings_of_one_wish_are_of_a_kind():
    assert len(SAME) == 314
    assert sum(of_a_kind(one, other) for one, other in SAME) > 157  # half of them


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Keep it short.", "keep it short!"),
        ("Keep it short.", "  Keep  it\nshort "),
        ("Don't use lists.", "Don’t use lists."),
        ("Schreib auf Deutsch.", "schreib auf deutsch"),
    ],
)
def test_equal_words_are_alike_whatever_their_case_blanks_and_end_marks(one, other):
    assert alike(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Keep it short.", "Please use fewer words next time."),  # the same, and yet not surely so
        ("Mention the price in euros.", "Mention the prices in euros."),
        ("Keep it short.", "Not too short, please."),
        ("Answer in one sentence.", "Answer in two sentences."),
        ("Mention Austria.", "Mention Australia."),
        ("No, use emojis.", "No use emojis."),
        ("Use Java.", "Use JavaScript."),
        ("Write it in C.", "Write it in C++."),
        ("Include the tests.", "Exclude the tests."),
        ("Use at most 20 words.", "Use at most 200 words."),
        ("Round to 1.5.", "Round to 15."),
        ("Kurz, bitte.", "Lang, bitte."),
        (hint_words.worded(rewrite="Paris."), hint_words.worded(rewrite="Lyon.")),
        ("?", "!"),
        ("", "!"),
    ],
)
def test_what_is_not_surely_equal_is_not_alike(one, other):
    assert not alike(one, other)
    assert not alike(other, one)


def test_a_rewrite_contradicts_nothing():
    assert opposed("Write the reply as a bulleted list.", "No lists.")
    assert not opposed(hint_words.worded(rewrite="Write the reply as a bulleted list."), "No lists.")


def test_a_conflict_is_a_sentence_that_names_the_other():
    found = conflicts("Use bullet points.", [(7, "No lists, please."), (8, "Keep it short.")])
    assert found == [{"hint": 7, "sentence": "It asks for the opposite of “No lists, please.”."}]


@pytest.mark.parametrize("text", ["", " ", "?!", "x" * 5000, "no " * 2000, "a, " * 2000, "." * 9000 + "x", "🙂"])
def test_any_text_is_compared_in_no_time(text):
    start = time.thread_time()
    assert alike(text, text)
    assert not opposed(text, "No lists.")
    assert time.thread_time() - start < 2  # seconds of work, however busy the machine is


PHRASE = st.sampled_from([text for texts in SAID.values() for text in texts])
ANY = st.one_of(st.text(max_size=80), PHRASE, st.lists(PHRASE, min_size=2, max_size=3).map(" ".join))


@given(ANY, ANY)
def test_likeness_and_contradiction_go_both_ways_and_exclude_each_other(one, other):
    assert alike(one, one)
    assert not opposed(one, one)
    assert alike(one, other) == alike(other, one)
    assert opposed(one, other) == opposed(other, one)
    assert not (alike(one, other) and opposed(one, other))


@given(st.lists(ANY, max_size=8))
def test_groups_hold_every_text_once(texts):
    found = groups(texts)
    assert sorted(place for group in found for place in group) == list(range(len(texts)))
    assert [group[0] for group in found] == sorted(group[0] for group in found)
