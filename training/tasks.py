from celery import shared_task


@shared_task
def fill_batch(sample_id: str) -> None: ...


@shared_task
def train(run_id: str) -> None: ...


@shared_task
def promote(checkpoint_id: str) -> None: ...
