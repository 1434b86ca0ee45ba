"""The Celery application: two queues, and a beat that sweeps."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

app = Celery("talkback")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["training", "judge", "webapp"])


@app.on_after_finalize.connect
def sweep_often(sender: Celery, **kwargs: object) -> None:
    from django.conf import settings

    sender.add_periodic_task(settings.SWEEP_S, sender.signature("webapp.tasks.sweep"), name="sweep")
