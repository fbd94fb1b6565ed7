"""Counting what is sent to the database, so that tests can say that work in sets stays work in sets."""

import asyncpg


class StatementCounter:
    """An observer for `Database.observe`: remembers every statement, BEGIN and COMMIT included."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def __call__(self, query: asyncpg.connection.LoggedQuery) -> None:
        self.statements.append(query.query)

    def __len__(self) -> int:
        return len(self.statements)

    def clear(self) -> None:
        self.statements.clear()
