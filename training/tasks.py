from asgiref.sync import async_to_sync
from celery import shared_task

from core.errors import IllegalMove
from gpu_workers.errors import EngineUnavailable
from training import promotion
from training.models import Checkpoint
from training.promotion import Unproven


@shared_task
def fill_batch(sample_id: str) -> None: ...


@shared_task
def train(run_id: str) -> None: ...


@shared_task(autoretry_for=(EngineUnavailable,), retry_backoff=True, max_retries=5, throws=(Unproven, IllegalMove))
def promote(checkpoint_id: str) -> None:
    async_to_sync(promotion.promote)(Checkpoint.objects.get(pk=checkpoint_id))
