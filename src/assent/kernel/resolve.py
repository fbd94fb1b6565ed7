"""From a command to a draft: everything that can be refused before anything is read or locked."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from assent.kernel.registry import RegisteredAction, Registry
from assent.model.canonical import NotCanonical, canonical_json
from assent.model.contract import Contract, FieldSpec, FieldType
from assent.model.ids import new_id
from assent.model.mutation import Command, Rejection
from assent.model.names import is_blank
from assent.model.parse import shown
from assent.model.policy import check_policy
from assent.model.problems import Problem, nearest
from assent.model.values import check_changes, check_required

TEXT_LENGTH_MAX: Final = 2_000
"""Of a reason, a place, a channel or a trace id."""

_TRANSITION_FIELDS: Final = {"transition": FieldSpec(type=FieldType.TEXT, required=True)}


@dataclass(frozen=True, slots=True)
class ResolvedCommand:
    """A command that may go on: its names resolved, its actor allowed, its payload well-formed."""

    command: Command
    contract: Contract
    verb: str
    """`create`, `update`, `amend`, `transition`, or the application's own."""
    payload: Mapping[str, Any]
    new_entity_id: UUID
    """The id of the entity that this makes, if it makes one."""
    action: RegisteredAction | None = None
    transition: str | None = None

    @property
    def entity_id(self) -> UUID | None:
        return self.command.entity_id

    @property
    def needs_connection(self) -> bool:
        """Whether it runs the application's own statements."""
        return self.action is not None and self.action.needs_connection

    @property
    def is_way_back(self) -> bool:
        """Return whether a gate leads elsewhere than its transition does: after a rejection, or an edit."""
        declared = self.contract.lifecycle.transitions.get(self.transition or "")
        return self.command.to_state is not None and (
            declared is None or declared.to != self.command.to_state
        )

    @property
    def action_name(self) -> str:
        """Return what is done, as the audit log names it: `invoice.submit`; a way back is `invoice.transition`."""
        if (attachments := self.command.attachments) is not None:
            return f"{self.contract.name}.{'detach' if None in attachments.values() else 'attach'}"
        is_named = self.transition is not None and not self.is_way_back
        return f"{self.contract.name}.{self.transition}" if is_named else self.command.action

    @property
    def is_own_write(self) -> bool:
        return self.command.by_instance is not None


def check_command(registry: Registry, command: Command) -> Rejection | None:
    """Return why a command cannot be understood whatever its entity is: its frame, or its entity type."""
    if problems := list(_check_frame(command)):
        return Rejection.of(problems)
    if command.entity_type in registry.contracts:
        return None
    known = ", ".join(sorted(registry.contracts)) or "none"
    message = f"no contract `{command.entity_type}`; there are: {known}"
    return Rejection("UNKNOWN_ENTITY_TYPE", message, ("action",))


def resolve_command(  # noqa: PLR0913, PLR0917
    registry: Registry,
    command: Command,
    contract: Contract,
    newest: Contract,
    now: datetime,
    payload_bytes_max: int,
) -> ResolvedCommand | Rejection:
    """Return a command with names and policy resolved and its payload checked; the first that fails is the rejection.

    `contract` is what the entity lives by. An amendment makes a new entity, which begins with the newest version as
    every new one does: only the right to amend is the original's.
    """
    verb = command.action.partition(".")[2]
    if verb not in registry.verbs(contract.name, contract):
        return _unknown_action(registry, contract, verb)
    asked_for = str(command.payload.get("transition")) if verb == "transition" else verb
    if denied := check_policy(contract, asked_for, command.actor):
        return denied
    of_result = newest if verb == "amend" else contract
    found, problems = _resolve(registry, of_result, command, verb, now)
    problems = problems or _check_size(found.payload, payload_bytes_max)
    return Rejection.of(problems) if problems else found


