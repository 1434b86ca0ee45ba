"""The learning receipt: what weights were made of, how they were examined and who let them through, in hashes, signed.

A receipt is JSON of named parts. Signed is the SHA-256 of each part (canonical JSON, RFC 8785), so that a check can
say which part is not what was signed. The parts in MADE never change; they are written down with the checkpoint when it
is made, and the digest over them is what the receipt of its children names. What was made under an earlier form keeps
that form: its digests, and those that its children name, are what they were.

Nothing in it gives a text away. Of each sample it holds SHA-256(nonce ‖ canonical JSON of the sample), where the nonce
is HMAC-SHA256(the installation's secret, the sample's number): 32 bytes that no outsider has, so that no guess of
what was said can be tried against the digest. One sample is shown to have been learned by giving out its nonce alone.
People stand in it as the first bytes of such a digest; their reasons, and names of lines, do not.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.conf import settings
from django.utils import timezone

from checkpoints import checksums
from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from training import batches
from training.agents import comparison
from training.models import Run, Sample

FIRST = "talkback-receipt-1"
"""The form whose canonical JSON is Python's: sorted keys, no spaces, ASCII."""

FORMAT = "talkback-receipt-2"
"""The form of what is made now: canonical JSON is RFC 8785's."""

FORMATS = (FIRST, FORMAT)

RECEIPT, PUBLIC = "receipt.json", "receipt.pub"
"""What they are called beside weights."""

MADE = ("checkpoint", "weights", "samples", "recipe", "run", "parent", "base")
"""Parts that are as they were when the weights were made."""

LATER = ("examination", "decisions", "files")
"""Parts that are as they were when the receipt was signed. `files`: of those that were handed out beside it."""

KEY, SECRET = "key.pem", "secret"
"""Files of DATA_DIR/receipts."""

LARGEST = 8 * 2**20
"""Bytes of a receipt that is read."""

UNSTABLE = ("_name_or_path", "transformers_version")
"""Keys of a model's config.json that say how it came here, and nothing of what it is."""


class ReceiptInvalid(TalkbackError):
    """This is no receipt, or cannot be read."""

    code, status = "receipt_invalid", 422


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `holds` is None for what cannot be told from here."""

    holds: bool | None
    sentence: str


def canonical(value: Any, form: str = FORMAT) -> bytes:
    """The one way to write this value in a receipt of this form. Raises ValueError for what JSON has no number for.

    An integer beyond 2⁵³ is what a reader of JSON makes of it, the nearest double.

    >>> canonical({"b": 1e-5, "a": "é"}).decode()
    '{"a":"é","b":0.00001}'
    >>> canonical({"b": 1e-5, "a": "é"}, FIRST)
    b'{"a":"\\\\u00e9","b":1e-05}'
    >>> canonical([1.0, 10**30])
    b'[1,1e+30]'
    """
    if form == FIRST:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    try:
        return rfc8785.dumps(value)
    except rfc8785.IntegerDomainError:
        return rfc8785.dumps(json.loads(json.dumps(value), parse_int=_number))


def _number(digits: str) -> float:
    return int(digits) if abs(float(digits)) < 2**53 else float(digits)


def digest(value: Any, form: str = FORMAT) -> str:
    return hashlib.sha256(canonical(value, form)).hexdigest()


def made(checkpoint: Checkpoint, base: Mapping[str, Any]) -> dict[str, Any]:
    """The form and the parts of a checkpoint's receipt that never change, from its rows as they are now; `base` as
    `base()` says."""
    run, parent = Run.that_made(checkpoint), checkpoint.parent
    learned = list(batches.learned(run)) if run is not None else []
    return {
        "format": FORMAT,
        "checkpoint": {
            "name": checkpoint.name,
            "adapter": checkpoint.adapter,
            "kind": checkpoint.kind,
            "created_at": checkpoint.created_at.isoformat(),
        },
        "weights": dict(checkpoint.files),
        "samples": of_samples(learned),
        "recipe": run.recipe if run is not None else {},
        "run": {
            "seed": run.seed if run is not None else None,
            "code_version": run.code_version if run is not None else "",
            "updates": len(run.metrics) if run is not None else 0,
            "repeats_another": run is not None and run.again_id is not None,
            **_played(run, learned),
        },
        "parent": {"name": parent.name, "receipt": digest_of_made(parent)} if parent is not None else {},
        "base": dict(base),
    }


def _played(run: Run | None, learned: Sequence[Sample]) -> dict[str, Any]:
    """The attempts that a run learned from, by number, and how they were compared; nothing where there were none."""
    groups: dict[int, list[str]] = {}
    for attempt in comparison.episodes(learned):
        groups.setdefault(attempt.group_id, []).append(str(attempt.pk))
    if run is None or not groups:
        return {}
    played = [{"group": group, "attempts": attempts} for group, attempts in groups.items()]
    return {"baseline": run.agents.get("baseline", ""), "groups": played}


def of_samples(samples: Sequence[Sample]) -> dict[str, Any]:
    """The samples' digests. Those that were emptied since cannot be digested any more, and are counted."""
    here = [sample for sample in samples if sample.response_ids]
    gone = len(samples) - len(here)
    return {"count": len(samples), "taken_back_before": gone, "digests": sorted(map(of_sample, here))}


