"""Northwind, the demo's company: its application, its people with their roles and keys, and what its terminal says.

The application has the supplier invoices and expense claims of the library, with what a company adds to them.
"""

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import asyncpg
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from assent.app import App
from assent.compiler.source import Source, read_source
from assent.definitions.publish import publish_sources
from assent.model.actor import SYSTEM, Actor
from assent.model.ids import new_id
from assent.model.mutation import Entity
from assent.people.api_keys import MARK, PREFIX_LENGTH, hash_of
from assent.store.database import Connection, Database
from assent.store.queries import load_queries

TEMPLATES: Final = ("invoice_approval", "expense_approval")


def sources() -> list[Source]:
    """Return the files of the templates, as their authors wrote them."""
    library = files("assent.templates")
    found = []
    for template in TEMPLATES:
        for file in ("contract.yaml", "patch.yaml", "flow.yaml"):
            place = library / template / file
            if place.is_file():
                found.append(read_source(place.read_bytes(), f"{template}/{file}"))
    return found


def _contracts() -> list[Any]:
    found: list[Any] = [source.data for source in sources()]
    return [data for data in found if "contract" in data]


app = App(_contracts())


@app.action("invoice.post", payload={"posted_at": {"type": "datetime", "required": True}})
def post(invoice: Entity, payload: Any) -> dict[str, Any]:
    """Into the ledger: here, a note of when."""
    return {"posted_at": payload["posted_at"]}


@app.operation("payroll.reimburse")
def reimburse(connection: Any, claim: dict[str, Any]) -> dict[str, Any]:
    """Reimburse in the transaction of the step; a real payroll would write a row here."""
    return {"payment_id": f"pay-{claim['employee']}-{claim['amount']}"}


_SQL: Final = load_queries("assent.demo", "company.sql")

ORG: Final = "northwind"
SETTINGS: Final[dict[str, Any]] = {
    "trusted_vendors": ["v-paper", "v-power"],
    "budget_owners": {"R&D": "bea", "Sales": "max"},
}
PEOPLE: Final[dict[str, tuple[str, list[str], str | None]]] = {
    "max": ("Max, head of the department", ["manager", "department_head"], None),
    "ann": ("Ann, accounts payable", ["clerk", "employee"], "max"),
    "carl": ("Carl, accounts payable", ["clerk", "employee"], "max"),
    "fin": ("Finley, finance", ["finance_manager", "finance"], "max"),
    "fay": ("Fay, finance", ["finance_manager", "finance"], "max"),
    "bea": ("Bea, owns the budget of R&D", ["employee"], "max"),
    "eve": ("Eve, operator", ["operator"], None),
}
"""User → name, roles, manager."""
CAPABILITIES: Final = {
    "employee": ["expenses:claim:execute"],
    "operator": ["*"],
    "clerk": ["invoice:read"],
    "finance_manager": ["invoice:read"],
}


def actor(name: str) -> Actor:
    roles = PEOPLE[name][1]
    capabilities = {capability for role in roles for capability in CAPABILITIES.get(role, ())}
    return Actor(name, roles=frozenset(roles), capabilities=frozenset(capabilities))


KEYS_FILE: Final = "keys.json"
"""User → key, in the demo's folder: what the terminal and the tutorial show works after a restart too."""

Keys = Mapping[str, str]


def read_keys(folder: Path) -> Keys | None:
    """Return the keys of an earlier start; none where their file is gone."""
    try:
        found: Keys = json.loads((folder / KEYS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if found.keys() >= PEOPLE.keys() else None


async def change_keys(database: Database, folder: Path) -> Keys:
    """Replace all API keys of the demo's org by new ones, which only the owner of the demo knows."""
    keys = {user: f"{MARK}{secrets.token_urlsafe(16)}" for user in PEOPLE}
    now = database.clock.now()
    rows = [
        {"id": new_id(now), "user_id": user, "prefix": key[:PREFIX_LENGTH], "key_hash": hash_of(key)}
        for user, key in keys.items()
    ]
    async with database.transaction(None) as connection:
        await connection.execute(_SQL.revoke_keys, ORG, now)
        await connection.execute(_SQL.give_keys, ORG, rows)
        _keep(keys, folder)
    return keys


def _keep(keys: Keys, folder: Path) -> None:
    """Write the keys, readable only by the user who runs the demo."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / KEYS_FILE
    place.unlink(missing_ok=True)
    with os.fdopen(
        os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as file:
        json.dump(keys, file, indent=2)


async def is_founded(database: Database) -> bool | None:
    """Return whether the company exists; None if it is incomplete."""
    async with database.transaction(None) as connection:
        founded: bool | None = await connection.fetchval(_SQL.find_org, ORG)
    return founded


async def finish(database: Database) -> None:
    """Note that everything is there."""
    async with database.transaction(None) as connection:
        await connection.execute(_SQL.open_org, ORG, "Northwind", SETTINGS | {"open": True})


async def found(database: Database) -> None:
    """Create the org with its people, and publish for them, in one transaction."""
    now = database.clock.now()
    async with database.transaction(None) as connection:
        await connection.execute(_SQL.open_org, ORG, "Northwind", SETTINGS)
        await _bring_people(connection)
        await publish_sources(connection, ORG, sources(), SYSTEM, now)


async def _bring_people(connection: Connection) -> None:
    members = [
        {
            "user_id": user,
            "name": name,
            "email": f"{user}@northwind.example",
            "roles": roles,
            "manager_id": manager,
        }
        for user, (name, roles, manager) in PEOPLE.items()
    ]
    rights = [{"role": role, "capability": name} for role, names in CAPABILITIES.items() for name in names]
    await connection.execute(_SQL.bring_members, ORG, members)
    await connection.execute(_SQL.give_rights, ORG, rights)


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
    from assent.http.web import is_built  # noqa: PLC0415  commands on this application serve nothing

    if is_built():
        console.print(
            Text("In the browser, as a person to choose: ", "dim"),
            Text(f"{address}/inbox", "bold cyan"),
            sep="",
        )
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
