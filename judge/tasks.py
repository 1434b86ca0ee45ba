from celery import shared_task


@shared_task
def judge_turn(turn_id: str) -> None: ...


@shared_task
def examine(checkpoint_id: str) -> None: ...
