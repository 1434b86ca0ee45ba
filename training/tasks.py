import logging

from asgiref.sync import async_to_sync
from celery import shared_task

from checkpoints import promotion
from checkpoints.loading import Unproven
from checkpoints.models import Checkpoint
from core.errors import IllegalMove
from gpu_workers.errors import EngineUnavailable
from training import batches, hours, journals, learnable, line_recipes, runs
from training.config import RecipeInvalid
from training.models import Run
from training.provenance import cleaning

log = logging.getLogger(__name__)


@shared_task
def fill_batch(sample_id: str) -> None:
    """Whatever the sample that was ready, it may complete a batch of all that are, in any line.

    While learning waits nothing is claimed, so that what a person says meanwhile still counts; the sweep asks again.
    """
    if hours.waiting() is not None:
        return
    if reason := learnable.why_not():
        log.error("Nothing is learned: %s", reason)
        return
    for line in line_recipes.waiting():
        try:
            while batches.fill(line_recipes.recipe_of(line), line):
                pass
        except RecipeInvalid as failure:  # one line's recipe is no reason for the others to wait
            log.error("%s learns nothing: %s", line, failure)


@shared_task
def train(run_id: str) -> None:
    run = Run.objects.get(pk=run_id)
    if runs.train(run):
        journals.keep(run)
    if run.cleaning_id is not None:
        cleaning.go_on(run.cleaning_id)


@shared_task
def clean(cleaning_id: str) -> None:
    cleaning.go_on(int(cleaning_id))


@shared_task(autoretry_for=(EngineUnavailable,), retry_backoff=True, max_retries=5, throws=(Unproven, IllegalMove))
def promote(checkpoint_id: str) -> None:
    async_to_sync(promotion.promote)(Checkpoint.objects.get(pk=checkpoint_id))
