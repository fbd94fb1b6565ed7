"""What a command would make of an entity: window, lifecycle, the resulting content, events for its workflow. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from assent.kernel.resolve import ResolvedCommand
from assent.language import Program, as_json, default_scope, prepare_template
from assent.model.canonical import canonical_hash
from assent.model.contract import Contract, EditWindow
from assent.model.ids import new_id
from assent.model.mutation import (
    ON_AMENDMENT,
    ON_CREATE,
    ON_MUTATION,
    ON_SUPERSEDED,
    Entity,
    Event,
    Rejection,
    actor_view,
    with_attachments,
)
from assent.model.problems import Invalid, Problem
from assent.model.values import check_changes, check_required


@dataclass(frozen=True, slots=True)
class EntityChange:
    """One entity from one version to the next; `before` is nothing when it is new."""

    draft: ResolvedCommand
    before: Entity | None
    after: Entity
    audit_id: UUID
    amended: Entity | None = None
    """The locked entity that this new one amends."""

    @property
    def is_empty(self) -> bool:
        before, after = self.before, self.after
        return before is not None and (before.whole_data, before.state) == (after.whole_data, after.state)

    @property
    def is_edit(self) -> bool:
        return self.before is not None and self.before.whole_data != self.after.whole_data

    @property
    def is_contribution(self) -> bool:
        """Return whether people answer for it: all but what a workflow notes on its own entity beside the content."""
        if not self.draft.is_own_write or self.before is None:
            return True
        return self.before.content_hash != self.after.content_hash

    @property
    def changed_fields(self) -> dict[str, list[Any]]:
        """Field → [before, after], for the audit log."""
        old: Mapping[str, Any] = self.before.whole_data if self.before else {}
        new = self.after.whole_data
        return {
            name: [old.get(name), new.get(name)]
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name)
        }

    def numbered(self, numbers: Mapping[str, str]) -> "EntityChange":
        """Return the change of an entity that has drawn numbers: new or, later in the same call, changed again."""
        contract, (before, after) = self.draft.contract, (self.before, self.after)

        def with_numbers(entity: Entity) -> Entity:
            data = {**entity.data, **numbers}
            return entity.evolve(data=data, **_hashes(contract, data, entity.attachments))

        return replace(self, before=with_numbers(before) if before else None, after=with_numbers(after))

    @property
    def unique_values(self) -> dict[str, str] | None:
        """The values of unique fields as text, if the change writes any of them."""
        names = self.draft.contract.unique_fields
        old: Mapping[str, Any] = self.before.data if self.before else {}
        if not any(old.get(name) != self.after.data.get(name) for name in names):
            return None
        return {name: str(self.after.data[name]) for name in names if name in self.after.data}


def check_access(draft: ResolvedCommand, entity: Entity | None) -> Rejection | None:
    """Return a rejection unless the entity is there, at the version that the command is about, and open to it."""
    command = draft.command
    if draft.verb == "create":
        if entity is None:
            return None
        return Rejection("ALREADY_EXISTS", f"there is an entity {entity.id} already", ("entity_id",))
    if entity is None or entity.type != draft.contract.name or _in_another_partition(draft, entity):
        message = f"no {draft.contract.name} {command.entity_id}"
        return Rejection("NOT_FOUND", message, ("entity_id",))
    if command.expected_version not in (None, entity.version):
        message = f"expected version {command.expected_version}, found version {entity.version}"
        hint = "read it again and decide again"
        return Rejection("VERSION_CONFLICT", message, ("expected_version",), hint=hint)
    return check_window(draft, entity) or check_lifecycle(draft, entity)


def _in_another_partition(draft: ResolvedCommand, entity: Entity) -> bool:
    return draft.command.partition_id not in (None, entity.partition_id)


def check_window(draft: ResolvedCommand, entity: Entity) -> Rejection | None:
    """Return a rejection if the edit window, read under the entity's lock, forbids it; own writes are exempt (D19)."""
    if draft.is_own_write:
        return _check_own_write(draft, entity)
    if draft.verb == "amend":
        return _check_amendable(entity)
    if draft.verb == "transition" or entity.edit_window is not EditWindow.LOCKED:
        return None
    return locked_rejection(entity)


def check_locked_edit(change: "EntityChange") -> Rejection | None:
    """Return a rejection for an edit of a locked entity: a transition may leave its state, and change nothing else."""
    before = change.before
    if before is None or before.edit_window is not EditWindow.LOCKED or change.draft.is_own_write:
        return None
    return locked_rejection(before) if change.is_edit else None


