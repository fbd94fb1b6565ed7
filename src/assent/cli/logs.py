"""Logs of long-running commands: JSON lines for machines, short lines above what a person watches.

Also what libraries, asyncio and Python itself have to say goes there: one reader of the log must understand every line.
"""

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from rich.console import Console
from rich.logging import RichHandler

from assent.store.failures import is_outage
from assent.telemetry import log_fields

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""What every record has; anything else was given with `extra`."""


class JsonLines(logging.Formatter):
    """One JSON object for each record: when, how bad, where from, what, in which org, instance and trace, and the
    fields given with it. Where the database is away, its error says all, and there is no trace of the code."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **log_fields(),
            **given_fields(record),
        }
        error = record.exc_info[1] if record.exc_info else None
        if is_outage(error):
            line.setdefault("error", f"{type(error).__name__}: {error}")
        elif record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def given_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return what was given with `extra`."""
    return {name: value for name, value in record.__dict__.items() if name not in _STANDARD}


def log_as_json() -> None:
    """Write every record of ours, and every warning of others, to standard error, as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    _use(handler, logging.INFO)


def log_above(console: Console) -> None:
    """Print what a person should know, above what the console keeps at its end."""
    handler = RichHandler(console=console, show_path=False, rich_tracebacks=False)
    handler.setFormatter(_WithFields("%(message)s"))
    _use(handler, logging.WARNING)


class _WithFields(logging.Formatter):
    """The message and its fields, without the trace: the log of machines has it."""

    def format(self, record: logging.LogRecord) -> str:
        known = log_fields() | given_fields(record)
        fields = " ".join(f"{name}={value}" for name, value in known.items())
        return f"{record.getMessage()}  {fields}".rstrip()


def _use(handler: logging.Handler, level: int) -> None:
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)
    logger = logging.getLogger("assent")
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False
