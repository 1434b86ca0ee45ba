"""What is kept of a tokenizer's work is what the tokenizer gives, whatever the text."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from time import sleep

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from benchmarks.tiny import TEXT
from chat.rendering.tokens import LONG, Tokens

CONTROLS = ("<|im_start|>", "<|im_end|>", "<|im_end|><|im_start|>", "<think>", "[A]")


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return trained(tokenizer, trainers.BpeTrainer(vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))


def prefixed_once() -> Tokenizer:
    """A blank is set before the first word of all, and of no other part: no part can be tokenised by itself."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    return trained(tokenizer, trainers.BpeTrainer(vocab_size=500))


def normalised() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace("é", "e")])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return trained(tokenizer, trainers.BpeTrainer(vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))


def trained(tokenizer: Tokenizer, trainer: trainers.BpeTrainer) -> Tokenizer:
    tokenizer.train_from_iterator([TEXT] * 2, trainer)
    tokenizer.add_special_tokens([AddedToken(one, special=True, normalized=False) for one in CONTROLS])
    return tokenizer


def added(tokenizer: Tokenizer) -> list[dict]:
    return json.loads(tokenizer.to_str())["added_tokens"]


WORDS = ["Hello", " two  blanks ", "\n", "\n\n", "é", "🙂", "日本", "<|im_", "start|>", "|>", "<", "'s", "42"]
texts = st.lists(st.one_of(st.sampled_from([*CONTROLS, *WORDS]), st.text(max_size=8)), max_size=30).map("".join)
storable = texts.filter(lambda text: not any("\ud800" <= char <= "\udfff" for char in text))


@cache
def with_memory(make) -> tuple[Tokenizer, Tokens]:
    tokenizer = make()
    return tokenizer, Tokens(tokenizer, added(tokenizer), room=20_000)


@pytest.mark.parametrize("make", [byte_level, prefixed_once, normalised])
@settings(max_examples=150, deadline=None)
@given(conversation=st.lists(storable, min_size=1, max_size=4))
def test_parts_give_what_the_whole_gives(make, conversation):
    tokenizer, tokens = with_memory(make)
    for end in range(1, len(conversation) + 1):
        text = "".join(conversation[:end])
        wanted = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokens.ids(text) == wanted
        assert tokens.ids(text) == wanted  # now from memory
    assert tokens.taken <= 20_000


@pytest.mark.parametrize("make", [byte_level, prefixed_once, normalised])
@settings(max_examples=50, deadline=None)
@given(text=storable, times=st.integers(1, 200))
def test_a_long_text_gives_the_same_while_other_threads_run(make, text, times):
    tokenizer, tokens = with_memory(make)
    text = text * times + "x" * LONG
    assert tokens._encoded([text]) == [tokenizer.encode(text, add_special_tokens=False).ids]


ONE = "word " * 400_000
MANY = "".join(f"<|im_start|>{n} {'word ' * 400}<|im_end|>" for n in range(1000))
"""As many words, and no message of 4,096 characters among them: a long history that is new here."""


@pytest.mark.parametrize("text", [ONE, MANY], ids=["one", "many"])
def test_a_long_text_lets_other_threads_run(text):
    tokens = Tokens(tokenizer := byte_level(), added(tokenizer))
    held = sys.getswitchinterval()
    with ThreadPoolExecutor(1) as pool:
        sys.setswitchinterval(1000)  # who does not let go of the interpreter keeps it to the end
        try:
            going = pool.submit(tokens.ids, text)
            turns = 0
            while not going.done():
                turns += 1
                sleep(0.001)
        finally:
            sys.setswitchinterval(held)
    assert turns > 10


def test_what_was_tokenised_once_is_not_tokenised_again():
    class Counted:
        def __init__(self) -> None:
            self.inner, self.asked = byte_level(), []

        def encode(self, text, **options):
            self.asked.append(text)
            return self.inner.encode(text, **options)

    counted = Counted()
    tokens = Tokens(counted, added(counted.inner))
    tokens.ids("<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n")
    counted.asked.clear()

    tokens.ids("<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\nHi.<|im_end|>\n")

    assert counted.asked == ["assistant\nHi."]


def test_a_tokenizer_that_looks_beyond_its_control_tokens_keeps_nothing():
    tokenizer = prefixed_once()
    tokens = Tokens(tokenizer, added(tokenizer))
    tokens.ids("Hello<|im_end|>there")

    assert not tokens.keeps
    assert len(tokens) == 0
    assert Tokens(byte_level(), added(byte_level())).keeps


@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word"])
def test_control_tokens_that_take_blanks_with_them_are_left_to_the_tokenizer(flag):
    tokenizer = byte_level()
    tokenizer.add_special_tokens([AddedToken("<|wide|>", special=True, normalized=False, **{flag: True})])
    tokens = Tokens(tokenizer, added(tokenizer))

    text = "Hello  <|wide|>  there<|wide|>s"
    assert not tokens.keeps
    assert tokens.ids(text) == tokenizer.encode(text, add_special_tokens=False).ids


def test_what_is_kept_stays_within_its_room_and_the_oldest_goes_first():
    tokenizer = byte_level()
    tokens = Tokens(tokenizer, added(tokenizer), room=10_000)
    for number in range(200):
        tokens.ids(f"<|im_start|>message {number}<|im_end|>")
        tokens.ids("<|im_start|>the usual<|im_end|>")
        assert tokens.taken <= 10_000

    held = len(tokens)
    tokens.ids("the usual")
    assert len(tokens) == held  # it was asked for all the time, so it is still there
    assert tokens.ids("word " * 5000) == tokenizer.encode("word " * 5000).ids  # too long to be kept
    assert len(tokens) == held


def test_threads_share_it():
    tokenizer = byte_level()
    tokens = Tokens(tokenizer, added(tokenizer), room=5_000)
    texts = [f"<|im_start|>say {n % 7}<|im_end|>" * (n % 5) for n in range(300)]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(tokens.ids, texts))

    assert got == [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    assert tokens.taken <= 5_000


@pytest.mark.real_model
def test_the_real_small_model_is_parted(smol_model):
    from chat.rendering.renderer import Renderer

    renderer = Renderer(smol_model)
    said = [
        {"role": "user", "content": TEXT},
        {"role": "assistant", "content": "Paris."},
        {"role": "user", "content": "?"},
    ]
    whole = Tokenizer.from_file(str(smol_model / "tokenizer.json"))
    text = renderer._rendered(said)

    assert renderer._tokens.keeps
    assert renderer.prompt_ids(said) == whole.encode(text, add_special_tokens=False).ids
