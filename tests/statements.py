"""Counting what is sent to the database, so that tests can say that work in sets stays work in sets."""

import re
from typing import Final

import asyncpg

_NAME: Final = re.compile(r"/\* (\w+) \*/")
_INLINED: Final = re.compile(r"decode\('[0-9a-f]*', 'hex'\)")
"""A text in a message without arguments. In that which begins a transaction it differs with the org and the time."""


def statements_of(message: str) -> list[str]:
    """Return the statements of one message: a command puts several into it, each on lines of its own.

    To prepare one is no execution of it.
    """
    parts = [part for part in message.split(";\n") if part.strip()]
    return [part for part in parts if not part.startswith("PREPARE ")] or [message]


class StatementCounter:
    """An observer for `Database.observe`: remembers every statement, BEGIN and COMMIT included.

    `executemany` counts once for each set of arguments. COPY is missing: asyncpg tells it to no observer. The
    renewal of plans every few seconds is left out: it belongs to no transaction.
    """

    def __init__(self) -> None:
        self.statements: list[str] = []

    def __call__(self, query: asyncpg.connection.LoggedQuery) -> None:
        if query.query.startswith("/* renew_plans */"):
            return
        # The arguments of one execution come as a tuple, those of many as whatever the caller passed.
        executions = 1 if isinstance(query.args, tuple) else len(query.args)
        self.statements.extend(statements_of(_INLINED.sub("$n", query.query)) * executions)

    @property
    def names(self) -> list[str]:
        """The names of the statements in our `.sql` files; of others, such as COMMIT, their first word."""
        return [
            found[1] if (found := _NAME.search(text)) else text.split()[0].rstrip(";")
            for text in self.statements
        ]

    def __len__(self) -> int:
        return len(self.statements)

    def clear(self) -> None:
        self.statements.clear()