def locked_rejection(entity: Entity) -> Rejection:
    """Return why the content of a locked entity cannot be edited."""
    message = f"{entity.type} {entity.id} is {entity.state} and locked; its content cannot be edited"
    hint = f"`{entity.type}.amend` makes a new one that refers to it"
    return Rejection("WORKFLOW_EDIT_LOCKED", message, ("entity_id",), hint=hint)


def _check_own_write(draft: ResolvedCommand, entity: Entity) -> Rejection | None:
    if draft.command.by_instance == entity.instance_id:
        return None
    message = f"{entity.type} {entity.id} belongs to another instance than {draft.command.by_instance}"
    return Rejection("NOT_OWN_ENTITY", message, ("by_instance",))


def _check_amendable(entity: Entity) -> Rejection | None:
    if entity.edit_window is EditWindow.LOCKED:
        return None
    message = (
        f"{entity.type} {entity.id} is {entity.edit_window}: only what is locked is amended by a new entity"
    )
    return Rejection("AMEND_NOT_LOCKED", message, ("entity_id",), hint=f"use `{entity.type}.update`")


def check_lifecycle(draft: ResolvedCommand, entity: Entity) -> Rejection | None:
    """Return a rejection unless the transition may leave from here, and is a person's to make (D18)."""
    if draft.transition is None or draft.command.to_state is not None:
        return None
    spec = draft.contract.lifecycle.transitions[draft.transition]
    if entity.state not in spec.from_:
        message = f"`{draft.transition}` leaves from {' or '.join(spec.from_)}, found {entity.state}"
        return Rejection("ILLEGAL_TRANSITION", message, ("action",))
    if draft.contract.workflow == "envelope" and not draft.is_own_write:
        message = f"`{draft.transition}` is made by the workflow of {entity.type}"
        return Rejection("WORKFLOW_REQUIRED", message, ("action",), hint="send it to the instance instead")
    return None


def check_result(
    draft: ResolvedCommand, changes: Mapping[str, Any], base: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Problem]]:
    """Return the content that results from changes to `base`, with what the contract says against it."""
    if not changes:
        return dict(base), [] if draft.verb != "create" else check_required(
            draft.contract.fields, base, ("payload",)
        )
    path = ("payload",) if draft.action is None else ("changes",)
    fields = draft.contract.fields
    kept, problems = check_changes(fields, changes, path)
    if not draft.is_own_write and draft.command.actor.kind != "system":
        problems += [
            Problem("SYSTEM_FIELD", f"`{name}` is written by the workflow only", (*path, name))
            for name in kept
            if fields[name].system and not fields[name].series and kept[name] != base.get(name)
        ]
    problems += [
        Problem("SYSTEM_FIELD", f"`{name}` is drawn from its series and written by no caller", (*path, name))
        for name in draft.contract.series
        if name in kept and kept[name] != base.get(name)
    ]
    data = {name: value for name, value in {**base, **kept}.items() if value is not None}
    return data, problems + check_required(fields, data, path)


def default_values(draft: ResolvedCommand, now: datetime) -> dict[str, Any]:
    """Return the defaults of fields that a new entity was not sent; later ones see those before them."""
    if draft.verb != "create":
        return {}
    found: dict[str, Any] = {}
    sent = draft.payload
    for name, program in _defaults(draft.contract).items():
        if name not in sent:
            seen = {"entity": {**found, **sent}, "actor": actor_view(draft.command.actor), "now": now}
            value = as_json(program.value(seen)) if isinstance(program, Program) else program
            found[name] = value
    return found


@lru_cache(maxsize=1024)
def _defaults(contract: Contract) -> Mapping[str, Any]:
    """Return field → its default: a value, or the program that computes it."""
    scope = default_scope(contract)
    found: dict[str, Any] = {}
    for name, spec in contract.fields.items():
        if isinstance(spec.default, str) and "{" in spec.default:
            program, problems = prepare_template(spec.default, scope)
            if program is None:
                raise Invalid([problem.under("fields", name, "default") for problem in problems])
            found[name] = program
        elif spec.default is not None:
            found[name] = spec.default
    return found


def base_content(draft: ResolvedCommand, entity: Entity | None) -> Mapping[str, Any]:
    """Return what changes apply to. An amendment starts without what the workflow had written about the old one."""
    if entity is None or draft.verb != "amend":
        return entity.data if entity else {}
    fields = draft.contract.fields
    return {name: value for name, value in entity.data.items() if name in fields and not fields[name].system}


