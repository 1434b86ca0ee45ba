"""Web and judge workers never load torch: they start quickly and stay small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "transformers", "peft", "llguidance")
IMPORTS = {
    "web": "import webapp.asgi, webapp.urls; from django.urls import get_resolver; get_resolver().url_patterns",
    "judge worker": "from webapp.celery import app; app.loader.import_default_modules(); "
    "assert {'judge.tasks.judge_turn', 'gate.tasks.examine', 'webapp.tasks.sweep'} <= set(app.tasks)",
}


@pytest.mark.parametrize("process", IMPORTS)
def test_the_process_does_not_import_torch(process, tmp_path):
    program = (
        "import json, sys, django; django.setup()\n"
        f"{IMPORTS[process]}\n"
        f"print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    )
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "DATA_DIR": str(tmp_path),
        "SECRET_KEY": "of-a-test",
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
