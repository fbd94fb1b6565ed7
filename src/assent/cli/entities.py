"""`assent entities`: create, list, show and change entities, run their actions and transitions; read their history."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import UUID

import typer

from assent.cli.options import (
    CursorOption,
    DataOption,
    GivenId,
    JsonDataOption,
    LimitOption,
    find_one,
    given_data,
    given_id,
    given_version,
)
from assent.cli.remote import Server, get, given, if_match, patch, post
from assent.cli.session import ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.body import Page
    from assent.bodies.instances import (
        ContractBody,
        DiffBody,
        EntityBody,
        EntityCountsBody,
        IndexBody,
        TransitionBody,
    )
    from assent.cli.remote import ServerCall
    from assent.model.mutation import Entity, Mutation
    from assent.runtime import InstanceView
    from assent.runtime.runtime import OrgRuntime
    from assent.store.database import Connection

NAMES: Final = {"payload": "data", "expected_version": "version", "event": "name"}
"""The names that the kernel and the engine have for options and arguments of commands here."""

app = typer.Typer(
    no_args_is_help=True, help="Entities: create, list, show and change them; their actions and history."
)

TypeArgument = Annotated[str, typer.Argument(metavar="TYPE", help="The entity type, such as invoice.")]
EntityArgument = Annotated[
    GivenId,
    typer.Argument(metavar="ID", parser=given_id, help="The entity, by its id or the beginning of it."),
]
ReasonOption = Annotated[str | None, typer.Option("--reason", help="Why; it is kept in the audit log.")]
VersionOption = Annotated[
    str | None,
    typer.Option(
        "--version", metavar="N", help="The version that it is about, as `show` prints it; * for any."
    ),
]
RequiredVersionOption = Annotated[
    str,
    typer.Option("--version", metavar="N", help="The version that changes, as `show` prints it; * for any."),
]


@app.command()
@by_member
def create(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    entity_type: TypeArgument,
    data: DataOption = None,
    json_data: JsonDataOption = None,
    id: Annotated[UUID | None, typer.Option("--id", help="Its id, so that a repeat is harmless.")] = None,
    reason: ReasonOption = None,
) -> None:
    """Create an entity; its workflow starts, if it has one."""
    fields = given_data(data, json_data)

    async def work(session: ActorSession) -> "Mutation":
        _require_type(session, entity_type)
        return await session.commands.entities.mutate(f"{entity_type}.create", fields, id, reason=reason)

    route = post("entities", entity_type, body=given(data=fields, id=id, reason=reason))
    _write(who, route, work, "created")


StatesOption = Annotated[
    list[str] | None, typer.Option("--state", help="Only in this state; may be given several times.")
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where", metavar="CONDITION", help="On an indexed field, such as 'total >= 1000'; all must hold."
    ),
]
WordsOption = Annotated[
    str | None, typer.Option("-q", "--q", metavar="WORDS", help="In searched fields; tax* begins a word.")
]
CreatorOption = Annotated[str | None, typer.Option("--created-by", metavar="USER", help="Who created it.")]
CreatedSince = Annotated[datetime | None, typer.Option("--created-since", help="Created from this time on.")]
CreatedUntil = Annotated[datetime | None, typer.Option("--created-until", help="Created before this time.")]
UpdatedSince = Annotated[datetime | None, typer.Option("--updated-since", help="Changed from this time on.")]
UpdatedUntil = Annotated[
    datetime | None, typer.Option("--updated-until", help="Last changed before this time.")
]
SortOption = Annotated[
    str | None,
    typer.Option(
        "--sort", metavar="FIELD", help="created_at, updated_at or an indexed field; -FIELD for descending."
    ),
]

SavedOption = Annotated[
    str | None, typer.Option("--saved", metavar="NAME", help="A saved filter, in place of one.")
]


def _filter(  # noqa: PLR0913, PLR0917
    state: list[str] | None,
    where: list[str] | None,
    q: str | None,
    created_by: str | None,
    created: tuple[datetime | None, datetime | None],
    updated: tuple[datetime | None, datetime | None],
    sort: str | None = None,
) -> dict[str, Any]:
    """Return what the options of a filter say, as a saved filter keeps it."""
    spans = zip(("created", "updated"), (created, updated), strict=True)
    times = {
        f"{name}_{end}": at.astimezone().isoformat()
        for name, span in spans
        for end, at in zip(("since", "until"), span, strict=True)
        if at is not None
    }
    said = {"state": state, "where": where, "q": q, "created_by": created_by, "sort": sort}
    return {name: value for name, value in said.items() if value} | times


@app.command("list")
@by_member
def list_(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    entity_type: TypeArgument,
    state: StatesOption = None,
    where: WhereOption = None,
    q: WordsOption = None,
    created_by: CreatorOption = None,
    created_since: CreatedSince = None,
    created_until: CreatedUntil = None,
    updated_since: UpdatedSince = None,
    updated_until: UpdatedUntil = None,
    sort: SortOption = None,
    saved: SavedOption = None,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """List the entities of a type that fit a filter, newest first. A page may be short and have a next one."""
    from assent.cli.output import print_items

    created, updated = (created_since, created_until), (updated_since, updated_until)
    data = _filter(state, where, q, created_by, created, updated, sort)

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.instances import EntityBody
        from assent.model.entity_filter import filter_from

        _require_type(session, entity_type)
        page = await session.commands.entities.list(
            entity_type, filter_from(data), saved=saved, cursor=cursor, limit=limit
        )
        return text_of_page(page, EntityBody.of)

    route = get("entities", entity_type, **data, saved=saved, cursor=cursor, limit=limit)
    page = act(who, route, work)
    found = page["next"]
    none = "There is no such entity." if found is None else f"None so far; go on with --cursor {found}"
    print_items(page, json=who.json, show=_entities, none=none)


@app.command()
@by_member
def count(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    entity_type: TypeArgument,
    state: StatesOption = None,
    where: WhereOption = None,
    q: WordsOption = None,
    created_by: CreatorOption = None,
    created_since: CreatedSince = None,
    created_until: CreatedUntil = None,
    updated_since: UpdatedSince = None,
    updated_until: UpdatedUntil = None,
    saved: SavedOption = None,
) -> None:
    """Count the entities of a type that fit a filter, by state; exact up to 10,000, beyond it with a +."""
    from assent.cli.output import print_body, print_table, table

    created, updated = (created_since, created_until), (updated_since, updated_until)
    data = _filter(state, where, q, created_by, created, updated)

    async def work(session: ActorSession) -> "EntityCountsBody":
        from assent.bodies.instances import EntityCountsBody
        from assent.model.entity_filter import filter_from

        _require_type(session, entity_type)
        counts = await session.commands.entities.count(entity_type, filter_from(data), saved=saved)
        return EntityCountsBody.of(counts)

    route = get("entities", entity_type, "count", **data, saved=saved)
    found = act(who, route, work)
    if who.json:
        print_body(found)
        return
    rows = [[one.state, _number(one.count, one.more)] for one in found.states]
    print_table(
        table(("state", "count"), [*rows, ["all", _number(found.count, found.more)]], right=("count",))
    )


def _number(count: int, more: bool) -> str:
    return f"{count:,}{'+' if more else ''}"


@app.command()
@by_member
def contract(who: ActorOptions, entity_type: TypeArgument) -> None:
    """Show the fields, the states and the transitions of an entity type."""
    from assent.cli.output import console, print_body, print_table, safe, table

    async def work(session: ActorSession) -> "ContractBody":
        from assent.bodies.instances import ContractBody

        _require_type(session, entity_type)
        return ContractBody.of_contract(await session.commands.entities.contract(entity_type))

    found = act(who, get("entities", entity_type, "contract"), work)
    if who.json:
        print_body(found)
        return
    label = f"{safe(found.label)}, " if found.label else ""
    console().print(f"{label}version {found.version}, begins as {safe(found.initial)}")
    fields = [[one.name, one.type, "required" if one.required else None, one.label] for one in found.fields]
    print_table(table(("field", "type", "", "label"), fields))
    print_table(table(("state", "edit"), [[one.name, one.edit.replace("_", " ")] for one in found.states]))
    moves = [[one.name, ", ".join(one.from_states), one.to, one.approval] for one in found.transitions]
    print_table(table(("transition", "from", "to", "approval"), moves))


@app.command()
@by_member
def indexes(who: ActorOptions, entity_type: TypeArgument) -> None:
    """List the fields by which entities of a type can be filtered and sorted, and how far each index is built."""
    from assent.cli.output import print_items, table

    async def work(session: ActorSession) -> "Page[IndexBody]":
        from assent.bodies.body import Page
        from assent.bodies.instances import IndexBody

        _require_type(session, entity_type)
        found = await session.commands.entities.indexes(entity_type)
        return Page[IndexBody](items=[IndexBody.of(one) for one in found])

    def show(items: Sequence[Any]) -> "Table":
        rows = ([one.field, one.type, "ready" if one.ready else f"{one.progress:.0%} built"] for one in items)
        return table(("field", "type", ""), rows)

    found = act(who, get("entities", entity_type, "indexes"), work)
    none = "Nothing is indexed; `index: true` and `search: true` in the contract say what is."
    print_items(found, json=who.json, show=show, none=none)


@app.command()
@by_member
def show(who: ActorOptions, entity_type: TypeArgument, entity: EntityArgument) -> None:
    """Show an entity with its content. `assent instances show` shows its workflow."""
    from assent.cli.instance_page import entity_line
    from assent.cli.output import console, counted, one_line, print_body, safe

    async def work(session: ActorSession) -> "EntityBody":
        from assent.bodies.instances import EntityBody

        entity_id = await find_entity_id(session, entity_type, entity)
        return EntityBody.of(await session.commands.entities.get(entity_id, entity_type=entity_type))

    def route(server: Server) -> Any:
        return server.ask(get("entities", entity_type, entity))

    found = act(who, route, work)
    if who.json:
        print_body(found)
        return
    out = console()
    out.print(entity_line(found))
    for name, value in found.data.items():
        out.print(f"  {safe(name)}: {safe(one_line(_text(value)))}")
    if found.attachments:
        listed = f"assent attachments list {found.type} {found.id}"
        out.print(f"  {counted(len(found.attachments), 'attachment')}: {listed}", style="dim")


@app.command()
@by_member
def change(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    entity_type: TypeArgument,
    entity: EntityArgument,
    version: RequiredVersionOption,
    data: DataOption = None,
    json_data: JsonDataOption = None,
    reason: ReasonOption = None,
) -> None:
    """Change fields of an entity; null removes one. A change without a difference creates no version."""
    fields, expected = given_data(data, json_data), given_version(version)

    async def work(session: ActorSession) -> "Mutation":
        entity_id = await find_entity_id(session, entity_type, entity)
        return await session.commands.entities.mutate(
            f"{entity_type}.update", fields, entity_id, expected_version=expected, reason=reason
        )

    def route(server: Server) -> Any:
        body = given(data=fields, reason=reason)
        return server.ask(patch("entities", entity_type, entity, body=body, if_match=if_match(expected)))

    _write(who, route, work, "changed")


@app.command("act")
@by_member
def run_action(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    entity_type: TypeArgument,
    entity: EntityArgument,
    verb: Annotated[str, typer.Argument(help="An action of the application, `update` or `amend`.")],
    data: DataOption = None,
    json_data: JsonDataOption = None,
    version: VersionOption = None,
    reason: ReasonOption = None,
) -> None:
    """Run an action on an entity; `amend` of a locked entity makes a new entity."""
    payload, expected = given_data(data, json_data), given_version(version)

    async def work(session: ActorSession) -> "Mutation":
        from assent.model.mutation import Refused, Rejection

        entity_id = await find_entity_id(session, entity_type, entity)
        if verb == "create":
            raise Refused(Rejection("UNKNOWN_ACTION", "an existing entity cannot be created", ("action",)))
        return await session.commands.entities.mutate(
            f"{entity_type}.{verb}", payload, entity_id, expected_version=expected, reason=reason
        )

    def route(server: Server) -> Any:
        tag = if_match(expected) if version is not None else None
        body = given(data=payload, reason=reason)
        return server.ask(post("entities", entity_type, entity, "actions", verb, body=body, if_match=tag))

    _write(who, route, work, verb)


@app.command()
@by_member
def transition(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    entity_type: TypeArgument,
    entity: EntityArgument,
    name: Annotated[str, typer.Argument(help="The transition, such as submit.")],
    data: DataOption = None,
    json_data: JsonDataOption = None,
    version: VersionOption = None,
    reason: ReasonOption = None,
) -> None:
    """Move an entity through its lifecycle. If people must approve first, its state does not change yet."""
    from assent.cli.instance_page import print_stand
    from assent.cli.output import print_body

    payload, expected = given_data(data, json_data), given_version(version)
    written: list[Entity] = []

    async def work(session: ActorSession) -> "TransitionBody | None":
        from assent.bodies.instances import EntityBody, InstanceBody, TransitionBody

        entity_id = await find_entity_id(session, entity_type, entity)

        async def move(
            commands: "OrgRuntime", connection: "Connection"
        ) -> "tuple[Entity, InstanceView | None]":
            await _require_version(session, connection, entity_type, entity_id, expected)
            if session.contracts[entity_type].workflow == "none":
                mutation = await commands.entities.mutate(
                    f"{entity_type}.{name}", payload, entity_id, expected_version=expected, reason=reason
                )
                return mutation.entity, None
            view = await commands.entities.transition(entity_id, name, payload)
            assert view.entity is not None, "a transition loads its entity"
            return view.entity, view

        moved, view = await session.write(move)
        written.append(moved)
        if not is_readable(session, entity_type):
            return None
        instance = InstanceBody.of(view) if view is not None else None
        return TransitionBody(entity=EntityBody.of(moved), instance=instance)

    def route(server: Server) -> Any:
        tag = if_match(expected) if version is not None else None
        body = given(data=payload, reason=reason)
        return server.ask(post("entities", entity_type, entity, "transitions", name, body=body, if_match=tag))

    found = act(who, route, work, NAMES)
    if who.json:
        print_body(found)
        return
    _print_written(name, found.entity if found else None, written)
    if found and found.instance:
        print_stand(f"its workflow took {name}", found.instance)


@app.command()
@by_member
def versions(
    who: ActorOptions,
    entity_type: TypeArgument,
    entity: EntityArgument,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """List the versions of an entity, newest first, each with its whole content."""
    from assent.cli.output import print_items

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.instances import VersionBody

        entity_id = await find_entity_id(session, entity_type, entity)
        page = await session.commands.entities.versions(
            entity_id, entity_type=entity_type, cursor=cursor, limit=limit
        )
        return text_of_page(page, VersionBody.of)

    def route(server: Server) -> Any:
        return server.ask(get("entities", entity_type, entity, "versions", cursor=cursor, limit=limit))

    page = act(who, route, work)
    print_items(page, json=who.json, show=_versions, none="There is no further version.")


VersionArgument = Annotated[int, typer.Argument(min=1, max=999_999_999)]


@app.command()
@by_member
def diff(
    who: ActorOptions,
    entity_type: TypeArgument,
    entity: EntityArgument,
    a: VersionArgument,
    b: VersionArgument,
) -> None:
    """Compare two versions of an entity, field by field; their order is the direction."""
    from assent.cli.output import console, print_body, print_table, table

    async def work(session: ActorSession) -> "DiffBody":
        from assent.bodies.instances import DiffBody

        entity_id = await find_entity_id(session, entity_type, entity)
        entities = session.commands.entities
        return DiffBody.of(await entities.compare(entity_id, a, b, entity_type=entity_type))

    def route(server: Server) -> Any:
        return server.ask(get("entities", entity_type, entity, "versions", a, "diff", b))

    found = act(who, route, work)
    if who.json:
        print_body(found)
        return
    changes = {**({"state": found.state} if found.state else {}), **found.fields}
    if changes:
        rows = ([name, _text(one.before), _text(one.after)] for name, one in changes.items())
        print_table(table(("field", f"version {a}", f"version {b}"), rows))
    else:
        console().print("They do not differ.", style="dim")


@app.command()
@by_member
def audit(
    who: ActorOptions,
    entity_type: TypeArgument,
    entity: EntityArgument,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """List the changes of an entity, newest first: who made each, from where, and what it changed."""
    from assent.cli.output import print_items

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.operations import EntityAuditBody

        entity_id = await find_entity_id(session, entity_type, entity)
        page = await session.commands.entities.audit(
            entity_id, entity_type=entity_type, cursor=cursor, limit=limit
        )
        return text_of_page(page, EntityAuditBody.of)

    def route(server: Server) -> Any:
        return server.ask(get("entities", entity_type, entity, "audit", cursor=cursor, limit=limit))

    page = act(who, route, work)
    print_items(page, json=who.json, show=_audit, none="There is no further change.")


def _write(
    who: ActorOptions,
    route: "ServerCall | Callable[[Server], Any]",
    work: "Callable[[ActorSession], Awaitable[Mutation]]",
    done: str,
) -> None:
    """Run a change, and print the entity that it left; its id and version alone if the member may not read it."""
    from assent.cli.output import print_body

    written: list[Entity] = []

    async def change(session: ActorSession) -> "EntityBody | None":
        from assent.bodies.instances import EntityBody

        entity = (await work(session)).entity
        written.append(entity)
        return EntityBody.of(entity) if is_readable(session, entity.type) else None

    found = act(who, route, change, NAMES)
    if who.json:
        print_body(found)
    else:
        _print_written(done, found, written)


def _print_written(done: str, entity: Any, written: "Sequence[Entity]") -> None:
    """Print an entity after a command; its id and version alone if the member may not read it."""
    from rich.text import Text

    from assent.cli.instance_page import entity_line
    from assent.cli.output import console, safe

    out = console()
    out.print(Text("✓ ", "green").append(safe(done), "default"))
    if entity is not None:
        out.print(Text("  ").append(entity_line(entity)))
    for one in () if entity is not None else written:
        out.print(Text(f"  {safe(one.type)} {one.id}  version {one.version}", "bold"))


async def find_entity_id(session: ActorSession, entity_type: str, given: GivenId) -> UUID:
    """Return the id that was typed, or the one that begins so; only who may read a type is shown its ids."""
    from functools import partial

    from assent.kernel.entities import find_entities
    from assent.model.mutation import Refused, Rejection
    from assent.runtime.rights import may_read

    _require_type(session, entity_type)
    if given.first == given.last:
        return given.first
    may_read(session.contracts, entity_type, session.actor)
    find = partial(find_entities, entity_type=entity_type)
    async with session.reading() as connection:
        found = await find_one(connection, session.org_id, "entity", given, find)
    if found is None:
        raise Refused(Rejection("NOT_FOUND", f"no {entity_type} {given.text}", ("entity_id",)))
    return found


def _require_type(session: ActorSession, entity_type: str) -> None:
    from assent.model.mutation import Refused, Rejection

    if entity_type not in session.contracts:
        message = f"there is no entity type `{entity_type}`"
        raise Refused(Rejection("UNKNOWN_ENTITY_TYPE", message, ("entity_type",)))


async def _require_version(
    session: ActorSession, connection: "Connection", entity_type: str, entity_id: UUID, version: int | None
) -> None:
    """Raise `Refused` for an entity that is not there; with a version, lock the entity at it."""
    from assent.kernel.entities import lock_entity, read_entity, require_version
    from assent.model.mutation import Refused, Rejection

    read = read_entity if version is None else lock_entity
    entity = await read(connection, session.org_id, entity_id)
    if entity is None or entity.type != entity_type:
        raise Refused(Rejection("NOT_FOUND", f"no {entity_type} {entity_id}", ("entity_id",)))
    require_version(entity, version)


def is_readable(session: ActorSession, entity_type: str) -> bool:
    """Return whether the member may read entities of a type."""
    from assent.runtime.rights import hidden_types

    return entity_type not in hidden_types(session.contracts, session.actor)


def _text(value: Any) -> str:
    import orjson

    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _fields(data: Mapping[str, Any]) -> str:
    from assent.cli.output import one_line

    return one_line(", ".join(f"{name}: {_text(value)}" for name, value in data.items()))


def _entities(entities: "Sequence[Any]") -> "Table":
    from assent.cli.output import moment, table

    rows = (
        [
            str(one.id),
            one.state,
            str(one.version),
            one.edit_window,
            moment(one.updated_at),
            _fields(one.data),
        ]
        for one in entities
    )
    return table(("entity", "state", "version", "edits", "changed", "content"), rows, right=("version",))


def _versions(versions: "Sequence[Any]") -> "Table":
    from assent.cli.output import moment, table

    rows = (
        [str(one.version), one.state, moment(one.created_at), one.created_by, _fields(one.data)]
        for one in versions
    )
    return table(("version", "state", "at", "by", "content"), rows, right=("version",))


def _audit(entries: "Sequence[Any]") -> "Table":
    from assent.cli.output import moment, one_line, table

    rows = (
        [
            moment(one.at),
            f"{one.actor_id} for {', '.join(one.on_behalf_of)}" if one.on_behalf_of else one.actor_id,
            one.action,
            str(one.to_version),
            one.to_state,
            one_line(", ".join(f"{k}: {_text(old)} → {_text(new)}" for k, (old, new) in one.changes.items())),
            one.channel,
            one_line(one.reason),
        ]
        for one in entries
    )
    headings = ("at", "who", "what", "version", "state", "how it changed", "by way of", "why")
    return table(headings, rows, right=("version",))