def requested_change(
    draft: ResolvedCommand, entity: Entity | None, data: dict[str, Any], now: datetime
) -> EntityChange:
    """Return the change that makes `data` the content, by the rules of the draft's verb."""
    audit_id = new_id(now)
    if draft.verb == "create":
        return EntityChange(draft, None, _new_entity(draft, data, now), audit_id)
    assert entity is not None
    if draft.verb == "amend":
        return EntityChange(draft, None, _new_entity(draft, data, now, entity), audit_id, amended=entity)
    attachments = _attachments_after(draft, entity)
    after = entity.evolve(data=data, attachments=attachments, **_next_state(draft, entity))
    if is_edit := after.whole_data != entity.whole_data:
        after = after.evolve(**_hashes(draft.contract, data, attachments))
    if is_edit or after.state != entity.state:
        after = after.evolve(
            version=entity.version + 1,
            version_id=new_id(now),
            updated_at=now,
            contract_version=draft.contract.version,
        )
    return EntityChange(draft, entity, after, audit_id)


def _attachments_after(draft: ResolvedCommand, entity: Entity) -> Mapping[str, str]:
    changes = draft.command.attachments
    if changes is None:
        return entity.attachments
    return {key: sha256 for key, sha256 in {**entity.attachments, **changes}.items() if sha256 is not None}


def _next_state(draft: ResolvedCommand, entity: Entity) -> dict[str, Any]:
    if draft.transition is None:
        return {}
    state = draft.command.to_state or draft.contract.lifecycle.transitions[draft.transition].to
    if entity.instance_id is not None:
        # The window follows the instance's tokens, which `advance` knows and we do not (D17).
        return {"state": state}
    return {"state": state, "edit_window": draft.contract.window(state)}


def _new_entity(
    draft: ResolvedCommand, data: dict[str, Any], now: datetime, amended_from: Entity | None = None
) -> Entity:
    contract, command = draft.contract, draft.command
    attachments = amended_from.attachments if amended_from else {}
    return Entity(
        org_id=command.org_id,
        id=draft.new_entity_id,
        type=contract.name,
        contract_version=contract.version,
        state=contract.lifecycle.initial,
        version=1,
        data=data,
        attachments=attachments,
        **_hashes(contract, data, attachments),
        edit_window=contract.window(contract.lifecycle.initial),
        version_id=new_id(now),
        created_at=now,
        updated_at=now,
        partition_id=amended_from.partition_id if amended_from else command.partition_id,
        instance_id=_instance_to_come(contract, now),
        amended_from_id=amended_from.id if amended_from else None,
    )


def _hashes(contract: Contract, data: Mapping[str, Any], attachments: Mapping[str, str]) -> dict[str, str]:
    """Return the hashes of everything, and of what people wrote and attached."""
    content = {name: value for name, value in data.items() if not contract.fields[name].system}
    whole = canonical_hash(with_attachments(data, attachments))
    is_all_of_people = len(content) == len(data)
    return {
        "data_hash": whole,
        "content_hash": whole if is_all_of_people else canonical_hash(with_attachments(content, attachments)),
    }


def _instance_to_come(contract: Contract, now: datetime) -> UUID | None:
    """Return the id that the workflow instance will have, so that no command can slip in before it (D18)."""
    return new_id(now) if contract.workflow == "envelope" else None


def events_of(change: EntityChange, now: datetime) -> Iterator[Event]:
    """Yield what an instance is to hear of what others do to its entity; of its own writes it knows (D19)."""
    if change.draft.is_own_write:
        return
    if change.amended is not None and change.amended.instance_id is not None:
        yield _event(change, ON_SUPERSEDED, change.amended, now)
    if change.after.instance_id is None:
        return
    if change.before is None:
        yield _event(change, ON_CREATE, change.after, now)
    elif change.before.edit_window is EditWindow.AMEND_ONLY and change.is_edit:
        yield _event(change, ON_AMENDMENT, change.after, now)
    else:
        yield _event(change, ON_MUTATION, change.after, now)


def _event(change: EntityChange, event_type: str, about: Entity, now: datetime) -> Event:
    command = change.draft.command
    payload: dict[str, Any] = {
        "cause": str(change.audit_id),
        "action": command.action,
        "actor": (command.acted_by or command.actor).id,
        "authority": command.behalf.to_json(),
        "entity_type": about.type,
        "entity_id": str(about.id),
    }
    if event_type == ON_SUPERSEDED:
        payload |= {"reason": "amended", "amended_by": str(change.after.id)}
    if change.before is not None:
        payload |= {"from_version": change.before.version}
    if event_type == ON_AMENDMENT:
        payload |= {"changes": change.changed_fields}
    return Event(
        org_id=about.org_id,
        id=new_id(now),
        event_type=event_type,
        payload=payload,
        instance_id=about.instance_id,
        entity_version=about.version,
        trace_id=command.trace_id,
    )
