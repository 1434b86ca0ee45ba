"""Which token wrote which word, to the character, or a clear no."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from chat.models import Turn
from chat.rendering import offsets
from chat.rendering.offsets import NOTHING, OffsetsLost
from chat.rendering.renderer import Renderer

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
TEXTS = st.lists(st.sampled_from([*"ab .,\n*_`é日\u0301", "🙂", "👩‍🚀", " the", "hello"]), max_size=40).map("".join)


@pytest.fixture(scope="module")
def renderer(tiny_model) -> Renderer:
    return Renderer.for_model(tiny_model)


@pytest.fixture(scope="module")
def byte_of(tiny_model):
    """Token id to the bytes it stands for, read from the tokenizer's file and by nothing of what is tested."""
    vocabulary = json.loads((tiny_model / "tokenizer.json").read_text())["model"]["vocab"]
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}
    assert set(letters) == set(pre_tokenizers.ByteLevel.alphabet())
    return {id: bytes(letters[c] for c in token) for token, id in vocabulary.items() if set(token) <= set(letters)}


def served(renderer, written: str, *, text: str | None = None, ids=None, tools=(), **asked) -> Turn:
    ids = [*renderer.encode(written), 2] if ids is None else ids
    return Turn(text=written if text is None else text, response_ids=ids, tools=list(tools), asked=asked)


def by_hand(ids, byte_of, text: str) -> list[tuple[int, int]]:
    """The characters that each token's bytes belong to."""
    owner = [at for at, character in enumerate(text) for _ in character.encode()]
    ranges, read = [], 0
    for id in ids:
        owned = owner[read : read + len(byte_of[id])]
        ranges.append((owned[0], owned[-1] + 1))
        read += len(owned)
    return ranges


def words(turn: Turn, renderer) -> list[str]:
    return [turn.text[start:end] for start, end in offsets.token_ranges(turn, renderer)]


@given(text=TEXTS)
@example(text="A 🙂🙂 b")
@example(text="é")
@settings(max_examples=200, deadline=None)
def test_every_token_has_the_characters_that_its_bytes_belong_to(renderer, byte_of, text):
    turn = served(renderer, text)

    *ranges, stop = offsets.token_ranges(turn, renderer)

    assert ranges == by_hand(turn.response_ids[:-1], byte_of, text)
    assert stop == NOTHING


def test_tokens_that_write_one_character_together_all_have_it(renderer):
    turn = served(renderer, "a🙂b")

    assert words(turn, renderer) == ["a", "🙂", "🙂", "🙂", "🙂", "b", ""]


@given(picks=st.lists(st.integers(0, 10**6), min_size=1, max_size=60))
@settings(max_examples=300, deadline=None)
def test_whatever_is_drawn_no_token_is_without_its_characters(renderer, byte_of, picks):
    known = sorted(byte_of)[3:]  # without the control tokens
    ids = [known[pick % len(known)] for pick in picks]
    turn = served(renderer, "", text=renderer.decode(ids), ids=ids)

    ranges = offsets.token_ranges(turn, renderer)

    assert len(ranges) == len(ids)
    covered = [at for start, end in ranges for at in range(start, end)]
    assert set(covered) == set(range(len(turn.text)))
    assert covered == sorted(covered)
    assert all(end > start for start, end in ranges)


def test_thoughts_and_calls_wrote_no_words(renderer):
    written = (
        '<think>Let me look.</think>\n\nI will look.\n<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
    )
    turn = served(renderer, written, text="I will look.", tools=TOOLS, style="hermes")

    ranges = offsets.token_ranges(turn, renderer)

    assert "".join(words(turn, renderer)) == "I will look."
    first = next(at for at, one in enumerate(ranges) if one != NOTHING)
    assert "</think>" in renderer.decode(turn.response_ids[: first + 1])  # a token may be of both
    assert all(one == NOTHING for one in ranges[-10:])


def test_a_call_that_came_to_nothing_is_words(renderer):
    written = 'Hm. <tool_call>\n{"name": nothing}\n</tool_call> So.'
    turn = served(renderer, written, tools=TOOLS, style="hermes")

    assert "".join(words(turn, renderer)) == written


@pytest.mark.parametrize("written", ["It ends here. STOP and more", "It ends here. STOP"])
def test_what_stands_behind_a_stop_string_was_never_said(renderer, written):
    turn = served(renderer, written, text="It ends here. ")
    turn.sampling = {"stop": ["STOP"]}

    assert "".join(words(turn, renderer)) == "It ends here. "


def test_control_tokens_that_are_a_part_of_the_text_are_no_words(renderer):
    turn = served(renderer, "Fine.")
    turn.sampling = {"skip_special_tokens": False}

    assert words(turn, renderer)[-1] == ""
    assert "".join(words(turn, renderer)) == "Fine."


def test_words_that_the_tokens_do_not_give_are_not_guessed(renderer):
    with pytest.raises(OffsetsLost, match="do not give its words"):
        offsets.token_ranges(served(renderer, "Two and two are five.", text="Two and two are four."), renderer)


@given(text=TEXTS, cut=st.integers(0, 40), end=st.integers(0, 40))
def test_a_traced_text_is_the_text_and_knows_its_places(text, cut, end):
    traced = offsets.Traced(text)
    for made, plain in [
        ("" + traced[cut:], text[cut:]),
        (traced[:end].rstrip() + traced[cut:].lstrip(), text[:end].rstrip() + text[cut:].lstrip()),
        (traced.partition(".")[2], text.partition(".")[2]),
        (traced[cut:end] + "!", text[cut:end] + "!"),
    ]:
        assert made == plain
        assert all(text[at] == made[n] for n, at in enumerate(offsets.places_of(made)) if at is not None)


@pytest.mark.real_model
@pytest.mark.parametrize("written", ["Café 日本 — it costs 12 €, 🙂 said she.\n\n- **one**\n- two", "naïve 👩‍🚀 x"])
def test_with_the_real_tokenizer_the_words_are_all_there(smol_model, written):
    renderer = Renderer.for_model(smol_model)
    turn = served(renderer, written)

    ranges = offsets.token_ranges(turn, renderer)

    assert {at for start, end in ranges for at in range(start, end)} == set(range(len(written)))
    assert written[slice(*ranges[0])] == renderer.decode(turn.response_ids[:1]).strip("\ufffd") or ranges[0][1] > 0
