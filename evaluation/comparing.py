"""Two checkpoints on the same prompts: asked side by side, chosen between blindly, measured layer by layer."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from chat.models import Turn
from chat.rendering.renderer import Renderer
from checkpoints import loading
from checkpoints.models import Checkpoint
from core.errors import IllegalMove, TalkbackError
from core.states import moved
from core.statistics import Tally
from evaluation.models import Choice, Comparison
from gate import exam_requests
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import AdapterInvalid, AdapterMissing, EngineRefused, EngineUnavailable
from gpu_workers.types import Sampling
from judge.samples import exam_questions
from judge.sittings import sitting
from training import outside

SEAT_S = 180
"""How long a dead worker's seat stays taken; it is kept anew for each prompt."""

MOST_PROMPTS = 24
LONGEST = 2000
"""Characters of a prompt."""

USUAL_PROMPTS = 8
"""How many of the exam's prompts are asked where the person gives none."""

OTHER_WEIGHTS = gettext_noop(
    "The engine answers with other whole weights than one of these two needs, and it serves whole weights one at a "
    "time: compare adapters while it serves the base."
)
"""A row keeps it."""

MAX_NEW_TOKENS, TEMPERATURE, SEED = 160, 0.7, 4000
"""As chat samples; each prompt has one seed for both."""


class ComparisonRefused(TalkbackError):
    """These two cannot be compared, or not on these prompts."""

    code, status = "comparison_refused", 422


def ask(first: Checkpoint, second: Checkpoint, prompts: Sequence[str], *, by: User | None) -> Comparison:
    """Have both answer these prompts, or, without any, some of the exam's. Raises ComparisonRefused."""
    prompts = [prompt.strip() for prompt in prompts if prompt.strip()]
    prompts = prompts or [question.prompt for question in exam_questions.questions()[:USUAL_PROMPTS]]
    if first.pk == second.pk:
        raise ComparisonRefused(_("Choose two different checkpoints."))
    if len(prompts) > MOST_PROMPTS:
        said = _("At most %(most)s prompts are asked at once; these are %(number)s.")
        raise ComparisonRefused(said % {"most": MOST_PROMPTS, "number": len(prompts)})
    if any(len(prompt) > LONGEST for prompt in prompts):
        raise ComparisonRefused(_("A prompt has at most %(most)s characters.") % {"most": LONGEST})
    with transaction.atomic():
        _hold(first, second)
        return Comparison.objects.create(first=first, second=second, prompts=list(prompts), by=by)


def _hold(first: Checkpoint, second: Checkpoint) -> None:
    """See that the weights of both are here, and keep retention out until what holds them is written. Call it in a
    transaction. Raises ComparisonRefused."""
    Checkpoint.objects.select_for_update().get(number=0)  # retention lets go under this lock
    for one in Checkpoint.objects.filter(pk__in=(first.pk, second.pk), let_go_at__isnull=False).order_by("number"):
        raise ComparisonRefused(_("The weights of %(checkpoint)s are not on this disk any more.") % {"checkpoint": one})


def question_of(turn: Turn) -> str:
    """What a turn was asked last, as a prompt of its own."""
    return next((str(one.get("content") or "") for one in reversed(turn.messages) if one.get("role") == "user"), "")


def answer(pk: int, *, engine: Engine, renderer: Renderer) -> None:
    """Have both answer what is not answered yet, then measure how far they are apart. Safe to run twice.

    Raises EngineUnavailable; asking again goes on where this stopped.
    """
    with sitting(f"comparison {pk}", for_s=SEAT_S) as seat:
        comparison = Comparison.objects.select_related("first", "second").filter(pk=pk, status="queued").first()
        if seat is None or comparison is None:
            return
        try:
            exam_requests.run(engine, lambda: _ready(comparison, engine))
            for place in range(len(comparison.replies), len(comparison.prompts)):
                if not seat.renew(SEAT_S):
                    return
                _answer(comparison, place, engine, renderer)
            distances = _distances(comparison)
        except AdapterMissing as error:  # loaded, and let go of again at once
            raise EngineUnavailable(str(error)) from error
        except (AdapterInvalid, EngineRefused, ComparisonRefused) as error:
            comparison.move(Comparison.Status.FAILED, error=str(error))
            return
        comparison.move(Comparison.Status.ANSWERED, distances=distances)


async def _ready(comparison: Comparison, engine: Engine) -> None:
    serving = await engine.serving()
    for one in (comparison.first, comparison.second):
        if loading.weights_of(one) != serving:
            raise ComparisonRefused(OTHER_WEIGHTS)
        await loading.ensure_loaded(one, engine)


