"""Hold a receipt against its signature, its files, and what is on record here."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from checkpoints import checksums
from checkpoints.models import Checkpoint
from training import batches
from training.models import Run
from training.provenance.canonical_json import canonical, digest
from training.provenance.receipts import MADE, PUBLIC, RECEIPT, digest_of_made, form_of, of_sample
from training.provenance.signing_keys import (
    KEY,
    fingerprint,
    keys_folder,
    private_key,
    raw,
)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `holds` is None for what cannot be told from here."""

    holds: bool | None
    sentence: str


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
    if not (keys_folder() / KEY).exists():  # nothing was ever signed here, and checking makes no key
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
