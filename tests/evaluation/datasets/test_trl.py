"""What is exported is what TRL's own helpers and the datasets library's own loaders take."""

from __future__ import annotations

import json

import pytest

from chat.models import Session
from evaluation.datasets import exporting
from evaluation.datasets.filters import Filters
from judge.models import Judgement

pytestmark = [pytest.mark.trl, pytest.mark.django_db]

TEXTS = ("Two and two are five.", "Fünf\u2028and\nmore 🙂", '"quoted" <|im_end|>')


@pytest.fixture
def told(serve, say, person):
    """Three replies, each with a thumb and a better one, in two conversations."""
    for at, text in enumerate(TEXTS):
        session = {"session": Session.objects.create(user=person)} if at == 2 else {}
        turn = serve(f"Question {at}?", text, **session)
        say(turn, "rewrite", f"Better {at}. {text}")
        say(turn, "thumb", value=1 if at else -1)
        Judgement.objects.create(turn=turn)
    return TEXTS


@pytest.fixture
def tokenizer(tiny_model):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_model)


def load(tmp_path, monkeypatch, kind, form, shape="prompt"):
    """The export of this kind, as the datasets library loads it."""
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    import datasets

    folder = tmp_path / f"{kind}-{form}-{shape}"
    folder.mkdir()
    exporting.write(Filters.read({"kind": kind, "format": form, "shape": shape, "state": "any"}), folder)
    reader = {"jsonl": "json", "parquet": "parquet"}[form]
    return datasets.load_dataset(
        reader, data_files=str(folder / f"{kind}.{form}"), split="train", cache_dir=str(tmp_path / "cache")
    )


@pytest.mark.parametrize("kind", ["sft", "dpo", "kto"])
def test_both_files_load_as_the_same_rows(told, tmp_path, monkeypatch, kind):
    rows = [load(tmp_path, monkeypatch, kind, form).to_list() for form in ("jsonl", "parquet")]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 3
    written = (tmp_path / f"{kind}-jsonl-prompt" / f"{kind}.jsonl").read_text("utf-8").splitlines()
    assert rows[0] == [json.loads(line) for line in written]


@pytest.mark.parametrize(
    ("kind", "shape", "columns"),
    [
        ("sft", "prompt", {"prompt", "completion"}),
        ("sft", "messages", {"messages"}),
        ("dpo", "prompt", {"prompt", "chosen", "rejected"}),
        ("kto", "prompt", {"prompt", "completion", "label"}),
    ],
)
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_trl_knows_the_rows_as_conversations_and_lays_them_out(
    told, tmp_path, monkeypatch, tokenizer, kind, shape, columns, form
):
    from trl.data_utils import is_conversational, maybe_apply_chat_template

    found = load(tmp_path, monkeypatch, kind, form, shape)
    assert set(found.column_names) == columns
    for row in found:
        assert is_conversational(row)
        laid_out = maybe_apply_chat_template(row, tokenizer)
        assert all(isinstance(laid_out[name], (str, bool)) for name in laid_out)
        said = "".join(value for value in laid_out.values() if isinstance(value, str))
        asked = row["messages"][0] if shape == "messages" else row["prompt"][0]
        assert asked["content"] in said


def test_trl_makes_labels_of_pairs(told, tmp_path, monkeypatch):
    from trl.data_utils import maybe_unpair_preference_dataset

    pairs = load(tmp_path, monkeypatch, "dpo", "jsonl")
    unpaired = maybe_unpair_preference_dataset(pairs)
    assert set(unpaired.column_names) == {"prompt", "completion", "label"}
    assert sorted(unpaired["label"]) == [False] * 3 + [True] * 3  # each pair is one good and one bad reply
    good = {row["completion"][0]["content"] for row in unpaired if row["label"]}
    assert good == {f"Better {at}. {text}" for at, text in enumerate(told)}
