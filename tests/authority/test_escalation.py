"""A search for a way up: from each single capability, over all routes that administer, nothing more is ever held.

The searcher acts by token and by every key that they get hold of. What they control is themselves, a colleague who
has nothing and tells them everything, members whom they made, and accounts whose keys they have. The search is random
and bounded; its seed is in the message of a failure, and `ASSENT_TEST_SEED` chooses another.
"""

import os
import random
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from assent.model.actor import Actor
from assent.model.policy import check_policy
from assent.store.clock import MovedClock
from assent.store.database import Connection, Database
from tests.authority.known_capabilities import all_capabilities, unexplained
from tests.http.application import app
from tests.http.callers import SETTINGS, bearer, client_of, token
from tests.http.doors import create_app
from tests.http.route_table import ROUTES
from tests.postgres import SETTINGS as STORE_SETTINGS
from tests.postgres import START, Databases
from tests.world import grant

SEED = int(os.environ.get("ASSENT_TEST_SEED", "20260302"))
CONTRACTS = list(app.registry.contracts.values())
CAPABILITIES = all_capabilities(CONTRACTS)
ADMINISTERING = {
    "members:manage",
    "roles:manage",
    "keys:manage",
    "approvals:delegate",
    "org:manage",
    "rules:manage",
    "secrets:manage",
}
# The clock stands still, so a limit that is reached once would refuse all that follows.
UNLIMITED = SETTINGS.replace(
    rate_workflows_per_minute=0,
    rate_entities_per_minute=0,
    rate_reads_per_minute=0,
    rate_failed_sign_ins_per_minute=0,
)
STEPS_MAX = 20
STEPS_OF_ADMINISTRATORS_MAX = 150

PEOPLE: dict[str, tuple[list[str], str, str | None]] = {
    "boss": (["admin"], "user", None),
    "mia": (["plain"], "user", "boss"),
    "sam": (["searching"], "user", "mia"),
    "pal": ([], "user", "mia"),
    "vera": (["finance_manager", "auditing"], "user", "mia"),
    "superbot": (["admin"], "service_account", None),
    "auditbot": (["auditing"], "service_account", None),
    "dullbot": ([], "service_account", None),
}
"""User → roles, kind, manager. `sam` searches; `pal` is the colleague."""
ROLES = ["admin", "wide", "auditing", "searching", "plain", "finance_manager", "manager", "clerk"]


def start_from(capability: str) -> frozenset[str]:
    return ADMINISTRATORS.get(capability, frozenset({capability}))


ADMINISTRATORS = {
    "members:manage and keys:manage": frozenset({"members:manage", "keys:manage"}),
    "everything that administers": frozenset(ADMINISTERING),
}
"""Capabilities that are worth more together."""


@dataclass
class SearchState:
    """What the searcher knows and has."""

    org: str
    rng: random.Random
    door: FastAPI
    database: Database
    now: datetime
    start: Actor
    clients: list[httpx.AsyncClient] = field(default_factory=list)
    members: list[str] = field(default_factory=lambda: list(PEOPLE))
    made: set[str] = field(default_factory=set)
    keyed: set[str] = field(default_factory=set)
    keys: list[str] = field(default_factory=list)
    delegations: list[str] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    """Which moves were taken at least once."""
    gained: dict[str, str] = field(default_factory=dict)
    """Kind of gain → the first of its kind."""

    def member(self) -> str:
        return self.rng.choice(self.members)

    def roles(self) -> list[str]:
        return self.rng.sample(ROLES, self.rng.randint(0, 2))

    def capabilities(self) -> list[str]:
        own = sorted(self.start.capabilities)
        known = [*own, "*", "members:manage", self.rng.choice(CAPABILITIES)]
        return self.rng.sample(known, self.rng.randint(0, 3))


Move = Callable[[SearchState], tuple[str, str, Any]]


def _create_member(state: SearchState) -> tuple[str, str, Any]:
    kind = state.rng.choice(["user", "service_account"])
    body = {"user_id": f"made-{len(state.members)}", "name": "Made", "kind": kind, "roles": state.roles()}
    if state.rng.random() < 0.3:
        body["manager_id"] = state.member()
    return "POST", "/api/members", body


