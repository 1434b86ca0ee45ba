"""The doors for programs: OpenAI's chat completions, Anthropic's Messages, and the models that answer."""

from ninja import Router

from chat.api import catalog, completions, messages

router = Router()
router.add_router("", completions.router)
router.add_router("", messages.router)
router.add_router("", catalog.router)
