from asgiref.sync import async_to_sync
from celery import shared_task

from core.errors import IllegalMove
from gpu_workers.errors import EngineUnavailable
from training import batches, config, promotion, runs
from training.models import Checkpoint, Run
from training.promotion import Unproven


@shared_task
def fill_batch(sample_id: str) -> None:
    """Whatever the sample that was ready, it may complete a batch of all that are."""
    while batches.fill(config.current()):
        pass


@shared_task
def train(run_id: str) -> None:
    runs.train(Run.objects.get(pk=run_id))


@shared_task(autoretry_for=(EngineUnavailable,), retry_backoff=True, max_retries=5, throws=(Unproven, IllegalMove))
def promote(checkpoint_id: str) -> None:
    async_to_sync(promotion.promote)(Checkpoint.objects.get(pk=checkpoint_id))