def _change_member(state: SearchState) -> tuple[str, str, Any]:
    changes: dict[str, Any] = state.rng.choice(
        [{"roles": state.roles()}, {"roles": state.roles()}, {"manager_id": state.member()}, {"active": True}]
    )
    return "PATCH", f"/api/members/{state.member()}", changes


def _deactivate(state: SearchState) -> tuple[str, str, Any]:
    return "POST", f"/api/members/{state.member()}/deactivate", None


def _set_role(state: SearchState) -> tuple[str, str, Any]:
    role, capabilities = state.rng.choice(ROLES), set(state.capabilities())
    if role == "searching":
        # Whoever gives up what they have searches no further.
        capabilities |= state.start.capabilities
    return "PUT", f"/api/roles/{role}", {"capabilities": sorted(capabilities)}


def _create_key(state: SearchState) -> tuple[str, str, Any]:
    body: dict[str, Any] = {"name": "found"}
    if state.rng.random() < 0.6:
        body["user"] = state.member()
    if state.rng.random() < 0.3:
        body["expires_at"] = (
            state.now + timedelta(days=state.rng.choice([0, 1, 900]), minutes=5)
        ).isoformat()
    if state.rng.random() < 0.3:
        body["scopes"] = state.rng.choice([["keys:*"], ["members:*", "keys:write"], ["*"]])
    if state.rng.random() < 0.2:
        body["partition_id"] = state.rng.choice(["north", "south"])
    return "POST", "/api/keys", body


def _revoke_key(state: SearchState) -> tuple[str, str, Any]:
    return "POST", f"/api/keys/{state.rng.choice(state.keys or [_NOBODYS])}/revoke", None


def _create_delegation(state: SearchState) -> tuple[str, str, Any]:
    to_user = state.rng.choice(["sam", state.member()])
    return "POST", "/api/delegations", {"from_user": state.member(), "to_user": to_user}


def _revoke_delegation(state: SearchState) -> tuple[str, str, Any]:
    return "POST", f"/api/delegations/{state.rng.choice(state.delegations or [_NOBODYS])}/revoke", None


def _save_settings(state: SearchState) -> tuple[str, str, Any]:
    return "PUT", "/api/org/settings", _settings(state)


def _change_settings(state: SearchState) -> tuple[str, str, Any]:
    return "PATCH", "/api/org/settings", _settings(state)


def _settings(state: SearchState) -> dict[str, Any]:
    given: dict[str, Any] = {"publish": state.rng.choice(["direct", "four_eyes", None]), "retention_days": 30}
    return {name: value for name, value in given.items() if state.rng.random() < 0.6}


def _save_rule(state: SearchState) -> tuple[str, str, Any]:
    outcome, then = state.rng.choice(
        [
            ("deny", {"message": "no"}),
            ("set", {"title": "'mine'"}),
            ("emit", {"key": "payment:{entity.total}"}),
        ]
    )
    rule = {"action": "create", "timing": "before", "condition": "true", "outcome": outcome, "then": then}
    return "PUT", f"/api/rules/expense/{state.rng.choice(['one', 'two'])}", rule


def _delete_rule(state: SearchState) -> tuple[str, str, Any]:
    return "DELETE", "/api/rules/expense/one", None


def _rotate_signing_secret(state: SearchState) -> tuple[str, str, Any]:
    return "POST", "/api/signing-secrets/rotate", None


def _post_test_alert(state: SearchState) -> tuple[str, str, Any]:
    return "POST", "/api/org/test-alert", None


def _retire_signing_secrets(state: SearchState) -> tuple[str, str, Any]:
    return "POST", "/api/signing-secrets/retire", None


_NOBODYS = "01890a5d-ac96-774b-bcce-b302099a8057"

