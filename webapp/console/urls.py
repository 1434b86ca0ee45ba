"""Route the console's pages."""

from django.urls import path

from webapp import did_it_help
from webapp.console import (
    approvals,
    audit,
    cleanings,
    clients,
    compare,
    engines,
    hint_queue,
    judges,
    ledger,
    line_pages,
    lineage,
    notices,
    pauses,
    policy_pages,
    recipes,
    reward_queue,
    runs,
    storage,
    trials,
    views,
)

app_name = "console"
urlpatterns = [
    path("", views.board, name="board"),
    path("learn-now/", views.learn_now, name="learn_now"),
    path("forecast/", views.dry_run, name="forecast"),
    path("checkpoints/", views.checkpoints, name="checkpoints"),
    path("checkpoints/<row:number>/", views.checkpoint, name="checkpoint"),
    path("turns/<uuid:pk>/", views.turn, name="turn"),
    *runs.urls,
    *recipes.urls,
    *clients.urls,
    *hint_queue.urls,
    *reward_queue.urls,
    *audit.urls,
    *judges.urls,
    *ledger.urls,
    *compare.urls,
    *line_pages.urls,
    *pauses.urls,
    *cleanings.urls,
    *engines.urls,
    *did_it_help.console_urls,
    *notices.urls,
    *approvals.urls,
    *policy_pages.urls,
    *lineage.urls,
    *storage.urls,
    *trials.urls,
]
