"""Route the paths of what a person brings to a message. They stand in the chat's namespace."""

from django.urls import path

from chat.composing import beside_pages, terms_pages

urlpatterns = [
    path("chats/settings/", terms_pages.default_terms, name="default-terms"),
    path("chats/<uuid:pk>/settings/", terms_pages.chat_terms, name="terms"),
    path("turns/<uuid:pk>/compare/", beside_pages.choose, name="choose"),
    path("turns/<uuid:pk>/compare/with/", beside_pages.compare, name="compare"),
    path("turns/<uuid:pk>/beside/", beside_pages.side_by_side, name="beside"),
    path("turns/<uuid:pk>/keep/", beside_pages.keep, name="keep"),
]
