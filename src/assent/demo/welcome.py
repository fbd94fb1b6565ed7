"""What the demo's terminal says: what is there, who is waited for, and what to try first."""

from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import asyncpg
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from assent.demo.company import ORG, PEOPLE, Keys
from assent.store.database import Database
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.demo", "company.sql")
_APPROVED: Final = '{"answer":"approved"}'


async def welcome(database: Database, console: Console, address: str, keys: Keys) -> None:
    async with database.transaction(ORG) as connection:
        documents = await connection.fetch(_SQL.count_documents, ORG)
        waiting = await connection.fetch(_SQL.find_waiting, ORG)
        (examples,) = await connection.fetch(_SQL.find_examples, ORG)
    console.print(Text("\nNorthwind", "bold"), Text("is open:", "dim"), Text(address, "bold cyan"))
    console.print(Padding(_documents(documents), (1, 2)))
    console.print(Padding(_people(waiting, keys), (0, 2)))
    console.print(Text("\nTry:", "bold"))
    for title, command in _Tries(address, keys).commands(waiting, examples):
        console.print(Text(f"  {title}", "dim"))
        console.print(Text(f"  {command}\n"), soft_wrap=True)
    console.print(Text("\nAll routes, to read and to try: ", "dim"), Text(f"{address}/docs", "cyan"), sep="")
    console.print(Text("Ctrl-C ends it; the documents stay for the next time.", "dim"))


def _documents(rows: list[asyncpg.Record]) -> Table:
    table = Table("what", "where it stands", "how many", box=None, pad_edge=False, header_style="dim")
    for row in rows:
        table.add_row(row["kind"], row["place"], str(row["number"]))
    return table


def _people(waiting: list[asyncpg.Record], keys: Keys) -> Table:
    counts = {row["user_id"]: row["number"] for row in waiting}
    table = Table("who", "signs in with", "is waited for by", box=None, pad_edge=False, header_style="dim")
    table.columns[1].no_wrap = True
    for user, (name, _, _) in PEOPLE.items():
        number = counts.get(user, 0)
        table.add_row(name, keys[user], f"{number} documents" if number else "–")
    return table


@dataclass(frozen=True, slots=True)
class _Tries:
    """What a newcomer does first: each with the command that does it."""

    address: str
    keys: Keys

    def commands(self, waiting: list[asyncpg.Record], examples: asyncpg.Record) -> list[tuple[str, str]]:
        first = next((row for row in waiting if row["user_id"] == "fin"), None)
        tries = [("What waits for Finley?", self._get("fin", "/api/inbox?limit=3"))]
        if first is not None:
            decide = f"/api/approvals/{first['request_id']}/decide"
            tries.append((f"Finley approves {first['title']}", self._post("fin", decide, _APPROVED)))
        if examples["asked_by_ann"] is not None:
            own = f"/api/approvals/{examples['asked_by_ann']}/decide"
            tries.append(("Ann approves her own: refused", self._post("ann", own, _APPROVED)))
        if examples["posted"] is not None:
            place = f"/api/entities/invoice/{examples['posted']}"
            tries.append(("Who approved what, exactly?", self._get("eve", f"{place}/approvals")))
            edit = self._post("ann", place, '{"data":{"grand_total":1}}', "-X PATCH -H 'If-Match: *'")
            tries.append(("Ann edits what is posted: refused", edit))
        return tries

    def _get(self, who: str, path: str) -> str:
        return f"curl -s -H 'Authorization: Bearer {self.keys[who]}' '{self.address}{path}'"

    def _post(self, who: str, path: str, body: str, how: str = "-X POST") -> str:
        head = (
            f"-H 'Authorization: Bearer {self.keys[who]}' -H 'Content-Type: application/json'"
            f" -H 'Idempotency-Key: {uuid4()}'"
        )
        return f"curl -s {how} {head} -d '{body}' '{self.address}{path}'"
