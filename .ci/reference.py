"""Write docs/reference/settings.md, recipe.md and commands.md from the code, which alone knows what is true.

python .ci/reference.py
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
DOCS = ROOT / "docs"
MADE = "<!-- Made by .ci/reference.py: change the code, then run it. -->"

Row = tuple[str, ...]


def table(heading: Row, rows: Sequence[Row]) -> str:
    lines = [heading, tuple("---" for _ in heading), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def item(name: str, text: str) -> str:
    """A row of a list, in lines of a page's width."""
    return textwrap.fill(
        f"- {name}: {text}", 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def first_sentence(text: str) -> str:
    """The first sentence of a docstring on one line, without its full stop.

    >>> first_sentence("Adam's rate, constant. Small models\\n    want more.")
    "Adam's rate, constant"
    """
    words = " ".join(text.split())
    return re.split(r"(?<=[^.])\.(?: |$)", words, maxsplit=1)[0]


def path_to(page: str) -> str:
    """Where a page lies, as seen from docs/reference, whichever folder it is in."""
    if f"{page}.md" in PAGES:
        return f"{page}.md"
    (found,) = DOCS.glob(f"**/{page}.md")
    return os.path.relpath(found, DOCS / "reference")


def link_of(text: str) -> str:
    """A link to the first page that a docstring names; empty where it names none."""
    named = re.search(r"docs/(?:[\w-]+/)*([\w-]+)\.md", text)
    return f" ([{named[1]}]({path_to(named[1])}))" if named else ""


def about(text: str) -> str:
    bare = re.sub(r"\s*\([^()]*docs/[^()]*\)", "", text)
    return first_sentence(bare) + link_of(text)


def code(value: str) -> str:
    return value if " " in value else f"`{value}`" if value else ""


def settings() -> str:
    from webapp.console.system.settings_source import Setting, known

    def named(one: Setting) -> str:
        value = "" if one.name == "SECRET_KEY" else code(one.default)
        return f"`{one.name}`{'*' if one.is_kept else ''}" + (f" ({value})" if value else "")

    rows = [item(named(one), about(one.meaning)) for one in sorted(known(), key=lambda one: one.name)]
    listed = "\n".join(rows)
    return f"""# Settings

{MADE}

Give them to `make up` or in the environment. Those marked * are remembered in `DATA_DIR/env` for later starts; an
empty value (`make up JUDGE_URL=`) forgets one. Defaults are in brackets; `1` is yes and `0` is no.
*Console › System › Settings* shows what each is here.

{listed}
"""


def shown(value: object) -> str:
    return "null" if value is None else str(value)


def recipe() -> str:
    from training.config import PRESETS, Gate, Recipe, knobs, reasons
    from training.recipes import published

    plain, small = knobs(Recipe().model_dump()), knobs(PRESETS["embedded"].model_dump())
    why = reasons()

    def rows(names: list[str]) -> list[Row]:
        return [
            (
                f"`{name}`",
                shown(plain[name]),
                "" if small[name] == plain[name] else shown(small[name]),
                about(why[name]),
            )
            for name in names
        ]

    def differs(name: str) -> str:
        values = knobs(PRESETS[name].model_dump())
        return json.dumps({knob: value for knob, value in values.items() if value != plain[knob]}).strip("{}")

    of_gate = [f"gate.{name}" for name in Gate.model_fields]
    heading = ("knob", "default", "`embedded`", "")
    return f"""# The recipe

{MADE}

`RECIPE` names a JSON file with the preset it starts from (left out: `embedded`) and what differs:
`{{"preset": "combined", "batch_size": 8, "gate": {{"pack": 32}}}}`. Other names are refused.
*Console › Training › Recipe* gives whole reasons, and reads a recipe as a run would. How the knobs work together:
[algorithms]({path_to("algorithms")}).

{table(heading, rows([name for name in plain if not name.startswith("gate.")]))}

## The gate's

{table(heading, rows(of_gate))}

## Presets

`embedded` is in the tables. The others differ from the default by:

{table(("preset", ""), [(f"`{name}`", code(differs(name)) or "nothing") for name in PRESETS if name != "embedded"])}

Agents' as published, each a preset too; `manage.py learn_now --dry-run --recipe NAME` says what it needs, how its batch
is played, what has no knob here and what was run:

{table(("preset", "", "model"), [(f"`{one.name}`", one.title, f"`{one.model}`") for one in published().values()])}
"""


def usage(parser: argparse.ArgumentParser) -> str:
    """A parser's own arguments on one line, those of every Django command left out."""
    from django.core.management.base import BaseCommand

    common = {action.dest for action in BaseCommand().create_parser("", "")._actions}
    parts = []
    for action in parser._actions:
        if action.dest in common or isinstance(action, argparse._SubParsersAction | argparse._HelpAction):
            continue
        choices = f"{{{','.join(map(str, action.choices))}}}" if action.choices else ""
        value = str(action.metavar or choices or action.dest.upper())
        if action.option_strings:
            text = action.option_strings[-1] + ("" if action.nargs == 0 else f" {value}")
            parts.append(text if action.required else f"[{text}]")
        else:
            parts.append(f"[{value} …]" if action.nargs in ("*", "?") else value)
    return " ".join(parts)


def actions_of(name: str) -> Iterator[Row]:
    """A row for a command, or for each of its actions."""
    from django.core.management import load_command_class

    command = load_command_class("webapp", name)
    parser = command.create_parser("manage.py", name)
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield f"`{' '.join(filter(None, (name, usage(parser))))}`", first_sentence(command.help)
    for group in groups:
        helps = {choice.dest: choice.help or "" for choice in group._choices_actions}
        for action, inner in group.choices.items():
            words = first_sentence(helps.get(action, ""))
            yield f"`{' '.join(filter(None, (name, action, usage(inner))))}`", words[:1].upper() + words[1:]


def commands() -> str:
    from django.core import management

    ours, django_s = (
        management.find_commands(str(path)) for path in (ROOT / "webapp/management", *management.__path__)
    )
    names = sorted({*ours} - {*django_s})
    listed = "\n".join(item(usage, help_) for name in names for usage, help_ in actions_of(name))
    return f"""# Commands

{MADE}

`make help` lists what `make` does. These are of `python3 manage.py`; `--help` says more of each.

{listed}

Tools of their own, each with `--help`: `python3 -m environments` ([people]({path_to("environments")})), `make evidence`
([evidence]({path_to("evidence")})), `make worlds` ([agents]({path_to("agents-demonstration")})), `make bench`
([the yardstick]({path_to("benchmarks")})), `python -m lab.curriculum` ([the judge's
training]({path_to("judge-model")})).
"""


PAGES: dict[str, Callable[[], str]] = {"settings.md": settings, "recipe.md": recipe, "commands.md": commands}


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    django.setup()
    for name, write in PAGES.items():
        (DOCS / "reference" / name).write_text(write(), encoding="utf-8")
        print(f"docs/reference/{name}")
