"""Set up the real SGLang for a CPU in .venvs/sglang: the oracle our engine is tested against, never a dependency.

    python docker/sglang_cpu/install.py

Standard library only; about 3 GB and three minutes. Run again, it does nothing when all is there. The kernels of a
GPU are replaced by a stand-in (sgl_kernel/) that raises when called: on a CPU without AMX, SGLang calls none.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = HERE.parents[1] / ".venvs" / "sglang"
TORCH = "torch==2.13.0"

# Wheels whose own requirements are CUDA-only, or are here already: installed without them.
BARE = (
    "sglang==0.5.23",
    "xgrammar==0.2.7",
    "apache-tvm-ffi==0.1.11",
    "triton==3.7.1",
    "torchvision==0.28.0",
    "sglang-router==0.3.2",
)


def main() -> int:
    mark, wanted = TARGET / "installed", fingerprint()
    if mark.is_file() and mark.read_text() == wanted:
        print(f"SGLang for the CPU is set up in {TARGET}.")
        return 0
    python = TARGET / "bin" / "python"
    if not python.exists():
        print(f"Making {TARGET} ...", flush=True)
        venv.create(TARGET, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    steps = [
        ("what SGLang imports", [*pip, "-r", str(HERE / "requirements.txt")]),
        ("SGLang itself", [*pip, "--no-deps", *BARE]),
    ]
    print("Installing torch for the CPU ...", flush=True)
    if run([*pip, f"{TORCH}+cpu"]).returncode:  # no index at hand offers that build: uv knows where it is kept
        uv = [str(python), "-m", "uv", "pip", "install", "--quiet", "--python", str(python)]
        steps = [("uv", [*pip, "uv"]), ("torch", [*uv, "--torch-backend=cpu", TORCH]), *steps]
    for name, command in steps:
        print(f"Installing {name} ...", flush=True)
        done = run(command)
        if done.returncode:
            print(f"Could not install {name}:\n{done.stderr[-2000:]}", file=sys.stderr)
            return 1
    packages = next((TARGET / "lib").glob("python3*")) / "site-packages"
    shutil.copytree(HERE / "sgl_kernel", packages / "sgl_kernel", dirs_exist_ok=True)
    shutil.copy(HERE / "sitecustomize.py", packages / "sitecustomize.py")
    print("Looking whether it starts ...", flush=True)
    check = run([str(python), "-c", "import sglang.srt.server_args, sgl_kernel, torchvision"])
    if check.returncode:
        print(f"SGLang does not import:\n{check.stderr[-2000:]}", file=sys.stderr)
        return 1
    mark.write_text(wanted)
    print(f"SGLang for the CPU is set up in {TARGET}.")
    return 0


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True)


def fingerprint() -> str:
    """What an installation was made from; another fingerprint means that it is to be made again."""
    digest = hashlib.sha256(repr((TORCH, BARE, sys.version_info[:2])).encode())
    for path in sorted(HERE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
