"""Drafts: flows and patches that are being written, right or wrong. One for each key; it never runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from assent.compiler.credentials import find_credentials
from assent.definitions.compile_thread import aside
from assent.definitions.definition import DefinitionVersion, Kind, Publication
from assent.definitions.history import read_definition
from assent.definitions.patches import check_patches, publish_patches_by
from assent.definitions.publish import check_flow, publish_flow_by
from assent.definitions.publisher import SQL, Publisher, require_another_editor
from assent.definitions.sources import Columns, declared, patches_in
from assent.definitions.views import DefinitionContent
from assent.model.actor import Actor
from assent.model.canonical import NotCanonical, canonical_hash, require_canonical
from assent.model.flow import Flow, parse_flow
from assent.model.mutation import Refused, Rejection
from assent.model.patch import Patch, parse_patch
from assent.model.problems import Invalid, Problem
from assent.store.connection import Connection
from assent.store.rows import Row

_NO_ACTOR: Final = Actor("none")
"""The actor of a check, which publishes nothing and asks for no right."""

NAME_LENGTH_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft with its source, and everything that keeps it from being published."""

    content: DefinitionContent
    edited_by: Sequence[str]
    """Everyone who edited it since it was created."""
    problems: Sequence[Problem]
    tag: str
    """Another for every source."""


async def show_draft(connection: Connection, org_id: str, definition_id: UUID, now: datetime) -> Draft:
    """Return a draft with its problems; raise `Refused` if there is none."""
    row = await read_draft(connection, org_id, definition_id)
    problems = await problems_of_draft(connection, org_id, definition_id, now)
    editors = [editor.partition(":")[2] for editor in row["edited_by"]]
    return Draft(DefinitionContent.of(row), editors, problems, tag_of_draft(row))


async def keep_draft(
    connection: Connection, org_id: str, source: Mapping[str, Any], actor: Actor, now: datetime
) -> DefinitionVersion:
    """Keep a flow or a patch as it is being written, in place of the draft of the same name.

    It may have any problem but these: it must say what it is, a patch for which entity type, and hold no credential.
    """
    if problems := list(_check_head(source)):
        raise Invalid(problems)
    kind, key, columns = _columns(source)
    publisher = Publisher(connection, org_id, actor, now)
    head = {"org_id": org_id, "definition_kind": kind, "key": key, "created_by": actor.id, "at": now}
    columns |= {"edited_by": [f"{actor.kind}:{actor.id}"]}
    async with connection.transaction():
        await publisher.lock_for(head | columns)
        row = await connection.fetchrow(SQL.replace_draft, head | columns)
        return (
            DefinitionVersion.of(row) if row else await publisher.insert(kind, key, columns, status="draft")
        )


async def create_draft(
    connection: Connection, org_id: str, source: Mapping[str, Any], actor: Actor, now: datetime
) -> DefinitionVersion:
    """Keep a new draft; raise `Refused` if there is a draft of this name."""
    async with connection.transaction():
        if (there := await _lock_draft(Publisher(connection, org_id, actor, now), source)) is not None:
            message = f"there is a draft of this name already: {there}"
            raise Refused(Rejection("ALREADY_EXISTS", message, hint="change that one, or discard it"))
        return await keep_draft(connection, org_id, source, actor, now)


async def change_draft(  # noqa: PLR0913, PLR0917
    connection: Connection,
    org_id: str,
    definition_id: UUID,
    source: Mapping[str, Any],
    actor: Actor,
    now: datetime,
    *,
    tag: str | None = None,
) -> DefinitionVersion:
    """Save new content in the place of a draft, under the same name; raise `Refused` where it would have another.

    With a tag, also if it was written since it was read.
    """
    await read_draft(connection, org_id, definition_id)
    async with connection.transaction():
        if await _lock_draft(Publisher(connection, org_id, actor, now), source) != definition_id:
            message = f"draft {definition_id} has another name"
            hint = "a draft keeps its name; begin another for this one"
            raise Refused(Rejection("BAD_VALUE", message, hint=hint))
        # No other transaction writes it any more: the lock is ours.
        _require_tag(tag, await read_draft(connection, org_id, definition_id))
        return await keep_draft(connection, org_id, source, actor, now)


async def problems_of_draft(
    connection: Connection, org_id: str, definition_id: UUID, now: datetime
) -> Sequence[Problem]:
    """Return everything that keeps a draft from being published."""
    publisher = Publisher(connection, org_id, _NO_ACTOR, now)
    row = await read_draft(connection, org_id, definition_id)
    try:
        if row["definition_kind"] == "flow":
            await check_flow(publisher, await aside(declared, Flow, parse_flow, row["source_json"]))
        else:
            await check_patches(publisher, [await aside(declared, Patch, parse_patch, patches_in(row)[0])])
    except Invalid as invalid:
        return invalid.problems
    return ()


