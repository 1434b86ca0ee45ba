"""Errors name how an engine or a learner can fail."""

from core.errors import TalkbackError


class EngineUnavailable(TalkbackError):
    """No engine answered in time; nothing was changed, so asking again is safe."""

    code, status, retryable = "engine_unavailable", 503, True


class KeyRefused(EngineUnavailable):
    """The engine does not take this key: an operator's mistake, not the request's; waiting alone does not help."""


class EngineGarbled(EngineUnavailable):
    """What came is no engine's answer: a page, no JSON, or numbers that do not add up. No request is at fault."""

    code, status = "engine_unreadable", 502


class EngineRefused(TalkbackError):
    """The engine understood and said no (400): the request is at fault; asking again will not help."""

    code, status = "invalid_request", 400


class AdapterMissing(EngineRefused):
    """The engine has not loaded the adapter that was named; load it, then ask again."""

    code, status, retryable = "adapter_missing", 409, True


class WeightsExchanged(AdapterMissing):
    """The engine serves other weights, as the stamp on its answers says: full weights answer one at a time."""

    code = "weights_exchanged"


class AdapterNotApplied(EngineUnavailable):
    """An engine confirmed a change and does not answer as changed: it gets no request until it was looked at."""


class NoRoom(EngineUnavailable):
    """The engine has loaded as many adapters as it can; there is room again once another is unloaded."""


class AdapterInvalid(EngineRefused):
    """These adapter files cannot be served as they are (rank, targets, rsLoRA, DoRA, a broken file). A caller that asks
    for a reply has not chosen them: until other weights answer, that is a failure of ours."""

    code, status, retryable = "adapter_invalid", 503, True


class NothingLearned(TalkbackError):
    """A step that would have passed silently while teaching nothing (method.md, section 2)."""

    code, status = "nothing_learned", 422


class OutOfMemory(TalkbackError):
    """The device has no room for a step of this size; no gradient is left of it. Smaller micro-batches may fit."""

    code, status, retryable = "out_of_memory", 507, True
