"""What a database holds, before and after: every table of the schema, how many rows, and a digest of them."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Self

import asyncpg

_TABLES = """
SELECT relname FROM pg_class
 WHERE relnamespace = to_regnamespace('assent') AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY relname
"""
_DIGEST = (
    "SELECT '{0}' AS name, count(*) AS rows, md5(string_agg(r::text, '|' ORDER BY r::text)) AS digest "
    "FROM assent.{0} r WHERE to_jsonb(r) ->> 'action' IS DISTINCT FROM 'command.refused'"
)
"""Without the audit entries of refused commands, which are no part of what a command does."""
_ACTIONS = (
    "SELECT action, count(*) AS rows FROM assent.audit_log WHERE action <> 'command.refused' GROUP BY 1"
)
_KEPT_REPLIES = "http_replies"


@dataclass(frozen=True)
class Tables:
    """All tables at one moment."""

    rows: Counter[str]
    digests: dict[str, str] = field(repr=False)
    actions: Counter[str]
    """Entries of the audit log by action."""

    @classmethod
    async def read(cls, url: str) -> Self:
        connection: asyncpg.Connection[Any] = await asyncpg.connect(url)
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                names = [row["relname"] for row in await connection.fetch(_TABLES)]
                if not names:
                    return cls(Counter(), {}, Counter())  # not migrated
                found = await connection.fetch(" UNION ALL ".join(_DIGEST.format(name) for name in names))
                actions = await connection.fetch(_ACTIONS)
        finally:
            await connection.close()
        return cls(
            Counter({row["name"]: row["rows"] for row in found}),
            {row["name"]: row["digest"] or "" for row in found},
            Counter({row["action"]: row["rows"] for row in actions}),
        )

    def since(self, before: "Tables") -> "TableChange":
        """What came and went, and which tables changed; kept replies to refused commands are no change."""
        changed = {name for name in self.digests if self.digests[name] != before.digests.get(name)}
        return TableChange(
            _difference(self.rows, before.rows),
            _difference(self.actions, before.actions),
            frozenset(changed - {_KEPT_REPLIES}),
        )


@dataclass(frozen=True)
class TableChange:
    """What happened to the tables: rows by table and audit entries by action, fewer counted as negative."""

    rows: dict[str, int]
    actions: dict[str, int]
    tables: frozenset[str]
    """Tables that are not as they were."""

    @property
    def is_nothing(self) -> bool:
        return not self.tables

    def is_like(self, other: "TableChange") -> bool:
        """Return whether the same happened, and as often; ids and hashes may differ."""
        return (self.rows, self.actions, self.tables) == (other.rows, other.actions, other.tables)


def _difference(after: Counter[str], before: Counter[str]) -> dict[str, int]:
    found = {name: after[name] - before[name] for name in after | before}
    return {name: number for name, number in found.items() if number}