MOVES: dict[str, Move] = {
    "create_member_of_org": _create_member,
    "change_member_of_org": _change_member,
    "deactivate_member": _deactivate,
    "set_role": _set_role,
    "create_key": _create_key,
    "revoke_key": _revoke_key,
    "create_delegation": _create_delegation,
    "revoke_delegation": _revoke_delegation,
    "save_settings_of_org": _save_settings,
    "change_settings_of_org": _change_settings,
    "save_rule_of_org": _save_rule,
    "delete_rule_of_org": _delete_rule,
    "rotate_signing_secret": _rotate_signing_secret,
    "retire_signing_secrets": _retire_signing_secrets,
    "post_test_alert": _post_test_alert,
}
SELDOM = {
    "deactivate_member",
    "revoke_key",
    "revoke_delegation",
    "delete_rule_of_org",
    "rotate_signing_secret",
    "retire_signing_secrets",
}
"""What ends things is tried less often, so that there is something to end."""


FOUR_EYES = {"publish": "four_eyes"}


async def furnish(connection: Connection, org: str, held: frozenset[str]) -> None:
    await connection.execute(
        "INSERT INTO assent.orgs (org_id, name, settings) VALUES ($1, $1, $2)", org, FOUR_EYES
    )
    carried = {
        "admin": ["*"],
        "wide": CAPABILITIES,
        "auditing": ["audit:read"],
        "searching": sorted(held),
    }
    await grant(connection, carried, org)
    await connection.executemany(
        "INSERT INTO assent.members (org_id, user_id, name, roles, kind, manager_id) VALUES ($1, $2, $2, $3, $4, $5)",
        [(org, user, *rest) for user, rest in PEOPLE.items()],
    )


async def search(state: SearchState, steps: int) -> None:
    weights = [1 if name in SELDOM else 4 for name in MOVES]
    for _ in range(steps):
        client = state.rng.choice([state.clients[0], *state.clients])
        (name,) = state.rng.choices(list(MOVES), weights)
        method, path, body = MOVES[name](state)
        answer = await client.request(method, path, json=body, headers={"If-Match": "*"})
        assert answer.status_code < 500, answer.text
        if answer.status_code < 300:
            state.accepted.add(name)
            _learn(state, name, answer.json())
            await _look(state, f"{method} {path} {body}")


def _learn(state: SearchState, name: str, answer: dict[str, Any]) -> None:
    if name == "create_member_of_org":
        state.members.append(answer["user_id"])
        state.made.add(answer["user_id"])
    elif name == "create_key":
        state.keys.append(answer["id"])
        state.keyed.add(answer["user_id"])
        state.clients.append(client_of(state.door, bearer(answer["key"])))
    elif name == "create_delegation":
        state.delegations.append(answer["id"])


async def _look(state: SearchState, step: str) -> None:
    """Write down what is held now that was not held at the start."""
    async with state.database.transaction(None) as connection:
        members = {row["user_id"]: row for row in await connection.fetch(_MEMBERS, state.org)}
        keys = [row["key"] for row in await connection.fetch(_KEYS, state.org)]
        delegations = await connection.fetch(_DELEGATIONS, state.org)
        rules = {row["outcome"] for row in await connection.fetch(_RULES, state.org)}
        settings = await connection.fetchval(_SETTINGS, state.org)

    def gained(kind: str, what: object) -> None:
        state.gained.setdefault(kind, f"{what} after {step}")

    own = {"sam", *state.keyed, *(name for name in state.made if members[name]["kind"] != "user")}
    for name in own | state.made | {"pal"}:
        if more := [one for one in members[name]["capabilities"] if not state.start.can(one)]:
            gained("capability", f"{name} holds {more}")
    for name in own:
        actor = Actor(name, roles=frozenset(members[name]["roles"]))
        if more := [right for right in _rights(actor) if right not in _rights(state.start)]:
            gained("right of a contract", f"{name} may {more}")
    if members["sam"]["roles"] != ["searching"] or members["sam"]["manager_id"] != "mia":
        gained("own roles or manager", dict(members["sam"]))
    if below := [name for name, row in members.items() if row["manager_id"] in own]:
        gained("being a manager", below)
    if mine := [dict(row) for row in delegations if row["to_user"] in own and row["from_user"] not in own]:
        gained("standing in", mine)
    for key in keys:
        if key.get("partition_id") != "north":
            gained("partition", key)
        if not key["expires_at"] or datetime.fromisoformat(key["expires_at"]) > state.now + timedelta(
            hours=1
        ):
            gained("time", key)
    for kind in _gained_by_settings_and_rules(state.start, settings, rules):
        gained(kind, (settings, rules))
    people = [row for row in members.values() if row["active"] and row["kind"] == "user"]
    if not any("*" in row["capabilities"] for row in people):
        gained("the last `*` is gone", step)


