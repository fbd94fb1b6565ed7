"""Northwind: the people of the demo, what their roles may do, and the keys with which they sign in."""

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from assent.definitions.publish_sources import publish_sources
from assent.demo.application import sources
from assent.model.actor import SYSTEM, Actor
from assent.model.ids import new_id
from assent.people.api_keys import MARK, PREFIX_LENGTH, hash_of
from assent.store.database import Connection, Database
from assent.store.queries import load_queries

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
    """The keys of an earlier start; none where their file is gone."""
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
    """Everything is there."""
    async with database.transaction(None) as connection:
        await connection.execute(_SQL.open_org, ORG, "Northwind", SETTINGS | {"open": True})


async def found(database: Database) -> None:
    """The org, its people and what is published for them, in one transaction."""
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
