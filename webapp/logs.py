"""What the log says of requests."""

from __future__ import annotations

import logging


class WithoutTraceback(logging.Filter):
    """Lets every record pass, and takes the traceback off those of a refused request: it is an answer of ours (a page
    for others, a name that this server does not go by, a form that is out of date), and no fault in the code."""

    def filter(self, record: logging.LogRecord) -> bool:
        if 400 <= getattr(record, "status_code", 0) < 500:
            record.exc_info = record.exc_text = None
        return True
