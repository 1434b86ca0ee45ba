"""Learning at a service, where LEARNER=tinker says so: which recipes are exact there, and who does a job.

What is learned from leaves this machine: prompts, replies and rewrites, as token ids (docs/how-to/tinker.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from django.conf import settings
from django.utils.translation import gettext as _

from training.config import Recipe, RecipeInvalid

if TYPE_CHECKING:
    from gpu_workers.learner.learner import Learner
    from training.jobs import Job


def is_outside() -> bool:
    return bool(settings.LEARNER == "tinker")


def check(recipe: Recipe) -> None:
    """Raises RecipeInvalid, with what to change, for a recipe that Tinker could only do approximately."""
    if recipe.weights == "full":
        raise RecipeInvalid(_("Tinker trains adapters only: set the recipe's weights to lora."))
    if recipe.base_bits == 4:
        raise RecipeInvalid(_("Tinker chooses what its bases are held in: set the recipe's base_bits to 16."))
    if recipe.distillation != "token":
        raise RecipeInvalid(
            _(
                "Tinker gives log-probs of chosen tokens, not of a %(distillation)s distribution: set the recipe's "
                "distillation to token."
            )
            % {"distillation": recipe.distillation}
        )


def folder(weights: Path) -> Path:
    """Where the weights themselves are of a checkpoint in `weights`: one from Tinker has a copy of them, or none."""
    return weights / "adapter" if (weights / "tinker.json").exists() else weights


def learner(job: Job) -> Learner | None:
    """Tinker's learner on the job's starting weights; None where this machine learns."""
    if not is_outside():
        return None
    from gpu_workers import engines
    from gpu_workers.tinker import tinker_learner as tinker

    check(job.recipe)
    made = tinker.TinkerLearner(
        engines.service(), adapter_dir=job.start, rank=job.recipe.lora_rank, seed=job.seed, keep=tinker.download
    )
    return cast("Learner", made)  # the same calls; tests/gpu_workers/tinker/test_tinker.py holds both to one contract
