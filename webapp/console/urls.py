"""The operator's pages."""

from django.urls import path

from webapp.console import clients, views

app_name = "console"
urlpatterns = [
    path("", views.board, name="board"),
    path("learn-now/", views.learn_now, name="learn_now"),
    path("roll-back/", views.roll_back, name="roll_back"),
    path("checkpoints/", views.checkpoints, name="checkpoints"),
    path("checkpoints/<int:number>/", views.checkpoint, name="checkpoint"),
    path("checkpoints/<int:number>/approve/", views.approve, name="approve"),
    path("checkpoints/<int:number>/reject/", views.reject, name="reject"),
    path("runs/<int:pk>/", views.run, name="run"),
    path("runs/<int:pk>/cancel/", views.cancel, name="cancel"),
    path("turns/<uuid:pk>/", views.turn, name="turn"),
    *clients.urls,
]
