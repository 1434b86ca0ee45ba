"""What must never pass silently (method.md, section 2): each alarm, and what sets it off.

The table is the promise. Each row brings one thing about that must not go unnoticed, and the sentence that a person
reads; docs/explanation/algorithms.md names the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from benchmarks.tiny import write_tiny_model
from checkpoints import loading, promotion
from checkpoints.models import Checkpoint
from gpu_workers.errors import AdapterInvalid
from gpu_workers.learner import weight_exports
from gpu_workers.learner.learner import Learner
from tests.doubles.fake_engine import FakeEngine
from tests.ready_samples import PROMPT, RESPONSE
from training import batches, runs
from training.config import Recipe
from training.models import Run, Sample
from training.objective import closed_questions, question_bank, updates

RECIPE = Recipe(batch_size=1, distillation="vocabulary", lr=1e-2)
DOCS = Path(__file__).parents[3] / "docs" / "explanation" / "algorithms.md"


class Scene:
    """An installation, a sample that would teach, and what may go wrong with them."""

    def __init__(self, ready, home, settings, monkeypatch, tmp_path):
        self.ready, self.home, self.settings, self.patch, self.tmp_path = ready, home, settings, monkeypatch, tmp_path

    def says(self, recipe: Recipe = RECIPE, **fields) -> str:
        """What a run on one such sample failed with; all that it had claimed must be free again."""
        self.ready(**fields)
        return self.error_of(batches.fill(recipe))

    def error_of(self, run: Run) -> str:
        assert runs.train(run) is None
        run = Run.objects.get(pk=run.pk)
        assert run.status == "failed"
        assert set(run.samples.values_list("status", flat=True)) == {"ready"}
        assert not Checkpoint.objects.filter(run=run).exists()
        assert not list((self.home / "checkpoints").glob("*"))
        return run.error

    def broken_model(self) -> None:
        """A base of which one row of the head is no number."""
        model = write_tiny_model(self.tmp_path / "broken")
        weights = load_file(model / "model.safetensors")
        weights["lm_head.weight"][300] = math.nan
        save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
        self.settings.MODEL = str(model)

    def candidate(self) -> Checkpoint:
        """One that a run made, approved."""
        self.ready(reward=-1.0)
        made = runs.train(batches.fill(RECIPE))
        Checkpoint.objects.filter(pk=made.pk).update(status=Checkpoint.Status.APPROVED)
        return Checkpoint.objects.get(pk=made.pk)


@pytest.fixture
def scene(ready, home, settings, monkeypatch, tmp_path):
    return Scene(ready, home, settings, monkeypatch, tmp_path)


# What sets them off


def nothing_said(scene: Scene) -> str:
    scene.ready()
    run = batches.fill(RECIPE)
    Sample.objects.update(teacher_prompt_ids=None)  # taken back between the claim and the run
    return scene.error_of(run)


def only_masked_words_rewarded(scene: Scene) -> str:
    return scene.says(teacher_prompt_ids=None, rewards=[1, 1, 0, 0, 0], mask=[0, 0, 1, 1, 1])


def hint_was_never_placed(scene: Scene) -> str:
    return scene.says(teacher_prompt_ids=PROMPT)


def hint_was_never_placed_beside_a_reward(scene: Scene) -> str:
    return scene.says(teacher_prompt_ids=PROMPT, reward=1.0)


def every_word_masked(scene: Scene) -> str:
    return scene.says(mask=[0] * len(RESPONSE))


def rate_below_the_last_digit(scene: Scene) -> str:
    return scene.says(RECIPE.model_copy(update={"lr": 1e-45}))


def teacher_that_is_no_number(scene: Scene) -> str:
    scene.broken_model()
    return scene.says()


def reward_by_a_model_that_is_no_number(scene: Scene) -> str:
    scene.broken_model()
    return scene.says(teacher_prompt_ids=None, reward=1.0, checkpoint=_elsewhere())


def rewrite_by_a_model_that_is_no_number(scene: Scene) -> str:
    scene.broken_model()
    recipe = Recipe(batch_size=1, w_rl=0, w_opd=0, w_sft=1, beta=0)
    scene.patch.setattr(updates, "objective", lambda recipe: lambda scores: (torch.zeros(()), {}))
    return scene.says(recipe, teacher_prompt_ids=None, rewrite_ids=[11, 12, 2], checkpoint=_elsewhere())


def closed_question_of_a_model_that_is_no_number(scene: Scene) -> str:
    scene.broken_model()
    scene.patch.setattr(question_bank, "known", lambda: [closed_questions.Question([1, 60], [[90], [91]])])
    recipe = Recipe(batch_size=1, w_rl=0, w_opd=0, w_sft=1, w_closed=1, beta=0)
    return scene.says(recipe, teacher_prompt_ids=None, rewrite_ids=[11, 12, 2], checkpoint=_elsewhere())


def gradient_that_is_no_number(scene: Scene) -> str:
    gather = Learner.forward_backward

    def poisoned(self, views, *args, **more):
        figures = gather(self, views, *args, **more)
        for _, parameter in self.trainable()[:1]:
            parameter.grad.fill_(math.nan)
        return figures

    scene.patch.setattr(Learner, "forward_backward", poisoned)
    return scene.says()


def new_weights_that_answer_as_the_base(scene: Scene) -> str:
    score = Learner.score
    scene.patch.setattr(Learner, "score", lambda self, p, r, *, adapter=True: score(self, p, r, adapter=False))
    return scene.says()


def engine_that_served_something_else(scene: Scene) -> str:
    return scene.says(behaviour_logprobs=[-9.0] * len(RESPONSE))


def engine_that_leaves_the_adapter_out(scene: Scene) -> str:
    checkpoint = scene.candidate()
    engine = FakeEngine(Path(scene.settings.MODEL))
    engine.logprobs = lambda prompt, response, adapter: checkpoint.probe["base_logprobs"]
    scene.patch.setattr("gpu_workers.engines.policy", lambda: engine)
    from asgiref.sync import async_to_sync

    with pytest.raises(loading.Unproven) as failure:
        async_to_sync(promotion.promote)(checkpoint)
    refused = Checkpoint.objects.get(pk=checkpoint.pk)
    assert (refused.status, refused.reason) == ("rejected", str(failure.value))
    assert Checkpoint.live().number == 0
    return str(failure.value)


def merge_of_an_adapter_that_is_zero(scene: Scene) -> str:
    checkpoint = scene.candidate()
    file = checkpoint.folder / "adapter_model.safetensors"
    weights = load_file(file)
    save_file({name: torch.zeros_like(value) if "lora_B" in name else value for name, value in weights.items()}, file)
    with pytest.raises(AdapterInvalid) as failure:
        weight_exports.merge_adapter(Path(scene.settings.MODEL), checkpoint.folder, scene.tmp_path / "merged", card="")
    assert not (scene.tmp_path / "merged").exists()
    return str(failure.value)


def _elsewhere() -> Checkpoint:
    """Weights that are not the run's start: what they served says nothing of the gap."""
    base = Checkpoint.live()
    return Checkpoint.objects.create(number=1, parent=base, status=Checkpoint.Status.RETIRED, path="gone")


