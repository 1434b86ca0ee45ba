"""The API, put together: each room's routes under one roof, one shape for every failure."""

from ninja import NinjaAPI

from chat.api import router as chat
from feedback.api import router as feedback
from webapp import errors

api = NinjaAPI(title="Talkback", version="1", docs_url=None, urls_namespace="v1")
api.add_router("", chat)
api.add_router("", feedback)
errors.connect(api)
