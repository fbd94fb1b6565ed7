"""`assent.model.moves` as a function of the schema: the file `15_status_moves.sql` is written by `make baseline`.

A function and not a table: a look-up in a table cost a trigger 5.9 µs for each row whose status moves, this 0.8.
"""

from importlib.resources import files
from pathlib import Path
from typing import Final

from assent.model.moves import MOVES, Moves

FILE: Final = Path(str(files("assent.store").joinpath("schema", "15_status_moves.sql")))

_TEXT: Final = """\
-- Which status may follow which, by table. Generated from assent.model.moves by `make baseline`; do not edit.
--
-- A function and not a table: a look-up in a table cost a trigger 5.9 µs for each row whose status moves, this 0.8.
CREATE FUNCTION assent.status_may_move(of_table text, old_status text, new_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN new_status = ANY (CASE of_table
{tables}
  ELSE '{{}}'::text[] END);
-- Triggers run as the role that writes, and call it.
GRANT EXECUTE ON FUNCTION assent.status_may_move(text, text, text) TO assent_engine;
"""


def moves_as_sql() -> str:
    """Return the text of the file."""
    return _TEXT.format(tables="\n".join(_table(table, moves) for table, moves in MOVES.items()))


def _table(table: str, moves: Moves) -> str:
    lines = [f"    WHEN '{old}' THEN {_array(new)}" for old, new in moves.items() if new]
    return "\n".join([f"  WHEN '{table}' THEN CASE old_status", *lines, "    ELSE '{}' END"])


def _array(statuses: frozenset[str]) -> str:
    return "ARRAY[" + ", ".join(f"'{status}'" for status in sorted(statuses)) + "]"


def write_moves() -> None:
    """Write the file."""
    FILE.write_text(moves_as_sql(), encoding="utf-8")
