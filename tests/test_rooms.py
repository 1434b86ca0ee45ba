"""The house keeps its order: each template is used and exists, and no folder holds too many files."""

from __future__ import annotations

import ast
import fnmatch
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEMPLATES = ROOT / "templates"
OF_DJANGO = {"admin/base.html", "admin/color_theme_toggle.html"}
"""Templates of Django's admin that ours extend and include."""
FOR_DJANGO = {"admin/base_site.html", "admin/change_form.html", "admin/index.html"}
"""Templates of ours that Django's admin asks for by name."""

FOR_ALLAUTH = {
    *("429.html", "account/reauthenticate.html", "socialaccount/authentication_error.html"),
    *("mfa/authenticate.html", "mfa/index.html", "mfa/reauthenticate.html"),
    *("mfa/totp/activate_form.html", "mfa/totp/deactivate_form.html"),
    *("mfa/recovery_codes/index.html", "mfa/recovery_codes/generate.html"),
    *("mfa/webauthn/add_form.html", "mfa/webauthn/authenticator_list.html", "mfa/webauthn/reauthenticate.html"),
    "mfa/webauthn/authenticator_confirm_delete.html",
}
"""Likewise django-allauth."""

MOST_FILES = 25
MOST_LINES = 400
STILL_SPLITTING: tuple[str, ...] = ()
"""Folders that hold more and are being split. Strike off a folder once it is: a test asks for it."""

TAG = re.compile(r"{%\s*(?:include|extends)\s+\"([^\"]+)\"")
ROOMS = (
    "accounts",
    "chat",
    "checkpoints",
    "core",
    "evaluation",
    "feedback",
    "gate",
    "judge",
    "privacy",
    "training",
    "webapp",
)


def tracked(*patterns: str) -> list[Path]:
    """Paths of the files that git knows or would add, relative to ROOT."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listed.split("\0") if name and (ROOT / name).is_file()]


def templates() -> set[str]:
    return {path.relative_to(TEMPLATES).as_posix() for path in TEMPLATES.rglob("*.html")}


def strings_of(source: str) -> Iterator[str]:
    """Each string of a module that names a template; `*` stands where an f-string fills in: "console/_*.html"."""
    tree = ast.parse(source)
    within = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values)
            name = "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in within:
            name = node.value
        else:
            continue
        if name.endswith(".html") and " " not in name:
            yield name


def named() -> dict[str, set[str]]:
    """The templates that code and other templates name, each with the files that do."""
    found: dict[str, set[str]] = {}
    for path in tracked(*(f"{room}/*.py" for room in ROOMS)):
        for name in strings_of((ROOT / path).read_text(encoding="utf-8")):
            found.setdefault(name, set()).add(path.as_posix())
    for own in templates():
        for name in TAG.findall((TEMPLATES / own).read_text(encoding="utf-8")):
            if name != own:  # a template of the admin extends Django's own of that name
                found.setdefault(name, set()).add(own)
    return found


def test_every_template_that_is_named_exists():
    there = templates() | OF_DJANGO
    missing = {name: by for name, by in named().items() if not fnmatch.filter(there, name)}
    assert missing == {}


def test_every_template_is_used():
    """A name that an f-string makes up counts for no use: `_{kind}.html` would hide whatever is left over."""
    assert sorted(templates() - named().keys() - FOR_DJANGO - FOR_ALLAUTH) == []


def files_of_folders() -> Counter[str]:
    """How many files each folder holds itself, migrations aside."""
    return Counter(path.parent.as_posix() for path in tracked() if path.parent.name != "migrations")


def test_no_folder_holds_more_than_a_reader_takes_in():
    full = {name: n for name, n in files_of_folders().items() if n > MOST_FILES and name not in STILL_SPLITTING}
    assert full == {}


def test_a_folder_that_was_split_is_struck_off():
    files = files_of_folders()
    assert [name for name in STILL_SPLITTING if files[name] <= MOST_FILES] == []


def test_no_script_is_longer_than_a_reader_takes_in():
    long = {}
    for path in tracked("static/*.js"):
        lines = len((ROOT / path).read_text("utf-8").splitlines())
        if lines > MOST_LINES and "vendor" not in path.parts:
            long[path.as_posix()] = lines
    assert long == {}
