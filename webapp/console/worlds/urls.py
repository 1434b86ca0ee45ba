"""Route the pages of worlds."""

from django.urls import path

from webapp.console.worlds import episode_page, group_page, pages

app_name = "worlds"
urlpatterns = [
    path("", pages.home, name="home"),
    path("attempts/", pages.listed, name="attempts"),
    path("tasks/", pages.tasks, name="tasks"),
    path("groups/", pages.groups, name="groups"),
    path("groups/<row:pk>/", group_page.group, name="group"),
    path("episodes/<uuid:pk>/", episode_page.episode, name="episode"),
]
