"""The people of a test's org, with their roles, and what their roles may do."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator

from assent.kernel.entities import read_actor
from assent.model.actor import Actor
from assent.model.mutation import Refused, Rejection
from assent.model.parse import Declaration, parse_declaration
from assent.model.problems import Invalid
from assent.model.terms import Capability
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.testing", "testing.sql")


class ScenarioMember(Declaration):
    """A member of the org."""

    kind: Literal["user", "service_account"] = "user"
    roles: tuple[str, ...] = ()
    name: str | None = None
    email: str | None = None
    manager: str | None = None
    """Another one of them."""
    active: bool = True


def _from_roles(value: Any) -> Any:
    return {"roles": value} if isinstance(value, Sequence) and not isinstance(value, str) else value


MemberOrRoles = Annotated[
    ScenarioMember, BeforeValidator(_from_roles, json_schema_input_type=ScenarioMember | tuple[str, ...])
]
"""A member; just a list means their roles."""


class ScenarioPeople(Declaration):
    people: Mapping[str, MemberOrRoles]
    roles: Mapping[str, tuple[Capability, ...]] = {}


def read_people(people: Mapping[str, Any], roles: Mapping[str, Any] | None = None) -> ScenarioPeople:
    """Return what was given, checked; raise `Invalid` with every problem."""
    found, problems = parse_declaration(ScenarioPeople, {"people": dict(people), "roles": dict(roles or {})})
    if found is None:
        raise Invalid(problems)
    return found


async def keep_org(connection: Connection, org_id: str, settings: Mapping[str, Any]) -> None:
    """Keep an org with these settings; those that it has and that are not named stay."""
    await connection.execute(_SQL.put_org, org_id, dict(settings))


async def keep_members(connection: Connection, org_id: str, members: Mapping[str, ScenarioMember]) -> None:
    await connection.execute(
        _SQL.put_members, org_id, [_row(org_id, name, member) for name, member in members.items()]
    )


async def keep_roles(connection: Connection, org_id: str, roles: Mapping[str, Sequence[str]]) -> None:
    pairs = [(role, capability) for role, capabilities in roles.items() for capability in capabilities]
    names, capabilities = ([pair[side] for pair in pairs] for side in (0, 1))
    await connection.execute(_SQL.put_role_capabilities, org_id, names, capabilities)


async def find_actor(connection: Connection, org_id: str, name: str) -> Actor:
    """Return a member as an actor, with the roles and capabilities that the HTTP API would find."""
    actor = await read_actor(connection, org_id, name)
    if actor is None:
        raise Refused(Rejection("NOT_A_MEMBER", f"{name} is not an active member of {org_id}", ("actor",)))
    return actor


def _row(org_id: str, name: str, member: ScenarioMember) -> dict[str, Any]:
    return {
        "user_id": name,
        "kind": member.kind,
        "name": member.name or name,
        "email": member.email or f"{name}@{org_id}.example",
        "roles": list(member.roles),
        "manager_id": member.manager,
        "active": member.active,
    }
