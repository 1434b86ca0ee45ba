"""Configure Celery: its queues, a beat that sweeps, and workers that stop in good order."""

import os
import signal
import threading

from celery import Celery
from celery.platforms import EX_OK
from celery.signals import heartbeat_sent, worker_ready

from core import stops

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

app = Celery("talkback")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["training", "judge", "webapp", "webapp.notifications"])
app.autodiscover_tasks(["environments.worlds"], related_name="queue")


@app.on_after_finalize.connect
def sweep_often(sender: Celery, **kwargs: object) -> None:
    from django.conf import settings

    # One that no worker took in time lapses: the next is on its way.
    sweep = sender.signature("webapp.tasks.sweep")
    sender.add_periodic_task(settings.SWEEP_S, sweep, name="sweep", expires=settings.SWEEP_S)


@heartbeat_sent.connect
def say_alive(**kwargs: object) -> None:
    from webapp import heartbeats

    heartbeats.beat(app.amqp.queues.consume_from)


@worker_ready.connect
def stop_in_good_order(**kwargs: object) -> None:
    """Take SIGTERM, SIGINT and SIGQUIT from Celery, whose cold shutdown raises within the task at work: of threads, and
    of the one task that a solo pool runs in this very thread, it can cancel none.

    Each of them now means: take no further task, finish or hand back the one at work, end within STOP_S. A second one
    means at once.
    """
    from celery.worker import state

    watch = stops.watch()
    if threading.current_thread() is not threading.main_thread():
        return  # a worker within another program, which has its own signals

    def stop(number: int, frame: object) -> None:
        state.should_stop = EX_OK  # type: ignore[assignment]  # heard between two tasks

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, stop)
    watch.listen((signal.SIGTERM, signal.SIGINT, signal.SIGQUIT))