def _unknown_action(registry: Registry, contract: Contract, verb: str) -> Rejection:
    entity_type, verbs = contract.name, registry.verbs(contract.name, contract)
    near = nearest(verb, verbs)
    hint = f"did you mean `{entity_type}.{near}`?" if near else None
    return Rejection(
        "UNKNOWN_ACTION",
        f"`{entity_type}` has no action `{verb}`; there are: {', '.join(verbs)}",
        ("action",),
        hint=hint,
    )


def _check_frame(command: Command) -> Iterator[Problem]:
    """Yield what is wrong with what stands around the payload, and with the payload as a whole."""
    for name in ("org_id", "action", "reason", "place", "channel", "trace_id", "partition_id"):
        if not _is_kept(getattr(command, name)):
            message = f"expected at most {TEXT_LENGTH_MAX} characters, without NUL and in valid UTF-8"
            yield Problem("TEXT_NOT_KEPT", message, (name,))
    for name in ("org_id", "partition_id"):
        text = getattr(command, name)
        if text is not None and is_blank(text):
            yield Problem("BLANK", f"expected a text with something to see in it, found {text!r}", (name,))
    payload: object = command.payload  # callers without a type checker send anything
    if not isinstance(payload, Mapping):
        found = type(payload).__name__
        yield Problem("WRONG_TYPE", f"expected an object, found {found}", ("payload",))
    if command.entity_id is None and not command.action.endswith(".create"):
        yield Problem("MISSING_KEY", f"`{command.action}` needs the id of an entity", ("entity_id",))


def _is_kept(text: str | None) -> bool:
    if text is None:
        return True
    try:
        return len(text) <= TEXT_LENGTH_MAX and "\x00" not in text and text.encode() is not None
    except UnicodeEncodeError:
        return False


def _check_size(payload: Mapping[str, Any], payload_bytes_max: int) -> list[Problem]:
    try:
        size = len(canonical_json(payload))
    except NotCanonical as error:
        return [Problem(error.code, str(error), ("payload", *error.path))]
    if size <= payload_bytes_max:
        return []
    message = f"{size:,} bytes are more than the {payload_bytes_max:,} that are taken"
    return [Problem("TOO_LARGE", message, ("payload",), "raise ASSENT_PAYLOAD_BYTES_MAX, or send less")]


def _resolve(
    registry: Registry, contract: Contract, command: Command, verb: str, now: datetime
) -> tuple[ResolvedCommand, list[Problem]]:
    action = registry.action(contract.name, verb)
    new_entity_id = (command.entity_id if verb == "create" else None) or command.fresh_id or new_id(now)
    if action is not None and action.payload is None:
        return ResolvedCommand(command, contract, verb, command.payload, new_entity_id, action), []
    if verb == "transition" and command.by_instance and command.to_state in contract.lifecycle.states:
        return ResolvedCommand(
            command, contract, verb, {}, new_entity_id, None, command.payload.get("transition")
        ), []
    if verb == "transition":
        name, problems = _check_transition_name(contract, command)
        return ResolvedCommand(command, contract, verb, {}, new_entity_id, None, name), problems
    transition = verb if verb in contract.lifecycle.transitions else None
    fields = _payload_fields(contract, action, transition)
    payload, problems = check_changes(fields, command.payload, ("payload",))
    if action is not None:
        # What was sent and is wrong is not missing as well.
        problems += check_required(fields, command.payload, ("payload",))
    verb = "transition" if transition else verb
    return ResolvedCommand(command, contract, verb, payload, new_entity_id, action, transition), problems


def _check_transition_name(contract: Contract, command: Command) -> tuple[str | None, list[Problem]]:
    payload, problems = check_changes(_TRANSITION_FIELDS, command.payload, ("payload",))
    name = payload.get("transition")
    if not problems and name not in contract.lifecycle.transitions:
        known = ", ".join(contract.lifecycle.transitions)
        path = ("payload", "transition")
        problems = [Problem("BAD_VALUE", f"{shown(name)} is not one of the transitions: {known}", path)]
    return name, problems


def _payload_fields(
    contract: Contract, action: RegisteredAction | None, transition: str | None
) -> Mapping[str, FieldSpec]:
    if action is not None:
        return action.payload or {}
    return {} if transition else contract.fields
