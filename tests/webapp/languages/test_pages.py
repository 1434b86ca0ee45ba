"""No page of an installation in use says anything in English to a reader of another language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.db.models import CharField, JSONField, TextField
from django.utils.translation import trans_real

from accounts.models import Account
from benchmarks.page_paths import addresses
from benchmarks.seeding.amounts import Amounts
from benchmarks.seeding.whole import seed
from tests.webapp.languages.bare_words import NAMES
from tests.webapp.languages.brackets import CODE, WORD, Brackets, pieces


def strings(value: Any) -> Iterator[str]:
    """The texts of what a row keeps, keys and all."""
    if isinstance(value, dict):
        yield from (text for pair in value.items() for one in pair for text in strings(one))
    elif isinstance(value, list):
        yield from (text for one in value for text in strings(one))
    elif isinstance(value, str):
        yield " ".join(value.split())


def kept() -> set[str]:
    """What rows keep as free text: people's words, names, and sentences that are said once and kept."""
    found: set[str] = set()
    for model in apps.get_models():
        for field in model._meta.concrete_fields:
            if isinstance(field, CharField | TextField | JSONField) and not field.choices:
                rows = model._default_manager.values_list(field.attname, flat=True).distinct()
                found.update(text for value in rows.iterator() for text in strings(value))
    return found - {""}


NAME = re.compile(r"[\w.@/:+-]*[\d_@/:.+-][\w.@/:+-]*")
"""Figures with their units, names of knobs, addresses, models: "0.43", "kl_weight", "talkback@3"."""

SAME = NAMES | {"Deutsch", "English", "Español", "简体中文", "Anthropic", "KiB", "ana", "zzzz"}
CALL = re.compile(r"\w+\(\{[^}]*\}\)")
"""What an agent did: add({"a": 1, "b": 2})."""

PEOPLES = ("chat:search", "chat:session", "console:checkpoint", "console:hint", "console:second_looks",
           "console:reward")  # fmt: skip
"""Pages that show people's words in pieces: what was found, and how two replies differ."""
CODES = {
    "console:recipe": re.compile(r'[A-Z][a-z]*( [a-z]+)*|"?[a-z]+"?'),  # knobs by name, and their values
    "privacy:home": re.compile("card|iban|password|phone|email|key|talkback"),  # as they stand where one was removed
    "console:checkpoint_made": re.compile(r'[A-Z][a-z]*( [a-z]+)*|"?[a-z]+"?'),
    "console:judges": re.compile("base|cases|trained"),  # names of yardsticks and of judges
    "console:judge ": re.compile("adapter"),
    "console:clients": re.compile("[a-z ]+"),  # names of rule files and of marks
    "console:client": re.compile("openclaw"),
    "console:engines": re.compile("base|tiny|Engine"),
    "console:ledger": re.compile("removed"),  # a sample's state, as in files
    "chat-files:import": re.compile("Open WebUI"),
    "console:compare": re.compile(r"talkback@\d+ or talkback@\d+"),
    "console:runs": re.compile("embedded"),
    "worlds:": re.compile(
        "add|answer|price|prices known|Error|Say the sum|Error: that is not on the list|that is not on the list"
    ),
    "chat:": re.compile("served|trained|unused"),  # stages, in what a console's people see of a chip
}
"""What is named, and not said, by the beginning of a route."""


def is_ours(name: str, piece: str, rows: set[str], all_rows: str) -> bool:
    """Whether a piece of a page is words that the application says, and not a person's, a name or a figure."""
    if len(piece) > 12 and piece.rstrip(" …") in all_rows:
        return False
    codes = [pattern for start, pattern in CODES.items() if name.startswith(start)]
    for part in re.split(r" · |, |: | → |…|\.$", CALL.sub("", piece)):
        said = part.strip(" …:,;.()“”→·")
        if {said, f"{said}."} & rows or any(code.fullmatch(said) for code in codes):
            continue
        if name.startswith(PEOPLES) and f"{said.strip('.?')}" in all_rows:
            continue
        bare = NAME.sub(" ", said).strip()
        if bare not in rows and any(word not in SAME for word in WORD.findall(bare)):
            return True
    return False


@pytest.fixture
def model(tiny_model, settings, tmp_path):
    settings.MODEL, settings.DATA_DIR = str(tiny_model), tmp_path


@pytest.mark.django_db
def test_no_page_of_an_installation_in_use_says_anything_in_english_alone(client, engine, model, monkeypatch):
    person = seed(Amounts(turns=200, chats=10, checkpoints=10, people=6, episodes=32, deeds=40)).administrator
    monkeypatch.setitem(trans_real._translations, CODE, Brackets(CODE))
    Account.objects.update(language=CODE)
    client.force_login(person)
    rows = kept()
    all_rows = "\n".join(sorted(rows))
    looked, said = 0, {}
    for name, path in addresses(person).items():
        answer = client.get(path)
        if answer.status_code != 200 or not answer["Content-Type"].startswith("text/html"):
            continue
        looked += 1
        if ours := {piece for piece in pieces(answer.content.decode()) if is_ours(name, piece, rows, all_rows)}:
            said[name] = ours
    assert looked > 90
    assert said == {}, "\n".join(f"{name}: {sorted(words)}" for name, words in said.items())
