"""A run at Tinker, from samples to what is live, on a stand-in that computes; the service itself is never asked."""

from __future__ import annotations

import shutil

import pytest
from asgiref.sync import async_to_sync

from checkpoints import checksums, loading, promotion, repairs
from checkpoints.loading import Unproven
from checkpoints.models import Checkpoint
from gpu_workers import engines
from gpu_workers.tinker import archives
from gpu_workers.tinker import tinker_learner as tinker
from gpu_workers.tinker.service import Service
from tests.doubles.fake_tinker import MODEL, FakeTinker
from tests.ready_samples import HINTED, PROMPT, RESPONSE
from training import batches, config, line_recipes, runs
from training.config import Recipe, RecipeInvalid
from training.models import Run
from training.provenance import exports

promote, repair = async_to_sync(promotion.promote), async_to_sync(repairs.repair)
RECIPE = Recipe(batch_size=2, lr=1e-2, updates=2)


@pytest.fixture
def cloud(home, settings, monkeypatch):
    """An installation that learns and answers at Tinker, with the stand-in for it."""
    cloud = FakeTinker(vocabulary=512)
    service = Service(MODEL, api_key="key", package=cloud)
    settings.LEARNER, settings.TINKER_MODEL, settings.TINKER_API_KEY = "tinker", MODEL, "key"
    settings.ENGINE_URL = settings.TINKER_URL
    monkeypatch.setattr(engines, "service", lambda: service)
    monkeypatch.setattr(tinker, "download", cloud.download)
    return cloud


@pytest.fixture
def queued(cloud, ready):
    """A run of two samples that the base at Tinker served: one praised, one corrected."""
    served = async_to_sync(engines.policy().score)(PROMPT, RESPONSE).logprobs
    ready(reward=1.0, teacher_prompt_ids=None, behaviour_logprobs=list(served))
    ready(teacher_prompt_ids=HINTED, behaviour_logprobs=list(served))
    return batches.fill(RECIPE)


@pytest.fixture
def approved(queued):
    candidate = runs.train(queued)
    assert candidate is not None, Run.objects.get(pk=queued.pk).error
    Checkpoint.objects.filter(pk=candidate.pk).update(status="approved")
    return Checkpoint.objects.get(pk=candidate.pk)


def test_a_run_there_ends_in_a_candidate_like_any_other(queued, rounding):
    candidate = runs.train(queued)

    run = Run.objects.get(pk=queued.pk)
    assert (run.status, run.error) == ("finished", "")
    assert set(run.samples.values_list("status", flat=True)) == {"trained"}
    assert archives.read(candidate.folder).tinker == f"tinker://run-1/sampler_weights/{candidate.adapter}"
    assert [row["update"] for row in run.metrics] == [1, 2]
    assert run.metrics[0]["gap_mean"] == pytest.approx(0.0, abs=rounding.logprob)
    assert {"loss", "policy_loss", "kl", "clip_fraction", "grad_norm", "tokens_per_s"} <= run.metrics[0].keys()


def test_what_it_learned_goes_live_once_the_engine_shows_it(approved, rounding):
    promote(approved)

    engine = engines.policy()
    assert Checkpoint.live() == approved
    assert async_to_sync(engine.adapters)() == {approved.adapter: str(approved.folder)}
    proof = async_to_sync(loading.prove)(approved, engine)
    assert proof.gap == pytest.approx(0.0, abs=rounding.logprob)
    assert proof.share == pytest.approx(1.0, abs=1e-3)
    assert proof.shift > 0


def test_weights_that_answer_as_the_base_do_not_go_live(approved, cloud):
    path = archives.read(approved.folder).tinker
    empty = tuple(part * 0 for part in cloud.kept[path].adapter)
    cloud.kept[path] = type(cloud.kept[path])(empty, {}, 16, MODEL)

    with pytest.raises(Unproven, match="as if the adapter were not there"):
        promote(approved)
    assert Checkpoint.live().number == 0


def test_the_next_run_goes_on_from_what_is_live_there(approved, cloud, ready):
    promote(approved)
    served = async_to_sync(engines.policy().score)(PROMPT, RESPONSE, adapter=approved.adapter).logprobs
    for reward in (1.0, -1.0):
        ready(reward=reward, teacher_prompt_ids=None, behaviour_logprobs=list(served))

    second = runs.train(batches.fill(RECIPE))

    (resumed,) = cloud.asked("create_training_client_from_state_with_optimizer")
    assert resumed["path"] == archives.read(approved.folder).state
    assert archives.read(second.folder).steps == 4  # two updates in each run


def test_a_name_that_was_forgotten_is_brought_back(approved):
    promote(approved)
    async_to_sync(engines.policy().unload_adapter)(approved.adapter)

    assert repair() == [approved.adapter]


def test_a_service_that_goes_away_gives_the_samples_back(queued, cloud):
    cloud.fails("optim_step", cloud.InternalServerError("overloaded"))

    assert runs.train(queued) is None

    run = Run.objects.get(pk=queued.pk)
    assert (run.status, run.error) == ("failed", "Tinker does not answer: overloaded")
    assert Checkpoint.objects.count() == 1


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (Recipe(distillation="vocabulary"), "not of a vocabulary distribution"),
        (Recipe(distillation="topk"), "not of a topk distribution"),
        (Recipe(weights="full"), "adapters only"),
        (Recipe(base_bits=4), "set the recipe's base_bits to 16"),
    ],
)
def test_a_recipe_that_would_be_approximate_is_refused_before_anything_is_sent(cloud, ready, served, recipe, words):
    ready(behaviour_logprobs=served)
    run = batches.fill(recipe.model_copy(update={"batch_size": 1}))

    assert runs.train(run) is None

    assert words in Run.objects.get(pk=run.pk).error
    assert cloud.calls == []


def test_the_default_recipe_is_one_that_is_exact_there(cloud, settings, tmp_path):
    assert line_recipes.current() == config.PRESETS["combined"]

    settings.RECIPE = str(tmp_path / "recipe.json")
    (tmp_path / "recipe.json").write_text('{"preset": "topk"}')
    with pytest.raises(RecipeInvalid, match="set the recipe's distillation to token"):
        line_recipes.current()


def test_the_copy_of_an_adapter_is_exported(approved, tmp_path):
    exports.export(approved, tmp_path / "out", base="big/Model")

    assert (tmp_path / "out" / "adapter_model.safetensors").read_bytes() == b"weights"
    assert '"base_model_name_or_path": "big/Model"' in (tmp_path / "out" / "adapter_config.json").read_text()


def test_weights_that_tinker_alone_holds_cannot_be_exported(approved, tmp_path):
    shutil.rmtree(approved.folder / "adapter")
    approved.files = checksums.of(approved.folder)  # as where Tinker handed none out from the first

    with pytest.raises(exports.NotExportable, match="Tinker alone holds the weights"):
        exports.export(approved, tmp_path / "out")
