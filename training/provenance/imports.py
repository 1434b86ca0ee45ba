"""A checkpoint of another installation: its receipt is held against its files, and it begins here as any candidate.

Nothing is unpacked by the names in an archive: the few files that an export holds are read out of it, one by one.
"""

from __future__ import annotations

import shutil
import tarfile
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max

from checkpoints import checksums
from checkpoints.models import SHARED, Checkpoint, Decision, Line
from core import stores
from core.errors import TalkbackError
from gpu_workers.errors import AdapterInvalid
from gpu_workers.servers import stacks
from training import learning
from training.next_run import forecast
from training.provenance import base_model, canonical_json, receipt_checks, receipts

WEIGHTS = ("adapter_config.json", "adapter_model.safetensors")

TAKEN = (*WEIGHTS, "README.md", receipts.RECEIPT, receipts.PUBLIC)
"""All that an export of an adapter holds."""

INSTEAD = (
    "Only adapters are taken in, since all that answers here lies on one base. If it came of an adapter, export that "
    "there without --merged and import it here. Else begin another installation on it: unpack it and set MODEL to its "
    "folder; what is there is its checkpoint 0."
)
"""What to do with whole weights."""

LARGEST = 4 * 2**30
"""Bytes of one file of an archive."""

RANK = 64
"""The largest that engines are started for."""

ASKED = (
    ("What is the capital of France?", "The capital of France is Paris."),
    ("Write one short sentence about the sea.", "The sea was calm, and the fishermen sang as they rowed home."),
    ("How do I boil an egg?", "Put it into boiling water for seven minutes, then cool it under the tap."),
)
"""What imported weights are asked for their proof: texts that no person wrote."""


class NotImportable(TalkbackError):
    """These weights are not taken in; nothing was changed."""

    code, status = "not_importable", 422


def take(
    source: Path, *, by: User | None = None, line: str = SHARED, key: Ed25519PublicKey | None = None
) -> Checkpoint:
    """A new candidate with the weights in `source`: an exported folder, or a zip or tar file of one.

    The gate and a person decide of it as of any other. `key` is whose signature the receipt has to bear. Raises
    NotImportable with the reason; AdapterInvalid for weights that would mean something else here; ReceiptInvalid.
    """
    if not Line.objects.filter(name=line, retired_at=None).exists():
        raise NotImportable(f"There is no line {line!r} that learns.")
    check_room(source)
    staging = Path(settings.DATA_DIR) / "imports" / uuid.uuid4().hex
    staging.mkdir(parents=True)
    try:
        _gather(source, staging)
        told = _believed(staging, key)
        _fits(told, staging)
        return _enter(staging, told, _probe(staging), by, line)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def check_room(source: Path) -> None:
    """Raises DiskFull where there is no room for `source` beside what is kept for chat: an archive of weights is about
    as large as they are."""
    files = [source] if source.is_file() else [entry for entry in source.glob("*") if entry.is_file()]
    needed, free = sum(file.stat().st_size for file in files), max(0, stores.learning_room())
    if free < needed:
        wanted, left = f"{needed / stores.MIB:.1f} MiB", f"{free / stores.MIB:.1f} MiB"
        raise stores.DiskFull(f"There is no room for these weights. They need {wanted}, and {left} may be taken.")


def _gather(source: Path, to: Path) -> None:
    with _opened(source) as files:
        names = [name for name in files if name not in TAKEN]
        checksums.refuse_pickles(names, source.name)
        if WEIGHTS[1] not in files and any(name.endswith(".safetensors") for name in names):
            raise NotImportable(f"{source.name} holds a whole model. {INSTEAD}")
        for name in TAKEN:
            if name not in files:
                continue
            with files[name]() as stream, (to / name).open("wb") as written:
                shutil.copyfileobj(_Bounded(stream, name), written, 1 << 20)  # type: ignore[misc]
    if missing := [name for name in (*WEIGHTS, receipts.RECEIPT) if not (to / name).is_file()]:
        raise NotImportable(f"{source.name} holds no {missing[0]}: export an adapter with its receipt.")


@contextmanager
def _opened(source: Path) -> Iterator[dict[str, Callable[[], Any]]]:
    """By name, what opens each plain file that lies at the top of `source`, or in the one folder at its top."""
    try:
        if source.is_dir():
            found = [entry for entry in source.iterdir() if entry.is_file() and not entry.is_symlink()]
            yield {entry.name: lambda entry=entry: entry.open("rb") for entry in found}  # type: ignore[misc]
        elif zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as packed:
                plain = [one for one in packed.infolist() if not one.is_dir() and (one.external_attr >> 28) != 0xA]
                yield {
                    name: lambda one=one: packed.open(one)  # type: ignore[misc]
                    for name, one in _top([(one.filename, one) for one in plain])
                }
        elif source.is_file() and tarfile.is_tarfile(source):
            with tarfile.open(source) as tarred:
                members = [(one.name, one) for one in tarred.getmembers() if one.isreg()]
                yield {
                    name: lambda one=one: tarred.extractfile(one)  # type: ignore[misc]
                    for name, one in _top(members)
                }
        else:
            raise NotImportable(f"{source.name} is neither a folder nor a zip or tar file.")
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, RuntimeError, NotImplementedError) as error:
        raise NotImportable(f"{source.name} cannot be unpacked: {error}") from error


