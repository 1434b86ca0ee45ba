#!/usr/bin/env python
"""Talkback's command line: `python manage.py help`."""

import os
import sys

from django.core.management import execute_from_command_line
from django.db import OperationalError

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    try:
        execute_from_command_line(sys.argv)
    except OperationalError as error:
        if "--traceback" in sys.argv:
            raise
        sys.exit(f"The database cannot be used ({error}): run make up first, or set DATA_DIR to where it ran.")
