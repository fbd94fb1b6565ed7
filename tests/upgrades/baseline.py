"""Version 0001, frozen: the schema folder as it was, so that migrations are tested from there.

Until the first release `make baseline` freezes it again after a change of the folder. After that it never changes.
"""

from pathlib import Path
from typing import Final

from assent.store.migrate import Migration, load_schema
from tests.store.moves_sql import write_moves

SCHEMA: Final = Path(__file__).with_name("baseline.sql")


def frozen_schema() -> Migration:
    """Return version 0001 as a step of its own, after which every migration runs."""
    return Migration(1, load_schema().name, SCHEMA.read_text(encoding="utf-8"))


def freeze() -> None:
    """Take the present schema folder as version 0001."""
    SCHEMA.write_text(load_schema().sql, encoding="utf-8")


if __name__ == "__main__":
    write_moves()
    freeze()