def _top(members: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Those at the top, by their bare names; or those in the one folder where all lie in one. A name that climbs out
    refuses the whole."""
    paths = [(PurePosixPath(name), one) for name, one in members]
    for path, _ in paths:
        if path.is_absolute() or ".." in path.parts or "\\" in str(path):
            raise NotImportable(f"The archive names {str(path)[:80]!r}, which is outside of it: nothing was unpacked.")
    tops = {path.parts[0] for path, _ in paths if len(path.parts) > 1}
    is_folded = len(tops) == 1 and all(len(path.parts) > 1 for path, _ in paths)
    kept = [(path.relative_to(*tops) if is_folded else path, one) for path, one in paths]
    names = [str(path) for path, _ in kept]
    if len(set(names)) < len(names):
        raise NotImportable("The archive holds two files of one name.")
    return [(str(path), one) for path, one in kept]


class _Bounded:
    """A stream that ends with an error beyond LARGEST bytes: an archive may say less than it unpacks to."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self.stream, self.name, self.left = stream, name, LARGEST

    def read(self, size: int = -1) -> bytes:
        got = self.stream.read(size)
        self.left -= len(got)
        if self.left < 0:
            raise NotImportable(f"{self.name} is larger than {LARGEST // 2**30} GiB.")
        return got


def _believed(folder: Path, key: Ed25519PublicKey | None) -> dict[str, Any]:
    told = receipts.read(folder)
    findings = receipt_checks.check(told, folder=folder, key=key)
    if bad := [finding.sentence for finding in findings if finding.holds is False]:
        raise NotImportable(f"The receipt does not hold. {' '.join(bad)}")
    weights = told["parts"]["weights"]
    if weights.get(WEIGHTS[1]) != checksums.digest(folder / WEIGHTS[1]):
        raise NotImportable(f"{WEIGHTS[1]} is not the one that the receipt says was made.")
    return told


def _fits(told: dict[str, Any], folder: Path) -> None:
    """Raises NotImportable unless the weights belong on this base, and AdapterInvalid unless they can be served."""
    parts = told["parts"]
    if parts["checkpoint"].get("kind") != Checkpoint.Kind.LORA:
        raise NotImportable(f"Its receipt speaks of whole weights. {INSTEAD}")
    theirs, ours = parts["base"], base_model.base(told["format"])
    if (theirs.get("config"), theirs.get("weights")) != (ours["config"], ours["weights"]):
        raise NotImportable(
            f"It was made on another base: {theirs.get('name')}, whose "
            f"{'config' if theirs.get('config') != ours['config'] else 'weights'} differ from those of {ours['name']}."
        )
    digest = parts["weights"][WEIGHTS[1]]
    for known in Checkpoint.objects.exclude(files={}).order_by("number"):
        if known.files.get(WEIGHTS[1]) == digest:
            raise NotImportable(f"The very same weights are here already: {known}.")
    from gpu_workers.embedded.adapters import read_adapter

    shapes = forecast.shapes(Path(settings.MODEL)).items()
    layers = {name.removesuffix(".weight"): (shape[1], shape[0]) for name, (shape, _) in shapes if len(shape) == 2}
    adapted = {name: widths for name, widths in layers.items() if name.endswith("_proj")}
    try:
        read = read_adapter(parts["checkpoint"].get("name", ""), str(folder), adapted, RANK)
    except AdapterInvalid as error:
        raise AdapterInvalid(str(error).replace(str(folder), "The adapter")) from error
    if lacks := stacks.find_torn(
        read.pairs, adapted
    ):  # whatever answers today: an installation moves to SGLang some day
        raise AdapterInvalid(
            f"The adapter changes {lacks[0]} and not {lacks[1]}. SGLang keeps the two as one matrix and serves neither "
            "alone: train it on both, or on all linear layers."
        )


def _probe(folder: Path) -> dict[str, Any]:
    """What the learner here gives these weights: theirs was a reply to another person, and stays where it was said."""
    from transformers import AutoTokenizer

    from gpu_workers.learner.learner import Learner

    tokenizer = AutoTokenizer.from_pretrained(settings.MODEL)
    learner = Learner(settings.MODEL, adapter_dir=folder)
    pairs = []
    for question, answer in ASKED:
        asked = tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False
        )
        prompt = tokenizer.encode(asked, add_special_tokens=False)
        pairs.append((prompt, tokenizer.encode(answer, add_special_tokens=False)))
    return learning.probed(learner, pairs)


@transaction.atomic
def _enter(staging: Path, told: dict[str, Any], probe: dict[str, Any], by: User | None, line: str) -> Checkpoint:
    base = Checkpoint.objects.select_for_update().get(number=0)  # no run clears what no row names meanwhile
    number = (Checkpoint.objects.aggregate(Max("number"))["number__max"] or 0) + 1
    name = f"{settings.MODEL_NAME}-{number}-{uuid.uuid4().hex[:8]}".replace("/", "-")
    path = Path("checkpoints") / name
    to = Path(settings.DATA_DIR) / path
    to.parent.mkdir(parents=True, exist_ok=True)
    for file in (receipts.RECEIPT, receipts.PUBLIC, "README.md"):
        (staging / file).unlink(missing_ok=True)
    checkpoint = Checkpoint(
        number=number, line_id=line, kind=Checkpoint.Kind.LORA, parent=base, adapter=name, path=str(path), probe=probe,
        files=checksums.of(staging), came_from=told,
    )  # fmt: skip
    theirs = told["parts"]["checkpoint"].get("name")
    origin = {"name": theirs, "receipt": canonical_json.digest({part: told["digests"][part] for part in receipts.MADE})}
    checkpoint.made = receipts.made(checkpoint, base_model.base()) | {"parent": origin}
    checkpoint.save()
    said = f"{theirs}, signed {told['signed_at'][:10]}"
    Decision.objects.create(checkpoint=checkpoint, verb=Decision.Verb.IMPORT, by=by, reason=said)
    staging.rename(to)
    return checkpoint
