"""The publisher of a definition: rights, and rows that are inserted once, published and archived, never changed.

The caller holds the lock of the key.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from assent.compiler.publish_rights import RequiredCapability, required_capabilities
from assent.definitions.definition import DefinitionVersion, Kind, Status
from assent.model.actor import Actor
from assent.model.ids import new_id
from assent.model.mutation import Refused, Rejection
from assent.model.problems import Problem
from assent.model.workflow import Workflow
from assent.store.connection import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

SQL: Final = load_queries("assent.definitions", "definitions.sql")

AUTHORED: Final = frozenset({"flow", "org_patch"})
"""What people write; everything else follows from it, or is the operator's."""


@dataclass(frozen=True, slots=True)
class Publisher:
    """The publisher, the org and the time: what every step of publishing needs."""

    connection: Connection
    org_id: str
    actor: Actor
    now: datetime
    capabilities: Mapping[str, str] = field(default_factory=dict)
    """What the application's things take to be used, where it says so: `operation:payroll.pay` → `payroll:pay`."""
    reviewed: bool = False
    """Whether a second person publishes what others wrote, or nothing is said that was not said before."""

    async def lock_entity_type(self, entity_type: str) -> None:
        """Take the lock of an org's entity type: one at a time changes its patches and effective workflows."""
        await self.connection.execute(SQL.lock_definitions, self.org_id, f"entity:{entity_type}")

    async def lock_patch(self, name: str) -> None:
        """Taken after the entity type's: a name is one patch's, whatever entity type it is for."""
        await self.connection.execute(SQL.lock_definitions, self.org_id, f"patch:{name}")

    async def lock_flow(self, key: str) -> None:
        await self.connection.execute(SQL.lock_definitions, self.org_id, f"flow:{key}")

    async def lock_for(self, row: Row) -> None:
        """Take the lock of whatever a row is a version of."""
        if row["definition_kind"] == "flow":
            await self.lock_flow(row["key"])
        else:
            await self.lock_entity_type(row["entity_type"])

    async def insert(
        self, kind: Kind, key: str, columns: Mapping[str, Any], *, status: Status = "published"
    ) -> DefinitionVersion:
        """Insert a row under the next version of its key, or the version among the columns."""
        row = {
            "org_id": self.org_id,
            "id": new_id(self.now),
            "definition_kind": kind,
            "key": key,
            "name": key,
            "status": status,
            "created_by": self.actor.id,
            "at": self.now,
        }
        kept = await self.connection.fetchrow(SQL.insert_definition, row | dict(columns))
        assert kept is not None
        return DefinitionVersion.of(kept)

    async def publish(
        self, kind: Kind, key: str, columns: Mapping[str, Any]
    ) -> tuple[DefinitionVersion, bool]:
        """Have exactly this published under a key, and nothing else; false where it was already.

        What says and compiled to the same as an earlier version is that version come back.
        """
        row = await self._same(kind, key, columns)
        if row is not None and row["status"] == "published":
            return DefinitionVersion.of(row), False
        await self._require_second_person(kind, key)
        await self.archive_published(kind, key)
        return (await self.publish_again(row) if row else await self.insert(kind, key, columns)), True

    async def keep(
        self, kind: Kind, key: str, columns: Mapping[str, Any], status: Status
    ) -> DefinitionVersion:
        """Have this under a key in a status; an archived one need not be kept twice."""
        if status == "published":
            return (await self.publish(kind, key, columns))[0]
        row = await self._same(kind, key, columns)
        return DefinitionVersion.of(row) if row else await self.insert(kind, key, columns, status=status)

    async def publish_again(self, archived: Row) -> DefinitionVersion:
        row = await self.connection.fetchrow(SQL.publish_if_archived, self.org_id, archived["id"], self.now)
        assert row is not None, "the key is locked, so no other transaction changes its versions"
        return DefinitionVersion.of(row)

    async def archive_published(self, kind: Kind, key: str) -> None:
        await self.connection.execute(SQL.archive_published, self.org_id, kind, key, self.now)

    async def published(self, kind: Kind, key: str) -> DefinitionVersion | None:
        row = await self.connection.fetchrow(SQL.find_published, self.org_id, kind, key)
        return DefinitionVersion.of(row) if row else None

    async def needs_two_people(self) -> bool:
        """Return whether the org publishes with four eyes: its setting `publish` is `four_eyes`."""
        found: bool = await self.connection.fetchval(SQL.needs_two_people, self.org_id)
        return found

    async def _require_second_person(self, kind: Kind, key: str) -> None:
        if kind in AUTHORED and not self.reviewed and await self.needs_two_people():
            message = f"`{key}` is not one person's to publish: {self.org_id} publishes with four eyes"
            hint = "keep it as a draft, and ask a person who did not write it to publish it"
            raise Refused(Rejection("FOUR_EYES_REQUIRED", message, ("actor",), hint=hint))

    async def _same(self, kind: Kind, key: str, columns: Mapping[str, Any]) -> Row | None:
        said = [columns.get(column) for column in ("compiled_hash", "source_json", "body_patches_json")]
        return await self.connection.fetchrow(SQL.find_same, self.org_id, kind, key, *said)