def _answer(comparison: Comparison, place: int, engine: Engine, renderer: Renderer) -> None:
    """One prompt, by both at once; written before the next."""
    prompt = comparison.prompts[place]
    prompt_ids = renderer.prompt_ids([{"role": "user", "content": prompt}])
    sampling = Sampling(max_new_tokens=MAX_NEW_TOKENS, temperature=TEMPERATURE, seed=SEED + place)

    async def both() -> list[str]:
        sides = (comparison.first, comparison.second)
        said = await asyncio.gather(*(exam_requests.generate(who, engine, prompt_ids, sampling) for who in sides))
        return [reply.text.strip() for reply in said]

    first, second = exam_requests.run(engine, both)
    reply = {"prompt": prompt, "first": first, "second": second, "is_swapped": is_swapped(comparison.pk, place)}
    comparison.replies = [*comparison.replies, reply]
    comparison.save(update_fields=["replies"])
    moved.send(sender=Comparison, pk=comparison.pk, status="asking")


def is_swapped(pk: int, place: int) -> bool:
    """Whether the second stands on the left there: a coin that falls the same for everybody."""
    return bool(hashlib.sha256(f"{pk}:{place}".encode()).digest()[0] & 1)


def _distances(comparison: Comparison) -> list[dict[str, Any]]:
    """Layer by layer, from the files. Torch is imported by the worker that reads them."""
    from gpu_workers.learner import distances

    folders = [outside.folder(one.folder) if one.folder else None for one in (comparison.first, comparison.second)]
    return [asdict(layer) for layer in distances.by_layer(folders[0], folders[1], Path(settings.MODEL))]


@transaction.atomic
def again(comparison: Comparison) -> None:
    """Go on with one that failed. Raises IllegalMove for any other, ComparisonRefused where weights are gone since."""
    _hold(comparison.first, comparison.second)
    comparison.move(Comparison.Status.QUEUED, error="")


@transaction.atomic
def choose(comparison: Comparison, place: int, side: str, *, by: User) -> Choice:
    """One person's pick between the replies on the left and on the right, or that they are the same; a later one
    replaces it. Raises ComparisonRefused for a place or side that is none, IllegalMove once this person knows which
    is which."""
    if comparison.status != Comparison.Status.ANSWERED or not 0 <= place < len(comparison.replies):
        raise ComparisonRefused(_("There are no replies to choose between there."))
    if side not in ("left", "right", "same"):
        raise ComparisonRefused(_("Choose the left one, the right one, or neither."))
    if has_seen(comparison, by):
        raise IllegalMove(_("You know which is which by now: your choices stand as they are."))
    picked = "same" if side == "same" else "second" if (side == "left") == _swapped(comparison, place) else "first"
    made = Choice.objects.update_or_create(comparison=comparison, place=place, by=by, defaults={"picked": picked})
    return made[0]


def _swapped(comparison: Comparison, place: int) -> bool:
    return bool(comparison.replies[place]["is_swapped"])


def open_places(comparison: Comparison, by: User) -> list[int]:
    """Where this person has not chosen yet, in order."""
    chosen = set(Choice.objects.filter(comparison=comparison, by=by).values_list("place", flat=True))
    return [place for place in range(len(comparison.replies)) if place not in chosen]


def has_seen(comparison: Comparison, by: User) -> bool:
    """Whether this person was told which is which: they chose everywhere, or wanted to know."""
    return by.pk in comparison.revealed_to or not open_places(comparison, by)


@transaction.atomic
def reveal(comparison: Comparison, by: User) -> None:
    """Tell this person which is which; they choose no more."""
    current = Comparison.objects.select_for_update().get(pk=comparison.pk)
    if by.pk not in current.revealed_to:
        current.revealed_to = [*current.revealed_to, by.pk]
        current.save(update_fields=["revealed_to"])
    comparison.revealed_to = current.revealed_to


def tally(comparison: Comparison) -> Tally:
    """Everybody's choices."""
    return _counted(Choice.objects.filter(comparison=comparison).values_list("picked", flat=True))


def tally_between(first: Checkpoint, second: Checkpoint) -> Tally:
    """All choices there are between these two, whichever was called the first."""
    same = Choice.objects.filter(comparison__first=first, comparison__second=second).values_list("picked", flat=True)
    other = Choice.objects.filter(comparison__first=second, comparison__second=first).values_list("picked", flat=True)
    turned = {"first": "second", "second": "first", "same": "same"}
    return _counted([*same, *(turned[picked] for picked in other)])


def _counted(picked: Any) -> Tally:
    every = list(picked)
    return Tally(every.count("first"), every.count("second"), every.count("same"))
