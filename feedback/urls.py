"""Route feedback's paths to its views."""

from django.urls import path

from feedback import views

app_name = "feedback"
urlpatterns = [
    path("turns/<uuid:turn_id>/feedback/", views.give, name="give"),
    path("turns/<uuid:turn_id>/marks/", views.mark, name="mark"),
    path("turns/<uuid:turn_id>/teach/", views.bring, {"box": "teach"}, name="teach"),
    path("turns/<uuid:turn_id>/marking/", views.bring, {"box": "marking"}, name="marking"),
    path("turns/<uuid:turn_id>/difference/", views.difference, name="difference"),
]
