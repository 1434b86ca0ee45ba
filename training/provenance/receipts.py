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
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.utils import timezone

from checkpoints import checksums
from checkpoints.models import Checkpoint
from training import batches
from training.agents import comparison
from training.models import Run, Sample
from training.provenance.base_model import base
from training.provenance.canonical_json import FIRST, FORMAT, FORMATS, canonical, digest
from training.provenance.signing_keys import (
    ReceiptInvalid,
    nonce,
    pem,
    private_key,
    raw,
)

RECEIPT, PUBLIC = "receipt.json", "receipt.pub"
"""What they are called beside weights."""

MADE = ("checkpoint", "weights", "samples", "recipe", "run", "parent", "base")
"""Parts that are as they were when the weights were made."""

LATER = ("examination", "decisions", "files")
"""Parts that are as they were when the receipt was signed. `files`: of those that were handed out beside it."""

LARGEST = 8 * 2**20
"""Bytes of a receipt that is read."""


def made(checkpoint: Checkpoint, base: Mapping[str, Any]) -> dict[str, Any]:
    """The form and the parts of a checkpoint's receipt that never change, from its rows as they are now; `base` as
    `base_model.base` says."""
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


def digest_of_made(checkpoint: Checkpoint) -> str:
    """What a child's receipt names of its parent; empty where the parent has no receipt of its own, as the base."""
    if not checkpoint.made:
        return ""
    form = form_of(checkpoint.made)
    return digest({part: digest(checkpoint.made[part], form) for part in MADE}, form)


def form_of(made: Mapping[str, Any]) -> str:
    """The form under which these parts were written down; the first had no name yet."""
    return str(made.get("format", FIRST))


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
