"""Take examples of a file in as lessons: read it, show what it holds, and once a person says yes, make samples.

An example is learned as a rewrite is: supervised, by the recipe's `w_sft`. No weights served it and no person spoke of
a reply, so nothing of it counts as a reward, it is shown to no teacher, replayed by no run, and at most one lesson in
four of a run is imported (`training.batches.ONE_IN`).
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any
from uuid import UUID, uuid5

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from chat.rendering.renderer import MessagesRefused, Renderer
from checkpoints.models import Checkpoint, Line
from core.errors import IllegalMove
from evaluation.datasets import reading
from evaluation.datasets.cleaning import NotARow, clean
from evaluation.datasets.columns import Lesson
from evaluation.datasets.reading import Example, ImportRefused, Refused
from evaluation.models import Import, Imported
from judge.samples import pooling, redaction
from judge.samples.sample_rows import NOTHING
from judge.samples.teacher import Unreadable
from training import batches
from training.models import Sample

UNDONE = gettext_noop("its import was undone")
"""Why a sample is stale; also the mark of one that goes as soon as no run holds it."""

SHOWN, NAMED = 5, 100
"""Examples that a preview shows; refusals that are kept by their place."""
AT_ONCE = 100
"""Samples that are written together."""
NAMES = UUID("6b1d4c62-36a1-4f0e-9b0d-2c1f0f5f8f55")
"""The namespace of examples' own numbers."""

TOO_LONG = gettext_noop("it is longer than the model's window")

Status = Import.Status


def folder_of(found: Import) -> Path:
    """Where the file lies until it was taken in."""
    return Path(settings.DATA_DIR) / "imports" / str(found.pk)


def receive(stream: IO[bytes], name: str, *, by: User | None, line: Line) -> Import:
    """Keep the file that was brought, and have a worker read it. Raises ImportRefused."""
    suffix = Path(name).suffix.lower()
    if suffix not in reading.SUFFIXES:
        said = _("A file ends with one of %(suffixes)s; “%(name)s” does not.")
        raise ImportRefused(said % {"suffixes": ", ".join(reading.SUFFIXES), "name": reading.shown(name)})
    if line.retired_at is not None:
        raise ImportRefused(_("%(line)s is retired: it learns no more.") % {"line": line})
    with transaction.atomic():
        found = Import.objects.create(name=reading.shown(Path(name).name), by=by, line=line)
        folder = folder_of(found)
        folder.mkdir(parents=True)
        digest = hashlib.sha256()
        with (folder / f"file{suffix}").open("wb") as file:
            while part := stream.read(1 << 20):
                digest.update(part)
                file.write(part)
                if file.tell() > reading.MOST_BYTES:
                    shutil.rmtree(folder)
                    said = _("At most %(most)s MiB are read at once. Split the file.")
                    raise ImportRefused(said % {"most": reading.MOST_BYTES >> 20})
        found.sha256 = digest.hexdigest()
        found.save(update_fields=["sha256"])
    return found


def look(pk: int) -> None:
    """Read what was brought, and keep what it holds: how many examples, the first ones, what is refused and why."""
    found = Import.objects.filter(pk=pk, status=Status.READING).first()
    if found is None:
        return
    rows, first, refusals = 0, list[dict[str, Any]](), Refusals()
    try:
        for one in reading.read(_file(found)):
            lesson = refusals.heard(one)
            if lesson is None:
                continue
            rows += 1
            if len(first) < SHOWN:
                first.append(asdict(lesson))
    except ImportRefused as error:
        _end(found, Status.FAILED, error=str(error))
        return
    _end(found, Status.READ, found={"rows": rows, "first": first, **refusals.told()})


def agree(found: Import, *, by: User | None, origin: str, licence: str = "", consents: bool) -> None:
    """Say yes to what was read: a worker makes lessons of it. Raises ImportRefused without consent or origin."""
    if not consents:
        raise ImportRefused(_("Say first that these texts may be learned from."))
    if not origin.strip():
        raise ImportRefused(_("Say where the examples come from."))
    if not found.found.get("rows"):
        raise ImportRefused(_("There is no example in it that can be learned from."))
    said = {"origin": origin.strip()[:200], "licence": licence.strip()[:200], "consented_at": timezone.now()}
    found.move(Status.TAKING, **({"by": by} if by is not None else {}), **said)


def discard(found: Import) -> None:
    """Say no to what was read. Raises IllegalMove where it is being taken in already."""
    found.move(Status.DISCARDED)
    shutil.rmtree(folder_of(found), ignore_errors=True)


def take(pk: int, *, renderer: Renderer) -> None:
    """Make lessons of what a person said yes to. What this line was brought before makes none. May run twice."""
    found = Import.objects.filter(pk=pk, status=Status.TAKING).select_related("line").first()
    if found is None:
        return
    refusals, known, waiting = Refusals(), 0, list[tuple[str, Sample]]()
    served = Checkpoint.live(found.line_id)
    try:
        for one in reading.read(_file(found)):
            lesson = refusals.heard(one)
            if lesson is None:
                continue
            digest = _digest(lesson)
            try:
                sample = sample_of(lesson, digest, found, served, renderer)
            except _Unfit as error:
                refusals.add(one.place, str(error))
                continue
            waiting.append((digest, sample))
            if len(waiting) == AT_ONCE:
                known += _keep(found, waiting)
                waiting = []
        known += _keep(found, waiting)
    except ImportRefused as error:
        _end(found, Status.FAILED, error=str(error))
        return
    own = found.examples.exclude(sample=None)
    told = {"lessons": own.count(), "known": known, **refusals.told()}
    _end(found, Status.TAKEN, taken=told)
    shutil.rmtree(folder_of(found), ignore_errors=True)
    if (last := own.order_by("-pk").first()) is not None and last.sample is not None:
        last.sample.announce()  # one nudge for all of them: a batch may be full


