"""Where feedback is given."""

from django.urls import path

from feedback import views

app_name = "feedback"
urlpatterns = [path("turns/<uuid:turn_id>/feedback/", views.give, name="give")]