def _gained_by_settings_and_rules(start: Actor, settings: dict[str, Any], rules: set[str]) -> list[str]:
    is_gained = {
        "publishing alone": settings.get("publish") != "four_eyes",
        "emitting by a rule": "emit" in rules and not start.can("events:emit"),
        "writing by a rule": "set" in rules and "expense:update" not in _rights(start),
    }
    return [kind for kind, is_so in is_gained.items() if is_so]


def _rights(actor: Actor) -> set[str]:
    return {
        f"{contract.name}:{verb}"
        for contract in CONTRACTS
        for verb in contract.permissions
        if check_policy(contract, verb, actor) is None
    }


_MEMBERS = """
SELECT m.*, ARRAY(SELECT c.capability FROM assent.role_capabilities c
                   WHERE c.org_id = m.org_id AND c.role = ANY (m.roles)) AS capabilities
  FROM assent.members m WHERE m.org_id = $1
"""
_KEYS = "SELECT to_jsonb(k) AS key FROM assent.api_keys k WHERE org_id = $1"
_RULES = "SELECT outcome FROM assent.workflow_rules WHERE org_id = $1"
_SETTINGS = "SELECT settings FROM assent.orgs WHERE org_id = $1"
_DELEGATIONS = "SELECT * FROM assent.approval_delegations WHERE org_id = $1 AND revoked_at IS NULL"


@pytest.fixture(scope="module")
async def searched(databases: Databases, template: str) -> AsyncIterator[tuple[Database, FastAPI]]:
    """One database and one door for all searches: each has an org of its own."""
    async with databases.fresh(template) as url:
        database = await Database.open(url, settings=STORE_SETTINGS, clock=MovedClock(START))
        yield database, create_app(app, database, UNLIMITED)
        await database.close()


@pytest.mark.parametrize("capability", [*CAPABILITIES, *ADMINISTRATORS])
async def test_no_capability_leads_to_another(searched: tuple[Database, FastAPI], capability: str) -> None:
    database, door = searched
    held = start_from(capability)
    org = "of:" + re.sub(r"[^a-z0-9:]", "_", capability)
    async with database.transaction(None) as connection:
        await furnish(connection, org, held)
    start = Actor("sam", roles=frozenset({"searching"}), capabilities=held)
    state = SearchState(org, random.Random(f"{SEED} {capability}"), door, database, START, start)  # noqa: S311
    state.clients.append(client_of(door, bearer(token(START, "sam", org, partition_id="north"))))
    administers = any(start.can(name) for name in ADMINISTERING)
    await search(state, STEPS_OF_ADMINISTRATORS_MAX if administers else STEPS_MAX)
    for client in state.clients:
        await client.aclose()
    assert state.gained == {}, f"from {sorted(held)}, with ASSENT_TEST_SEED={SEED}"
    if held >= ADMINISTERING:
        assert len(state.accepted) > len(MOVES) / 2, "the search tries only what is refused anyway"


def test_every_route_that_administers_is_searched() -> None:
    tags = {"members", "roles", "keys", "delegations", "org", "rules", "signing secrets"}
    routes = ROUTES
    writes = {route.name for route in routes if tags & set(route.tags) and route.methods != {"GET"}}  # type: ignore[attr-defined]
    assert writes == set(MOVES)


def test_every_question_is_understood() -> None:
    assert unexplained() == set()
    assert {"members:manage", "audit:read", "workflows:retry", "invoice:create", "events:*"} < set(
        CAPABILITIES
    )
