#!/usr/bin/env python
"""Talkback's command line: `python3 manage.py help`."""

import os
import sys

from core import installed


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    from core import pipes

    pipes.end_with_reader()
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    try:
        execute_from_command_line(sys.argv)
    except OperationalError as error:
        if "--traceback" in sys.argv:
            raise
        sys.exit(f"The database cannot be used ({error}): run make up first, or set DATA_DIR to where it ran.")


if __name__ == "__main__":
    installed.enter("django", *sys.argv[:1])
    main()
