"""The Celery application: two queues, and a beat that sweeps."""

import os

from celery import Celery
from celery.signals import heartbeat_sent

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

app = Celery("talkback")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["training", "judge", "webapp"])


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
