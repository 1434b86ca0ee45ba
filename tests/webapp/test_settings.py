"""What the environment may say, and under which names the application may be asked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from webapp.settings_readers import allowed_hosts, yes_or_no

ROOT = Path(__file__).parents[2]
HERE = ["localhost", "127.0.0.1", "[::1]"]


@pytest.mark.parametrize(
    ("named", "listens", "hosts"),
    [
        ("", "", HERE),
        (" talk.example.org, ,", "127.0.0.1", ["talk.example.org", "127.0.0.1", "localhost", "[::1]"]),
        ("talk.example.org", "0.0.0.0", ["talk.example.org", *HERE]),
        ("", "192.0.2.7", ["192.0.2.7", *HERE]),
        ("", "2001:db8::7", ["[2001:db8::7]", *HERE]),
        ("", "::", HERE),
    ],
)
def test_this_machine_is_always_allowed_beside_what_is_named(named, listens, hosts):
    assert allowed_hosts(named, listens) == hosts


@pytest.mark.parametrize(("said", "means"), [("1", True), ("0", False), ("", None)])
def test_a_yes_or_no_is_one_nought_or_nothing(monkeypatch, said, means):
    monkeypatch.setenv("JUDGE_TEACHES", said)
    assert yes_or_no("JUDGE_TEACHES") is means


@pytest.mark.parametrize("said", ["no", "true", "01", "2"])
def test_anything_else_is_an_error_that_says_what_it_takes(monkeypatch, said):
    monkeypatch.setenv("JUDGE_TEACHES", said)
    with pytest.raises(ImproperlyConfigured, match=f"JUDGE_TEACHES is '{said}': it takes 1 for yes, 0 for no"):
        yes_or_no("JUDGE_TEACHES")


@pytest.mark.parametrize("is_here", [True, False])
def test_passwords_are_hashed_by_argon2_where_its_package_is_at_hand(tmp_path, is_here):
    hide = "import sys, importlib.util as u; find = u.find_spec; u.find_spec = lambda n: n != 'argon2' and find(n); "
    if is_here:
        (tmp_path / "argon2.py").touch()
    asked = "from webapp.settings import PASSWORD_HASHERS; print(*(name.split('.')[-1] for name in PASSWORD_HASHERS))"
    environment = os.environ | {"ENV_FILE": os.devnull, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", asked if is_here else hide + asked],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    argon2 = ["Argon2PasswordHasher"] if is_here else []
    assert done.stdout.split() == [*argon2, "PBKDF2PasswordHasher"], done.stderr


def test_a_model_whose_name_holds_what_is_not_seen_is_refused(tmp_path):
    environment = os.environ | {"ENV_FILE": os.devnull, "MODEL_NAME": "talk\x1bback"}
    done = subprocess.run(
        [sys.executable, "-c", "import webapp.settings"],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "ImproperlyConfigured: MODEL_NAME: A name holds only characters that are seen" in done.stderr