def of_sample(sample: Sample, form: str = FORMAT) -> str:
    told = {
        name: getattr(sample, name)
        for name in ("prompt_ids", "response_ids", "mask", "teacher_prompt_ids", "reward", "rewards", "rewrite_ids")
    }
    if sample.step is not None:  # what was learned of a step is its advantage, and its score is only a part of that
        told |= {"step": sample.step, "advantage": sample.advantage}
    told["old_logprobs"] = sample.behaviour_logprobs  # the name that digests of earlier receipts were made with
    return hashlib.sha256(nonce(f"sample {sample.pk}") + canonical(told, form)).hexdigest()


def nonce(of: str) -> bytes:
    """32 bytes that this installation alone can say."""
    return hmac.new(_kept(SECRET, lambda: secrets.token_bytes(32)), of.encode(), hashlib.sha256).digest()


def digest_of_made(checkpoint: Checkpoint) -> str:
    """What a child's receipt names of its parent; empty where the parent has no receipt of its own, as the base."""
    if not checkpoint.made:
        return ""
    form = form_of(checkpoint.made)
    return digest({part: digest(checkpoint.made[part], form) for part in MADE}, form)


def form_of(made: Mapping[str, Any]) -> str:
    """The form under which these parts were written down; the first had no name yet."""
    return str(made.get("format", FIRST))


