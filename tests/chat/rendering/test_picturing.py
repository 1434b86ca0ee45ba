"""Pictures in a prompt: whether a model sees, what stands for a picture, and how many tokens it takes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from chat.rendering.picturing import Counter
from chat.rendering.renderer import MessagesRefused, Renderer
from tests.chat.pictures.conftest import SEEN, seeing_model

__all__ = ["seeing_model"]

PARTS = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\\n' }}{% endfor %}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'text') %}{{ part['text'] }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""LLaVA's, shortened: it reads lists of parts, and passes over a text."""

BLIND = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] + '\\n' }}{% endfor %}"

ASKED = [{"role": "user", "content": "What is it?", "pictures": [{"at": 0}, {"at": 8}]}]


@pytest.fixture
def folder(seeing_model: Path, tmp_path: Path) -> Path:
    """A copy of the seeing model, to be changed."""
    return Path(shutil.copytree(seeing_model, tmp_path / "model"))


def test_a_model_sees_by_its_config_its_processor_and_its_template(folder):
    assert Renderer(folder).picture == SEEN
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"vision_config": None}))
    assert Renderer(folder).picture == ""
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").unlink()
    assert Renderer(folder).picture == ""
    (folder / "processor_config.json").write_text("{}")
    assert Renderer(folder).picture == SEEN
    (folder / "chat_template.jinja").write_text(BLIND)
    assert Renderer(folder).picture == ""


def test_pictures_stand_where_they_stood_among_the_words(folder):
    renderer = Renderer(folder)
    said = renderer.decode(renderer.prompt_ids(ASKED), controls=True)
    assert f"user\n{SEEN}What is {SEEN}it?<|im_end|>" in said


def test_a_template_that_reads_lists_of_parts_alone_is_given_them(folder):
    (folder / "chat_template.jinja").write_text(PARTS)
    renderer = Renderer(folder)
    assert renderer.picture == "<image>\n"
    assert "user\n<image>\nWhat is <image>\nit?<|im_end|>" in renderer.decode(renderer.prompt_ids(ASKED), controls=True)
    plain = renderer.prompt_ids([{"role": "user", "content": "Hello"}])
    assert "user\nHello<|im_end|>" in renderer.decode(plain, controls=True)


def test_a_history_with_pictures_is_refused_by_a_model_that_sees_none(folder):
    (folder / "chat_template.jinja").write_text(BLIND)
    with pytest.raises(MessagesRefused, match="There are pictures in this conversation"):
        Renderer(folder).prompt_ids(ASKED)


@pytest.mark.parametrize(
    ("said", "config", "tokens"),
    [
        ({"patch_size": 14, "merge_size": 2}, {}, 12),  # 100 / 28 and 60 / 28: 4 × 3
        (
            {"patch_size": 16, "merge_size": 2, "size": {"longest_edge": 4096}},
            {},
            4,
        ),  # 4 × 2, but 4,096 / 1,024 at most
        ({"patch_size": 14, "merge_size": 2, "max_pixels": 1568}, {}, 2),  # 1,568 / 784
        ({"image_processor": {"patch_size": 14, "merge_size": 2}}, {}, 12),
        ({}, {"mm_tokens_per_image": 256}, 256),
        ({"image_seq_length": 576}, {}, 576),
        ({"patch_size": {"height": 14}}, {}, 1024),
    ],
)
def test_a_picture_takes_the_tokens_that_the_models_files_say(tmp_path, said, config, tokens):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(said))
    assert Counter(tmp_path, config).tokens(100, 60) == tokens
