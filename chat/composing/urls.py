"""Route the paths of what a person brings to a message. They stand in the chat's namespace."""

from django.urls import path

from chat.composing import beside_pages, file_pages, picture_pages, prompt_pages, terms_pages

urlpatterns = [
    path("chats/settings/", terms_pages.default_terms, name="default-terms"),
    path("chats/<uuid:pk>/settings/", terms_pages.chat_terms, name="terms"),
    path("turns/<uuid:pk>/files/<row:place>/", file_pages.file, name="file"),
    path("turns/<uuid:pk>/pictures/<str:digest>/", picture_pages.picture, name="picture"),
    path("prompts/", prompt_pages.prompts, name="prompts"),
    path("prompts/pick/", prompt_pages.pick, name="pick-prompt"),
    path("prompts/<row:pk>/", prompt_pages.prompt, name="prompt"),
    path("prompts/<row:pk>/remove/", prompt_pages.remove, name="remove-prompt"),
    path("turns/<uuid:pk>/compare/", beside_pages.choose, name="choose"),
    path("turns/<uuid:pk>/compare/with/", beside_pages.compare, name="compare"),
    path("turns/<uuid:pk>/beside/", beside_pages.side_by_side, name="beside"),
    path("turns/<uuid:pk>/keep/", beside_pages.keep, name="keep"),
]
