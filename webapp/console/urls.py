"""Route the console's pages."""

from django.urls import path

from webapp.console import (
    audit,
    client_pages,
    engine_pages,
    health_page,
    notice_pages,
    views,
    webhook_pages,
    welcome,
)
from webapp.console.checkpoints import approval_pages, cleanings, folds, lineage_pages, storage, trial_pages, weights
from webapp.console.datasets import export_pages, import_pages
from webapp.console.review import compare_pages, hint_queue, judge_pages, ledger_page, reviewer_pages, reward_queue
from webapp.console.system import settings_page, tool_pages
from webapp.console.training import (
    line_pages,
    note_pages,
    overlay_pages,
    policy_pages,
    recipe_pages,
    run_pages,
    schedule_page,
)
from webapp.people import did_it_help

app_name = "console"
urlpatterns = [
    path("", views.board, name="board"),
    path("learn-now/", views.learn_now, name="learn_now"),
    path("forecast/", views.dry_run, name="forecast"),
    path("checkpoints/", views.checkpoints, name="checkpoints"),
    path("checkpoints/<row:number>/", views.checkpoint, name="checkpoint"),
    path("turns/", views.turns, name="turns"),
    path("turns/<uuid:pk>/", views.turn, name="turn"),
    *run_pages.urls,
    *overlay_pages.urls,
    *note_pages.urls,
    *recipe_pages.urls,
    *client_pages.urls,
    *hint_queue.urls,
    *reward_queue.urls,
    *reviewer_pages.urls,
    *audit.urls,
    *judge_pages.urls,
    *ledger_page.urls,
    *compare_pages.urls,
    *line_pages.urls,
    *schedule_page.urls,
    *cleanings.urls,
    *engine_pages.urls,
    *did_it_help.console_urls,
    *notice_pages.urls,
    *health_page.urls,
    *webhook_pages.urls,
    *tool_pages.urls,
    *settings_page.urls,
    *welcome.urls,
    *approval_pages.urls,
    *policy_pages.urls,
    *lineage_pages.urls,
    *folds.urls,
    *storage.urls,
    *trial_pages.urls,
    *weights.urls,
    *export_pages.urls,
    *import_pages.urls,
]
