"""The operator's pages."""

from django.urls import path

from webapp.console import (
    audit,
    cleanings,
    clients,
    judges,
    ledger,
    lines,
    notices,
    pauses,
    recipes,
    reviews,
    rewards,
    runs,
    views,
)

app_name = "console"
urlpatterns = [
    path("", views.board, name="board"),
    path("learn-now/", views.learn_now, name="learn_now"),
    path("forecast/", views.dry_run, name="forecast"),
    path("roll-back/", views.roll_back, name="roll_back"),
    path("checkpoints/", views.checkpoints, name="checkpoints"),
    path("checkpoints/<int:number>/", views.checkpoint, name="checkpoint"),
    path("checkpoints/<int:number>/approve/", views.approve, name="approve"),
    path("checkpoints/<int:number>/reject/", views.reject, name="reject"),
    path("turns/<uuid:pk>/", views.turn, name="turn"),
    *runs.urls,
    *recipes.urls,
    *clients.urls,
    *reviews.urls,
    *rewards.urls,
    *audit.urls,
    *judges.urls,
    *ledger.urls,
    *lines.urls,
    *pauses.urls,
    *cleanings.urls,
    *notices.urls,
]
