"""Counting what is sent to the database, so that tests can say that work in sets stays work in sets."""

import asyncpg


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
        self.statements.extend([query.query] * executions)

    def __len__(self) -> int:
        return len(self.statements)

    def clear(self) -> None:
        self.statements.clear()
