"""Route the chat's paths to its pages."""

from django.urls import include, path

from chat import views

app_name = "chat"
urlpatterns = [
    path("", include("chat.composing.urls")),
    path("", views.home, name="home"),
    path("chats/", views.start, name="start"),
    path("chats/new/", views.new, name="new"),
    path("chats/more/own/", views.more, {"kind": "own"}, name="more-own"),
    path("chats/more/api/", views.more, {"kind": "api"}, name="more-api"),
    path("chats/<uuid:pk>/", views.session, name="session"),
    path("chats/<uuid:pk>/say/", views.say, name="say"),
    path("chats/<uuid:pk>/stop/", views.stop, name="stop"),
    path("chats/<uuid:pk>/rename/", views.rename, name="rename"),
    path("chats/<uuid:pk>/delete/", views.delete, name="delete"),
    path("turns/<uuid:pk>/again/", views.again, name="again"),
    path("turns/<uuid:pk>/continue/", views.continue_reply, name="continue"),
    path("turns/<uuid:pk>/edit/", views.edit, name="edit"),
    path("turns/<uuid:pk>/show/", views.show_branch, name="show-branch"),
]