class _Unfit(Exception):
    """An example cannot be a sample; says why."""


def sample_of(lesson: Lesson, digest: str, found: Import, served: Checkpoint, renderer: Renderer) -> Sample:
    """A sample of this example, not yet saved: its completion is learned as a rewrite is, and of the reply that stands
    in it (the rejected one, or nothing but its end) no token is."""
    try:
        prompt = renderer.prompt_ids(lesson.prompt)
        wanted = renderer.reply_ids(lesson.prompt, lesson.completion)
        reply = renderer.reply_ids(lesson.prompt, lesson.rejected) if lesson.rejected else wanted[-1:]
        redaction.check(renderer.decode(wanted, controls=True), redaction.wanted())
    except (MessagesRefused, Unreadable) as error:
        raise _Unfit(str(error)) from error
    if len(prompt) + max(len(wanted), len(reply)) > renderer.context_length:
        raise _Unfit(TOO_LONG)
    own = uuid5(NAMES, digest)
    return Sample(
        line=found.line,
        origin=own,
        person=f"{batches.IMPORT}{found.pk}",
        conversation=own,
        checkpoint=served,
        prompt_ids=prompt,
        response_ids=reply,
        mask=[0] * len(reply),
        behaviour_logprobs=[0.0] * len(reply),
        rewrite_ids=wanted,
    )


@transaction.atomic
def undo(found: Import) -> tuple[int, int]:
    """Remove the lessons of this import that were not learned yet. Returns how many, and how many were learned. Of
    those that a run is learning now nothing further follows. Raises IllegalMove where it was not taken in."""
    found.move(Status.UNDONE)
    samples = Sample.objects.filter(imported__source=found)
    learned = samples.filter(status=Sample.Status.TRAINED).count()
    samples.filter(status=Sample.Status.CLAIMED).update(drop_reason=UNDONE)
    gone = found.examples.exclude(sample__status__in=(Sample.Status.CLAIMED, Sample.Status.TRAINED))
    waiting = Sample.objects.filter(pk__in=list(samples.values_list("pk", flat=True)))
    gone.delete()
    removed = pooling.drop(waiting, UNDONE, **NOTHING)
    Import.objects.filter(pk=found.pk).update(taken=found.taken | {"removed": removed, "learned": learned})
    found.refresh_from_db()
    return removed, learned


class Refusals:
    """What of a file is no lesson: counted by reason, the first ones by their place."""

    def __init__(self) -> None:
        self._counts, self._where = Counter[str](), list[tuple[str, str]]()

    def add(self, place: str, why: str) -> None:
        self._counts[why] += 1
        if len(self._where) < NAMED:
            self._where.append((place, why))

    def heard(self, one: Example | Refused) -> Lesson | None:
        """The lesson as it may be learned; None where it is refused, which is kept."""
        if isinstance(one, Refused):
            self.add(one.place, one.why)
            return None
        try:
            return clean(one.lesson).lesson
        except NotARow as error:
            self.add(one.place, error.why.value)
            return None

    def told(self) -> dict[str, Any]:
        return {"refused": dict(self._counts.most_common()), "where": self._where}


def _file(found: Import) -> Path:
    files = sorted(folder_of(found).glob("file.*"))
    if not files:
        raise ImportRefused(gettext_noop("The file is not on this machine's disk any more: bring it again."))
    return files[0]


def _digest(lesson: Lesson) -> str:
    """What an example is known by: what it says, not where it stood."""
    said = {"prompt": lesson.prompt, "completion": lesson.completion, "rejected": lesson.rejected}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


@transaction.atomic
def _keep(found: Import, waiting: Sequence[tuple[str, Sample]]) -> int:
    """Write those of these samples that the line has not yet. Returns how many it was brought before by another
    import, or stand twice in this one."""
    Line.objects.select_for_update(no_key=True).get(pk=found.line_id)
    digests = [digest for digest, _sample in waiting]
    rows = Imported.objects.filter(line=found.line_id, digest__in=digests).values_list("digest", "source")
    before = dict(rows)
    fresh = {digest: sample for digest, sample in waiting if digest not in before}
    Sample.objects.bulk_create(fresh.values())
    Imported.objects.bulk_create(
        Imported(source=found, line=found.line, digest=digest, sample=sample) for digest, sample in fresh.items()
    )
    others = sum(before.get(digest, found.pk) != found.pk for digest in set(digests))
    return others + len(digests) - len(set(digests))


def _end(brought: Import, status: str, /, **fields: Any) -> None:
    with suppress(IllegalMove):  # another worker was quicker, or a person said no meanwhile
        brought.move(status, **fields)
