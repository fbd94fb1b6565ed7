"""Northwind: the people of the demo, what their roles may do, and the keys with which they sign in."""

from datetime import datetime
from typing import Any, Final

from assent.demo.application import sources
from assent.http.api_keys import MARK, hash_of
from assent.model.actor import SYSTEM, Actor
from assent.model.ids import new_id
from assent.runtime.definitions.publish_sources import publish_sources
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


def key_of(name: str) -> str:
    """Easy to remember, and therefore only for a database that holds nothing of worth."""
    return f"{MARK}demo_{name}"


async def is_founded(database: Database) -> bool | None:
    """None when somebody began to and did not finish."""
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
        await _bring_people(connection, now)
        await publish_sources(connection, ORG, sources(), SYSTEM, now)


async def _bring_people(connection: Connection, now: datetime) -> None:
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
    keys = [
        {"id": new_id(now), "user_id": user, "prefix": key_of(user)[:11], "key_hash": hash_of(key_of(user))}
        for user in PEOPLE
    ]
    rights = [{"role": role, "capability": name} for role, names in CAPABILITIES.items() for name in names]
    await connection.execute(_SQL.bring_members, ORG, members)
    await connection.execute(_SQL.give_rights, ORG, rights)
    await connection.execute(_SQL.give_keys, ORG, keys)
