"""What hints ask for: the same in other words, the opposite, and what only looks like either."""

from __future__ import annotations

import time
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge import hints
from judge.likeness import Wish, alike, conflicts, groups, opposed, read

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


@pytest.mark.parametrize(("axis", "way", "text"), EVERY, ids=[text for _, _, text in EVERY])
def test_what_is_asked_for_is_understood_however_it_is_said(axis, way, text):
    assert {(wish.axis, wish.way) for wish in read(text).wishes if wish.axis == axis} == {(axis, way)}


@pytest.mark.parametrize("wish", SAID, ids=[" ".join(wish) for wish in SAID])
def test_the_ways_of_saying_one_thing_never_contradict_each_other(wish):
    for one, other in combinations(SAID[wish], 2):
        assert opposed(one, other) == [], (one, other)


OPPOSITES = [
    (one, other)
    for axis in {axis for axis, _ in SAID}
    for (_, texts), (_, others) in combinations([item for item in SAID.items() if item[0][0] == axis], 2)
    for one in texts
    for other in others
]


def test_every_way_of_saying_one_thing_contradicts_every_way_of_saying_the_other():
    missed = [(one, other) for one, other in OPPOSITES if not opposed(one, other)]
    assert missed == []
    assert len(OPPOSITES) > 250
    assert not any(alike(one, other) for one, other in OPPOSITES)


@pytest.mark.parametrize(
    "text",
    [
        "It works as long as you wait.",
        "In short, say why.",
        "Do long division by hand.",
        "How long does it take?",
        "Mention the short-term costs.",
        "Give the zip code of the town.",
        "Follow the code of conduct.",
        "Say what the exit code means.",
        "Be bold.",
        "Name the city, for example, and the year.",
        "Talk about cities in German history.",
        "Describe Python lists.",
        "Explain list comprehensions.",
        "Name the source code's licence.",
        "You used a list.",
        "Say who wrote it.",
    ],
)
def test_false_friends_ask_for_nothing_of_the_kind(text):
    assert read(text).wishes == frozenset()


@pytest.mark.parametrize(
    ("text", "wishes"),
    [
        ("Not too short, please.", {("length", "long", True)}),
        ("It should not be too long.", {("length", "short", True)}),
        ("Nothing too technical.", {("how technical", "simple", True)}),
        ("Fewer emojis.", {("emojis", "without", True)}),
        ("Not only short but also formal.", {("length", "short", False), ("tone", "formal", False)}),
        ("Don't use lists and write prose.", {("lists or prose", "prose", False)}),
        ("Never use bold, and keep it short.", {("bold", "without", False), ("length", "short", False)}),
        (
            "Avoid lists, bold and emojis.",
            {("lists or prose", "prose", False), ("bold", "without", False), ("emojis", "without", False)},
        ),
        ("You used a list, but I wanted prose.", {("lists or prose", "prose", False)}),
        ("A short answer first, then a long explanation.", set()),  # it wants both
        ("No, use emojis.", {("emojis", "with", False)}),
        ("Don't forget examples.", {("examples", "with", False)}),
        ("Use emojis, too.", {("emojis", "with", False)}),
        ("Use short sentences.", {("sentences", "short", False)}),
    ],
)
def test_negation_complaint_and_scope(text, wishes):
    assert {(wish.axis, wish.way, wish.soft) for wish in read(text).wishes} == wishes


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Keep it short.", "Please use fewer words next time."),
        ("No lists.", "Don't use bullet points!"),
        ("Answer in one sentence.", "Use a single sentence."),
        ("Mention the price in euros.", "Please mention the prices in euros."),
        ("Name the architect of the building.", "Name the achitect of the building."),
        ("Do not mention Vienna.", "Don't mention Vienna, please."),
        ("Schreib auf Deutsch.", "schreib auf deutsch"),
    ],
)
def test_the_same_in_other_words_is_alike(one, other):
    assert alike(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Keep it short.", "Not too short, please."),
        ("Answer in one sentence.", "Answer in two sentences."),
        ("Answer in German.", "Answer in French."),
        ("Mention Austria.", "Mention Australia."),
        ("Mention Vienna.", "Do not mention Vienna."),
        ("Use Java.", "Use JavaScript."),
        ("Write it in C.", "Write it in C++."),
        ("Keep it short.", "Keep it short and formal."),
        ("Include the tests.", "Exclude the tests."),
        ("Use at most 20 words.", "Use at most 200 words."),
        ("Explain gravity.", "Explain magnetism."),
        ("Kurz, bitte.", "Lang, bitte."),
        (hints.worded(rewrite="Paris."), hints.worded(rewrite="Lyon.")),
        ("Be nice!", "Be good!"),
        ("Use fewer emojis.", "Use no emojis."),
    ],
)
def test_what_differs_in_anything_that_matters_is_not_alike(one, other):
    assert not alike(one, other)
    assert not alike(other, one)


def test_soft_wishes_do_not_contradict_each_other_and_hard_ones_do():
    assert opposed("Not too short.", "Not too long.") == []
    assert opposed("Keep it short.", "Not too short.") == [("length", "short", "long")]


def test_a_conflict_is_a_sentence_that_names_the_other():
    found = conflicts("Use bullet points.", [(7, "No lists, please."), (8, "Keep it short.")])
    assert found == [
        {
            "hint": 7,
            "sentence": "It asks for the opposite of “No lists, please.” (lists or prose: list here, prose there).",
        }
    ]


@pytest.mark.parametrize("text", ["", " ", "?!", "x" * 5000, "no " * 2000, "a, " * 2000, "not too " * 1000, "🙂"])
def test_any_text_is_read_in_no_time(text):
    start = time.thread_time()
    read.__wrapped__(text)
    assert time.thread_time() - start < 2  # seconds of work, however busy the machine is


PHRASE = st.sampled_from([text for _, _, text in EVERY])
ANY = st.one_of(st.text(max_size=80), PHRASE, st.lists(PHRASE, min_size=2, max_size=3).map(" ".join))


@given(ANY)
def test_everything_is_like_itself_and_contradicts_itself_in_nothing(text):
    assert alike(text, text)
    assert opposed(text, text) == []


@given(ANY, ANY)
def test_likeness_and_contradiction_go_both_ways_and_exclude_each_other(one, other):
    assert alike(one, other) == alike(other, one)
    assert [(axis, b, a) for axis, a, b in opposed(one, other)] == opposed(other, one)
    assert not (alike(one, other) and opposed(one, other))


@given(PHRASE, st.sampled_from(["Please. {}", "{} Thanks.", "{} Please!", "  {}  "]))
def test_politeness_changes_no_wish(text, frame):
    assert read(frame.format(text)).wishes == read(text).wishes


@given(st.lists(ANY, max_size=8))
def test_groups_hold_every_text_once(texts):
    found = groups(texts)
    assert sorted(place for group in found for place in group) == list(range(len(texts)))
    assert [group[0] for group in found] == sorted(group[0] for group in found)


def test_a_wish_knows_its_axis_and_way():
    assert read("Keep it short.").wishes == {Wish("length", "short")}
