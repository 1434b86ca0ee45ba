"""The API's operations: OpenAI's chat completions and Responses, Anthropic's Messages, and the list of models."""

from ninja import Router

from chat.api import catalog, completions, messages, responses, session_routes

router = Router()
router.add_router("", completions.router)
router.add_router("", responses.router)
router.add_router("", messages.router)
router.add_router("", catalog.router)
router.add_router("", session_routes.router)