def base(form: str = FORMAT) -> dict[str, Any]:
    """The base model of this installation: its name, its config's digest and its weights' files."""
    folder = Path(settings.MODEL)
    files = [file for file in sorted(folder.glob("*.safetensors")) if file.is_file()]
    stats = tuple((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    return {"name": base_name(folder), "config": config_digest(folder, form), "weights": dict(_weights(folder, stats))}


def base_name(model: Path) -> str:
    """What the model in this folder is called where it came from; the folder's name where its files do not say."""
    said = str(_config(model).get("_name_or_path") or "")
    return said if said and not Path(said).is_absolute() else model.name


def config_digest(model: Path, form: str = FORMAT) -> str:
    return digest({name: value for name, value in _config(model).items() if name not in UNSTABLE}, form)


def _config(model: Path) -> dict[str, Any]:
    try:
        read = json.loads((model / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


@cache  # gigabytes, read once a process
def _weights(folder: Path, stats: tuple[tuple[str, int, int], ...]) -> tuple[tuple[str, str], ...]:
    return tuple((name, checksums.digest(folder / name)) for name, _, _ in stats)


def receipt(checkpoint: Checkpoint, files: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A signed receipt of this moment. `files`: SHA-256 of what is handed out beside it, by name."""
    written_down = checkpoint.made or made(checkpoint, base())
    form = form_of(written_down)
    parts = {name: written_down[name] for name in MADE} | {
        "examination": examination(checkpoint),
        "decisions": decisions(checkpoint),
        "files": dict(files or {}),
    }
    key = private_key()
    told = {
        "format": form,
        "signed_at": timezone.now().isoformat(),
        "written": "as it was made" if checkpoint.made else "afterwards",
        "digests": {name: digest(part, form) for name, part in sorted(parts.items())},
    }
    return told | {
        "parts": parts,
        "public_key": base64.b64encode(raw(key.public_key())).decode(),
        "signature": base64.b64encode(key.sign(canonical(told, form))).decode(),
    }


def examination(checkpoint: Checkpoint) -> dict[str, Any]:
    """What the gate found, in figures. The row is the judge's, who knows of checkpoints and not the other way round."""
    found = getattr(checkpoint, "examination", None)
    if found is None:
        return {}
    kept = ("name", "passed", "value", "limit")
    return {
        "against": str(found.against),
        "passed": found.passed,
        "finished_at": found.finished_at.isoformat() if found.finished_at else None,
        "checks": [{name: check.get(name) for name in kept} for check in found.checks],
    }


def decisions(checkpoint: Checkpoint) -> list[dict[str, Any]]:
    """Who said what, and when, the oldest first; people by a sign that this installation can tell."""
    rows = checkpoint.decisions.order_by("at", "pk")
    return [
        {
            "verb": row.verb,
            "at": row.at.isoformat(),
            "by": sign(row.by_id) if row.by_id is not None else "no person",
        }
        for row in rows
    ]


def sign(user: int) -> str:
    return f"person {nonce(f'user {user}').hex()[:12]}"


def beside(checkpoint: Checkpoint, folder: Path) -> None:
    """Write the receipt of all that lies in `folder`, and the key to check it with, beside it."""
    (folder / RECEIPT).write_bytes(written(receipt(checkpoint, checksums.of(folder))))
    (folder / PUBLIC).write_bytes(pem(private_key().public_key()))


def written(envelope: Mapping[str, Any]) -> bytes:
    """A receipt as a file, for people to read too."""
    return (json.dumps(envelope, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def private_key() -> Ed25519PrivateKey:
    """This installation's key, made when it is first asked for, in DATA_DIR/receipts, for its owner alone."""
    read = serialization.load_pem_private_key(_kept(KEY, _new_key), password=None)
    if not isinstance(read, Ed25519PrivateKey):
        raise ReceiptInvalid("DATA_DIR/receipts/key.pem is not an Ed25519 key.")
    return read


def _new_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def pem(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def fingerprint(key: Ed25519PublicKey) -> str:
    """What people compare: SHA-256 of the key, its first 16 bytes in groups of four digits."""
    told = hashlib.sha256(raw(key)).hexdigest()[:32]
    return " ".join(told[at : at + 4] for at in range(0, len(told), 4))


def public_key(file: Path) -> Ed25519PublicKey:
    """The key in a PEM file. Raises ReceiptInvalid."""
    try:
        read = serialization.load_pem_public_key(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ReceiptInvalid(f"{file.name} is not a public key.") from error
    if not isinstance(read, Ed25519PublicKey):
        raise ReceiptInvalid(f"{file.name} is not an Ed25519 key.")
    return read


def _home() -> Path:
    return Path(settings.DATA_DIR) / "receipts"


def _kept(name: str, make: Callable[[], bytes]) -> bytes:
    """A secret file of this installation, 0600, made by the process that needs it first; of two at once both get the
    same."""
    folder = _home()
    file = folder / name
    try:
        return file.read_bytes()
    except FileNotFoundError:
        pass
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f".{name}.{uuid.uuid4().hex}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(make())
        stream.flush()
        os.fsync(stream.fileno())
    try:
        os.link(draft, file)  # fails where another was quicker, unlike a rename
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return file.read_bytes()


def read(file: Path) -> dict[str, Any]:
    """The receipt in a file, or in a folder of weights. Raises ReceiptInvalid."""
    file = file / RECEIPT if file.is_dir() else file
    try:
        if file.stat().st_size > LARGEST:
            raise ReceiptInvalid(f"{file.name} is too large for a receipt.")
        return parsed(file.read_bytes())
    except OSError as error:
        raise ReceiptInvalid(f"There is no {file.name} to read in {file.parent.name or file.parent}.") from error


def parsed(content: bytes) -> dict[str, Any]:
    """A receipt's content, of the right form; nothing of it is believed yet. Raises ReceiptInvalid."""
    try:
        told = json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ReceiptInvalid("The receipt is not JSON.") from error
    if not isinstance(told, dict) or told.get("format") not in FORMATS:
        raise ReceiptInvalid(f"This is not a receipt of the form {' or '.join(FORMATS)}.")
    parts, digests = told.get("parts"), told.get("digests")
    if not isinstance(parts, dict) or not isinstance(digests, dict):
        raise ReceiptInvalid("The receipt has no parts, or no digests of them.")
    for name in (*MADE, *LATER):
        if not isinstance(parts.get(name), list if name == "decisions" else dict):
            raise ReceiptInvalid(f"The receipt's part {name!r} is missing, or of another form.")
    for name in ("signed_at", "written", "public_key", "signature"):
        if not isinstance(told.get(name), str):
            raise ReceiptInvalid(f"The receipt does not say its {name}.")
    return told


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is no number of JSON's")


def check(told: Mapping[str, Any], *, folder: Path | None = None, key: Ed25519PublicKey | None = None) -> list[Finding]:
    """Hold a receipt against its signature, and against the files in `folder`. It works offline.

    `key` is whose signature it has to be; without one the key that came with it is taken, which proves that nothing
    was changed since, and not who signed.
    """
    return [*_signature(told, key), *_parts(told), *(_files(told["parts"], folder) if folder is not None else [])]


def holds(findings: Iterable[Finding]) -> bool:
    return all(finding.holds is not False for finding in findings)


def _signature(told: Mapping[str, Any], key: Ed25519PublicKey | None) -> list[Finding]:
    try:
        signer = Ed25519PublicKey.from_public_bytes(base64.b64decode(told["public_key"], validate=True))
        signature = base64.b64decode(told["signature"], validate=True)
    except ValueError:
        return [Finding(False, "The receipt's key or signature cannot be read.")]
    if key is not None and raw(key) != raw(signer):
        return [Finding(False, f"It was signed with another key ({fingerprint(signer)}) than the one you named.")]
    signed = {name: told[name] for name in ("format", "signed_at", "written", "digests")}
    try:
        signer.verify(signature, canonical(signed, told["format"]))
    except (InvalidSignature, ValueError):
        return [Finding(False, "The signature does not fit: the receipt was changed after it was signed.")]
    if key is not None:
        return [Finding(True, f"It was signed on {told['signed_at'][:19]} with the key that you named.")]
    return [
        Finding(True, f"It was signed on {told['signed_at'][:19]} with the key that it brings."),
        Finding(None, f"Whose key that is, cannot be told from here: ask its maker for {fingerprint(signer)}."),
    ]


def _parts(told: Mapping[str, Any]) -> list[Finding]:
    parts, digests = told["parts"], told["digests"]
    found = [
        Finding(False, f"The {name} in it are not what was signed." if name.endswith("s") else
                f"The {name} in it is not what was signed.")
        for name in sorted({*parts, *digests})
        if name not in parts or digests.get(name) != _digest_of_anything(parts[name], told["format"])
    ]  # fmt: skip
    if not found:
        found.append(Finding(True, f"All {len(parts)} parts are what was signed: {', '.join(sorted(parts))}."))
    listed, gone = parts["samples"].get("digests"), parts["samples"].get("taken_back_before", 0)
    is_list = isinstance(listed, list) and isinstance(gone, int)
    if not is_list or parts["samples"].get("count") != len(listed) + gone:
        found.append(Finding(False, "It does not list as many samples as it counts."))
    if told["written"] != "as it was made":
        found.append(Finding(None, "It was written after the fact: the weights are older than receipts."))
    return found


def _digest_of_anything(part: object, form: str) -> str:
    """The digest of what may be written by anyone; empty where it has none."""
    try:
        return digest(part, form)
    except (ValueError, RecursionError):
        return ""


def _files(parts: Mapping[str, Any], folder: Path) -> list[Finding]:
    listed: Mapping[str, str] = parts["files"] or parts["weights"]
    found, lying = [], set(checksums.names(folder)) - {RECEIPT, PUBLIC}
    for name, signed in sorted(listed.items()):
        if name not in lying or (folder / name).is_symlink():
            optional = not parts["files"] and name in checksums.OPTIMIZERS
            found.append(Finding(None if optional else False, f"{name} is not there."))
        elif checksums.digest(folder / name) != signed:
            found.append(Finding(False, f"{name} is not the file that was signed for."))
        else:
            found.append(Finding(True, f"{name} is the file that was signed for."))
    found += [
        Finding(False, f"{name} is there, and the receipt does not know it.") for name in sorted(lying - {*listed})
    ]
    for name, first in parts["weights"].items():
        if name.endswith(".safetensors") and name in parts["files"] and parts["files"][name] != first:
            found.append(Finding(False, f"{name} is not the one that was written when the weights were made."))
    return found


def check_here(told: Mapping[str, Any]) -> list[Finding]:
    """What only the installation that signed can say: whether its rows still give what is in the receipt. Empty where
    another installation signed."""
    if not (_home() / KEY).exists():  # nothing was ever signed here, and checking makes no key
        return []
    if told["public_key"] != base64.b64encode(raw(private_key().public_key())).decode():
        return []
    parts = told["parts"]
    row = Checkpoint.objects.select_related("run", "parent").filter(adapter=parts["checkpoint"].get("adapter")).first()
    if row is None or not row.adapter:
        return [Finding(None, "The checkpoint is not known here any more.")]
    found = []
    if row.made:
        same = all(digest(row.made[part], form_of(row.made)) == told["digests"].get(part) for part in MADE)
        found.append(
            Finding(same, "What it was made of is " + ("what" if same else "not what") + " is on record here.")
        )
    signed = set(parts["samples"]["digests"])
    still = (
        signed & {of_sample(one, told["format"]) for one in batches.learned(run)}
        if (run := Run.that_made(row)) is not None
        else set()
    )
    gone = len(signed) - len(still)
    back = f"; {gone} were taken back since" if gone else ""
    said = f"Of {len(signed)} samples {len(still)} are here as they were learned{back}."
    found.append(Finding(None if gone else True, said))
    parent = row.parent
    if parent is not None and parent.made:
        same = parts["parent"].get("receipt") == digest_of_made(parent)
        found.append(Finding(same, f"It {'names' if same else 'does not name'} the receipt of its parent, {parent}."))
    return found
