"""Route paths and WebSockets."""

from django.urls import include, path, re_path

from chat.session_sockets import ChatConsumer
from webapp.api import api
from webapp.console import raw
from webapp.console.board_sockets import BoardConsumer, RunConsumer, TurnsConsumer
from webapp.serving.handshakes import refuse

urlpatterns = [
    path("", include("webapp.people.signin")),
    path("", include("webapp.people.enter")),
    path("", include("webapp.people.joining")),
    path("", include("webapp.people.password_reset")),
    path("", include("webapp.people.second_factor")),
    path("", include("webapp.people.oidc")),
    path("account/", include("webapp.people.account_page")),
    path("console/people/consent/", include("webapp.people.consent_page")),
    path("console/people/", include("webapp.people.people_pages")),
    path("", include("webapp.health")),
    path("", include("webapp.people.language")),
    path("", include("chat.urls")),
    path("", include("feedback.urls")),
    path("", include("webapp.people.taught")),
    path("", include("webapp.people.bin_page")),
    path("", include("webapp.people.chat_files_page")),
    path("", include("webapp.people.privacy_page")),
    path("", include("webapp.people.settings_page")),
    path("", include("webapp.people.help_page")),
    path("", include("webapp.people.did_it_help")),
    path("connect/", include("webapp.console.connect_page")),
    path("", include("webapp.people.preferences_page")),
    path("console/raw/", raw.site.urls),
    path("console/", include("webapp.console.urls")),
    path("worlds/", include("webapp.console.worlds.urls")),
    path("v1/", api.urls),
]

handler400, handler403 = "webapp.errors.bad_request", "webapp.errors.forbidden"
handler404, handler500 = "webapp.errors.not_found", "webapp.errors.broken"

websocket_urlpatterns = [
    path("ws/chat/<uuid:pk>/", ChatConsumer.as_asgi()),
    path("ws/console/", BoardConsumer.as_asgi()),
    path("ws/console/turns/", TurnsConsumer.as_asgi()),
    path("ws/console/runs/<row:pk>/", RunConsumer.as_asgi()),
    re_path("", refuse),  # type: ignore[arg-type]  # it is channels' router that calls it
]
