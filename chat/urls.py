"""Route the chat's paths to its pages."""

from django.urls import include, path

from chat import views
from chat.listing import views as listing
from chat.search.views import search
from chat.tools import pages as tools

app_name = "chat"
urlpatterns = [
    path("", include("chat.composing.urls")),
    path("", views.home, name="home"),
    path("chats/", views.start, name="start"),
    path("chats/new/", views.new, name="new"),
    path("chats/more/own/", listing.more, {"kind": "own"}, name="more-own"),
    path("chats/more/api/", listing.more, {"kind": "api"}, name="more-api"),
    path("chats/archive/", listing.archive, name="archive"),
    path("chats/search/", search, name="search"),
    path("chats/folders/<row:pk>/", listing.folder, name="folder"),
    path("chats/folders/<row:pk>/rename/", listing.rename_folder, name="rename-folder"),
    path("chats/folders/<row:pk>/remove/", listing.remove_folder, name="remove-folder"),
    path("chats/<uuid:pk>/", views.session, name="session"),
    path("chats/<uuid:pk>/say/", views.say, name="say"),
    path("chats/<uuid:pk>/stop/", views.stop, name="stop"),
    path("chats/<uuid:pk>/manage/", listing.manage, name="manage"),
    path("chats/<uuid:pk>/rename/", listing.rename, name="rename"),
    path("chats/<uuid:pk>/pin/", listing.pin, name="pin"),
    path("chats/<uuid:pk>/archive/", listing.put_away, name="put-away"),
    path("chats/<uuid:pk>/move/", listing.move, name="move"),
    path("turns/<uuid:pk>/again/", views.again, name="again"),
    path("turns/<uuid:pk>/continue/", views.continue_reply, name="continue"),
    path("turns/<uuid:pk>/edit/", views.edit, name="edit"),
    path("calls/<row:pk>/", tools.decide, name="decide-call"),
    path("turns/<uuid:pk>/show/", views.show_branch, name="show-branch"),
]
