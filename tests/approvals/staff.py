"""The people of acme, and short ways to ask for them."""

from typing import Any

from assent.approvals import PeopleQuery, find_people
from assent.model.approval import FoundPeople, GroupQuery, PeopleSearch
from assent.people import MembersDirectory
from assent.store.connection import Connection
from tests.postgres import START
from tests.rows import insert, insert_member

DIRECTORY = MembersDirectory()

STAFF = {
    "dan": {"roles": ["director"]},
    "cal": {"roles": ["head"], "manager_id": "dan"},
    "bob": {"roles": ["lead"], "manager_id": "cal", "active": False},
    "ann": {"roles": ["clerk"], "manager_id": "bob"},
    "fay": {"roles": ["finance"], "manager_id": "cal", "email": "fay@acme.example"},
    "fin": {"roles": ["finance", "legal"], "manager_id": "cal"},
    "flo": {"roles": ["finance"], "manager_id": "cal"},
    "gus": {"roles": ["finance"], "manager_id": "cal", "active": False},
    "bot": {"roles": ["finance"], "kind": "service_account"},
}
"""ann's manager is bob, who has left; above him are cal and dan. gus has left Finance."""


async def insert_staff(connection: Connection) -> None:
    for user_id, columns in STAFF.items():
        await insert_member(connection, user_id=user_id, **columns)
    await insert(connection, "role_capabilities", role="head", capability="invoice:*")


def wanted(strategy: str, *names: str, name: str = "approvers", **given: Any) -> GroupQuery:
    seek = {key: given.pop(key) for key in ("pick", "levels") if key in given}
    return GroupQuery(name, PeopleSearch(strategy, names, **seek), **given)


def asked(*groups: GroupQuery, **given: Any) -> PeopleQuery:
    return PeopleQuery(
        **{"org_id": "acme", "workflow": "invoice", "subject_id": "ann", "groups": groups} | given
    )


async def find(connection: Connection, *groups: GroupQuery, **given: Any) -> FoundPeople:
    (found,) = await find_people(connection, DIRECTORY, [asked(*groups, **given)], START)
    assert isinstance(found, FoundPeople), found
    return found


def names(found: FoundPeople) -> list[str]:
    """Who is asked, of all groups."""
    return [person.user_id for group in found.groups for person in group.people]


def skipped(found: FoundPeople) -> dict[str, str]:
    return {one["user_id"]: one["why"] for group in found.groups for one in group.skipped}