async def publish_draft(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    definition_id: UUID,
    actor: Actor,
    now: datetime,
    *,
    capabilities: Mapping[str, str] | None = None,
    tag: str | None = None,
) -> Publication:
    """Publish a draft, which is gone then; raises `Invalid` with all its problems, and it stays.

    With a tag, raises `Refused` where the draft was changed since it was read: what is published is what was reviewed.
    """
    publisher = Publisher(connection, org_id, actor, now, capabilities or {}, reviewed=True)
    row = await read_draft(connection, org_id, definition_id)
    async with connection.transaction():
        await _lock_draft(publisher, row["source_json"] or patches_in(row)[0])
        row = await read_draft(connection, org_id, definition_id)
        _require_tag(tag, row)
        await require_another_editor(publisher, row)
        await discard_draft(connection, org_id, definition_id)
        if row["definition_kind"] == "flow":
            return await publish_flow_by(publisher, row["source_json"])
        (published,) = await publish_patches_by(publisher, patches_in(row))
        return published


async def discard_draft(connection: Connection, org_id: str, definition_id: UUID) -> None:
    """Throw a draft away; raises `Refused` where there is none."""
    if await connection.fetchval(SQL.delete_if_draft, org_id, definition_id) is None:
        raise Refused(_not_a_draft(org_id, definition_id))


async def read_draft(connection: Connection, org_id: str, definition_id: UUID) -> Row:
    """Return a draft with its content; raise `Refused` where there is none."""
    row = await read_definition(connection, org_id, definition_id)
    if row["status"] != "draft":
        raise Refused(_not_a_draft(org_id, definition_id))
    return row


def tag_of_draft(row: Row) -> str:
    """Another for every text: what its readers compare."""
    return canonical_hash([row["source_json"], row["body_patches_json"]])[:32]


def _require_tag(tag: str | None, row: Row) -> None:
    if tag not in (None, tag_of_draft(row)):
        message, hint = "this draft was changed since it was read", "read it again, and decide again"
        raise Refused(Rejection("VERSION_CONFLICT", message, hint=hint))


async def _lock_draft(publisher: Publisher, source: Mapping[str, Any]) -> UUID | None:
    """Return the draft of the same name, locked until the transaction ends."""
    if problems := list(_check_head(source)):
        raise Invalid(problems)
    kind, key, columns = _columns(source)
    await publisher.lock_for({"definition_kind": kind, "key": key, **columns})
    there: UUID | None = await publisher.connection.fetchval(SQL.find_draft, publisher.org_id, kind, key)
    return there


def _not_a_draft(org_id: str, definition_id: UUID) -> Rejection:
    return Rejection("NOT_FOUND", f"org {org_id} has no draft {definition_id}", ("definition_id",))


def _check_head(source: object) -> Iterator[Problem]:
    if not isinstance(source, Mapping):
        yield Problem("WRONG_TYPE", "a draft is an object")
        return
    try:
        require_canonical(source)
    except NotCanonical as error:
        yield Problem(error.code, str(error), error.path)
    if not isinstance(source.get("patch", source.get("flow", source.get("id"))), str):
        yield Problem("UNKNOWN_DECLARATION", "a draft begins with what it declares: `patch:` or `flow:`")
    elif "patch" in source and not isinstance(_base_of(source).get("entity_type"), str):
        yield Problem("MISSING_KEY", "a patch says for which entity type it is", ("base", "entity_type"))
    else:
        yield from _check_names(source)
        # Every member reads drafts, so that a credential would be known as soon as it was kept.
        yield from find_credentials(source)


def _check_names(source: Mapping[str, Any]) -> Iterator[Problem]:
    """They are looked up by an index, which takes no more."""
    _, key, columns = _columns(source)
    for path, name in ((), key), (("base", "entity_type"), columns["entity_type"]):
        if name is not None and not 1 <= len(name) <= NAME_LENGTH_MAX:
            message = f"expected a name of 1 to {NAME_LENGTH_MAX} characters, found {len(name)}"
            yield Problem("TOO_LONG" if name else "TOO_SHORT", message, path)


def _base_of(source: Mapping[str, Any]) -> Mapping[str, Any]:
    base = source.get("base")
    return base if isinstance(base, Mapping) else {}


def _columns(source: Mapping[str, Any]) -> tuple[Kind, str, Columns]:
    if "patch" in source:
        base, key = _base_of(source), source["patch"]
        columns = {"entity_type": base["entity_type"], "base_ref": base, "body_patches_json": [source]}
        return "org_patch", key, columns | {"name": _text(source.get("label"), key)}
    key = source.get("flow", source.get("id"))
    entity_type = source.get("entity") if isinstance(source.get("entity"), str) else None
    return (
        "flow",
        key,
        {"source_json": source, "entity_type": entity_type, "name": _text(source.get("name"), key)},
    )


def _text(given: object, otherwise: str) -> str:
    return given if isinstance(given, str) else otherwise
