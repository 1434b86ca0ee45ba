"""The doors for programs: OpenAI's chat completions, and the models that answer."""

from ninja import Router

from chat.api import catalog, completions

router = Router()
router.add_router("", completions.router)
router.add_router("", catalog.router)