_PERSON: Final = "user:"


class PublishDenied(Refused):
    """The publisher lacks rights that workflows use; it names all of them."""

    def __init__(self, publisher: str, keys: Iterable[str], problems: Iterable[Problem]) -> None:
        self.publisher = publisher
        self.keys = tuple(keys)
        self.problems = tuple(dict.fromkeys(problems))
        named = " and ".join(f"`{key}`" for key in self.keys)
        why = "; ".join(problem.message for problem in self.problems)
        message = f"{publisher} may not publish {named}: {why}"
        super().__init__(Rejection("POLICY_DENIED", message, ("actor",), self.problems))

    def with_other(self, other: "PublishDenied") -> "PublishDenied":
        return PublishDenied(self.publisher, [*self.keys, *other.keys], [*self.problems, *other.problems])


async def require_rights(publisher: Publisher, workflow: Workflow) -> None:
    """D29: raise `PublishDenied` with everything that the workflow uses and its publisher does not hold."""
    needs = required_capabilities(
        workflow.nodes.values(), relaxed_here=workflow.kind == "flow", publisher=publisher.actor.id
    )
    problems = [*_missing(publisher, needs), *[one async for one in _lent_accounts(publisher, needs)]]
    if problems:
        raise PublishDenied(publisher.actor.id, [workflow.key], problems)


def _missing(publisher: Publisher, needs: Iterable[RequiredCapability]) -> Iterator[Problem]:
    for need in needs:
        capability = publisher.capabilities.get(need.thing, need.capability)
        if not publisher.actor.can(capability):
            yield _problem(need, f"which takes {capability}")


async def _lent_accounts(publisher: Publisher, needs: Iterable[RequiredCapability]) -> AsyncIterator[Problem]:
    """Yield what service accounts hold that steps run as: a publisher lends no more than they hold."""
    lent = [need for need in needs if need.thing.startswith("service_account:")]
    actor = publisher.actor
    if not lent or actor.can("*"):
        return
    names = sorted({need.thing.partition(":")[2] for need in lent})
    rows = await publisher.connection.fetch(SQL.read_service_accounts, publisher.org_id, names)
    accounts = {row["user_id"]: row for row in rows}
    for need in lent:
        account = accounts.get(need.thing.partition(":")[2])
        if account is None:
            # An account that is made later could be given rights by people who do not know that it is lent.
            yield _problem(need, "which is no active service account of the org")
            continue
        for capability in account["capabilities"]:
            if not actor.can(capability):
                yield _problem(need, f"which holds the capability {capability}, and {actor.id} does not")
        for role in account["roles"]:
            if role not in actor.roles:
                yield _problem(need, f"which holds the role {role}, and {actor.id} does not")


async def require_another_editor(publisher: Publisher, draft: Row) -> None:
    """Raise `Refused` where an org publishes with four eyes, and a draft's text has not been seen by two people.

    Service accounts do not count: the holder of their key could be both.
    """
    if not await publisher.needs_two_people():
        return
    editors, actor = draft["edited_by"], publisher.actor
    if actor.kind == "user" and editors and all(_is_another_person(one, actor.id) for one in editors):
        return
    by = ", ".join(one.partition(":")[2] for one in editors) or "no known person"
    message = (
        f"{actor.id} may not publish this draft, written by {by}: {publisher.org_id} publishes with four eyes"
    )
    hint = "a person publishes it who did not write it, and people wrote it"
    raise Refused(Rejection("FOUR_EYES_REQUIRED", message, ("actor",), hint=hint))


def _is_another_person(editor: str, actor_id: str) -> bool:
    return editor.startswith(_PERSON) and editor != f"{_PERSON}{actor_id}"


def _problem(need: RequiredCapability, why: str) -> Problem:
    return Problem("CAPABILITY_MISSING", f"`{need.node}` {need.use}, {why}", ("actor",))