def gap_that_is_no_number(scene: Scene) -> str:
    scene.broken_model()
    return scene.says(teacher_prompt_ids=None, reward=1.0)  # served by these weights, as it says


ALARMS: dict[str, list[tuple[Callable[[Scene], str], str]]] = {
    "every advantage is zero": [
        (nothing_said, "Every advantage is zero"),
        (only_masked_words_rewarded, "Every advantage is zero"),
    ],
    "the teacher says exactly what the student says": [
        (hint_was_never_placed, "The teacher says exactly what the student says everywhere"),
        (hint_was_never_placed_beside_a_reward, "The teacher says exactly what the student says everywhere"),
    ],
    "the gradient is zero": [(every_word_masked, "The gradient is zero everywhere")],
    "the update changed no weight": [(rate_below_the_last_digit, "changed no weight at all")],
    "a loss or a gradient is not a number": [
        (teacher_that_is_no_number, "A teacher's log-prob is not a number"),
        (reward_by_a_model_that_is_no_number, "The loss of sample 1 is nan"),
        (rewrite_by_a_model_that_is_no_number, "The loss of pair 1 is nan"),
        (closed_question_of_a_model_that_is_no_number, "The log-prob of an answer to a closed question is not"),
        (gradient_that_is_no_number, "The gradient is nan"),
    ],
    "the new weights answer as the base does": [(new_weights_that_answer_as_the_base, "exactly as the base does")],
    "engine and learner disagree on equal weights": [
        (engine_that_served_something_else, "nats a token apart"),
        (gap_that_is_no_number, "cannot be compared, since one is not a number"),
    ],
    "the engine does not apply the adapter": [(engine_that_leaves_the_adapter_out, "as if the adapter were not there")],
    "merged weights are the base's": [(merge_of_an_adapter_that_is_zero, "merged, it is the base")],
}


@pytest.mark.parametrize(
    ("provoke", "sentence"),
    [pytest.param(*row, id=row[0].__name__) for rows in ALARMS.values() for row in rows],
)
def test_it_is_heard(scene, provoke, sentence):
    assert sentence in provoke(scene)


@pytest.mark.parametrize("alarm", ALARMS)
def test_the_manual_names_it(alarm):
    assert f"\n| {alarm} |" in DOCS.read_text(encoding="utf-8")
