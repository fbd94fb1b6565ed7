"""Verbs: commands in the form `(domain.verb :key value)`, by people, programs and steps, with their own rights.

A verb of ours runs the command that HTTP and Python run; a verb of the application runs its function, in the
transaction of the command or step.
"""

import builtins
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, Final
from uuid import UUID

from assent.documents.documents import find_document, list_versions
from assent.engine.instance import Instance
from assent.language import as_json, check_verb, parse_verb
from assent.language.built_in_verbs import BUILT_IN
from assent.language.verb_syntax import VerbCall
from assent.language.verbs import VerbRegistry, VerbSpec, bind_verb
from assent.model.actor import Actor
from assent.model.canonical import require_canonical
from assent.model.mutation import Refused, Rejection
from assent.model.outside_request import parse_bundle
from assent.model.problems import Problem
from assent.runtime.core import CommandTransaction, Core, OrgScope
from assent.runtime.declared_names import require_unknown
from assent.runtime.document_commands import REVIEW_DOCUMENTS, DocumentCommands, RequirementCommands
from assent.runtime.event_commands import RequestCommands, find_request_row
from assent.runtime.event_sources import require_unsigned
from assent.runtime.rights import PUSH_RESULTS, require_capability
from assent.store.caller_transaction import CallerDatabase, caller_transaction
from assent.store.database import Connection

Arguments = Mapping[str, Any]
VerbFunction = Callable[[OrgScope, Arguments], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class ListedVerb:
    """A verb that can be called, with its arguments."""

    name: str
    spec: VerbSpec


@dataclass(frozen=True, slots=True)
class VerbCommands:
    """The verbs of an application, bound to an org and an actor."""

    scope: OrgScope

    async def list(self) -> builtins.list[ListedVerb]:
        """Return the verbs that there are, ours and those of the application, by name."""
        verbs = self.scope.core.verbs.registry.verbs
        return [ListedVerb(name, verbs[name]) for name in sorted(verbs)]

    async def run(self, call: str, variables: Mapping[str, Any] | None = None) -> Any:
        """Run a verb and return its result as JSON; each verb takes its own capability. Raise `Refused`.

        `variables` are what the call names as `$name`.
        """
        scope = self.scope

        async def work(transaction: CommandTransaction) -> Any:
            joined = CallerDatabase(scope.database, transaction.connection, scope.org_id)
            within = OrgScope(scope.core.on(joined), scope.org_id, scope.actor, scope.partition_id)
            result = await run_verb(within, call, variables or {})
            await transaction.note("verb", "verb.run", call.strip().lstrip("(").split()[0][:200])
            return result

        return await scope.write(work)


async def run_verb(scope: OrgScope, text: str, variables: Mapping[str, Any]) -> Any:
    """Run a verb for an actor, and return its result as JSON; raise `Refused` for a call that cannot be made."""
    call, problems = parse_verb(text)
    if call is None:
        raise Refused(Rejection.of([one.under("call") for one in problems]))
    arguments = _bound(call, variables, scope.core.verbs.registry)
    spec = scope.core.verbs.registry.verbs[call.name]
    require_capability(scope.actor_or_system, spec.capability)
    function = scope.core.verbs.functions.get(call.name)
    result = await (
        _OURS[call.name](scope, arguments) if function is None else _run(scope, function, arguments)
    )
    kept = as_json(_named(result))
    require_canonical(kept)
    return kept


def _named(value: Any) -> Any:
    """Return a value with its ids as texts."""
    if isinstance(value, Mapping):
        return {key: _named(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_named(each) for each in value]
    return str(value) if isinstance(value, UUID) else value


def _bound(call: VerbCall, variables: Mapping[str, Any], registry: VerbRegistry) -> dict[str, Any]:
    spec = registry.find(call.name)
    bound, problems = (None, check_verb(call, registry)) if spec is None else bind_verb(call, variables, spec)
    if bound is None:
        raise Refused(
            Rejection.of([one.under("call") for one in problems or [Problem("UNKNOWN_VERB", call.name)]])
        )
    return bound


async def _run(scope: OrgScope, function: Callable[..., Any], arguments: Arguments) -> Any:
    """Run a function of the application in one transaction, as an operation of a step is run."""

    async def work(transaction: CommandTransaction) -> Any:
        answer = function(transaction.connection, dict(arguments))
        return await answer if inspect.isawaitable(answer) else answer

    return await scope.write(work)


@dataclass(frozen=True, slots=True)
class StepVerbs:
    """Runs the verbs of steps, inside the transaction of their batch."""

    core: Core

    async def run(
        self,
        connection: Connection,
        instance: Instance,
        actor: Actor,
        text: str,
        variables: Mapping[str, Any],
    ) -> Any:
        """Run a verb of an instance with the rights that a person has now, in a savepoint; raise `Refused`."""
        call, _ = parse_verb(text)
        if call is not None and self.core.verbs.registry.find(call.name) is None:
            await require_unknown(connection, f"verb:{call.name}")
        database, org_id = self.core.database, instance.org_id
        acting = {
            name: getattr(instance, name) for name in ("id", "partition_id", "entity_type", "entity_id")
        }
        async with caller_transaction(database, connection, org_id) as joined:
            core = self.core.on(CallerDatabase(database, joined, org_id))
            scope = OrgScope(core, org_id, actor, instance.partition_id, acting)
            return await run_verb(scope, text, variables)


def _id(value: str | None) -> UUID | None:
    return UUID(value) if value is not None else None


def _day(value: str | None) -> date | None:
    return date.fromisoformat(value) if value is not None else None


def _shown(value: Any, *hidden: str) -> dict[str, Any]:
    """Return the fields of a value as JSON, without what is not for callers."""
    return {name: each for name, each in asdict(value).items() if name not in hidden}


async def _create_document(scope: OrgScope, given: Arguments) -> Any:
    documents = DocumentCommands(scope)
    made = await documents.create(
        given["document-type"],
        given["subject-entity-id"],
        source="api",
        parent_id=_id(given.get("parent-id")),
        requirement_id=_id(given.get("requirement-id")),
    )
    data, blob = given.get("structured-data"), given.get("blob-ref")
    if data is None and blob is None:
        return {"document_id": made.id}
    if data is not None and not isinstance(data, Mapping):
        raise Refused(Rejection("WRONG_TYPE", "`:structured-data` takes an object", ("structured-data",)))
    version = await documents.add_version(made.id, given["content-type"], structured_data=data, blob_ref=blob)
    return {"document_id": made.id, "version_id": version.id, "cargo": f"version://assent/{version.id}"}


async def _solicit(scope: OrgScope, given: Arguments) -> Any:
    types = given.get("doc-types") or [given["doc-type"]]
    asked = await RequirementCommands(scope).solicit(
        given["subject-entity-id"],
        types,
        instance_id=_id(given.get("instance-id")),
        notify=given.get("notify"),
        webhook=given.get("webhook"),
    )
    return {"request_id": asked.request_id, "requirement_ids": [one.id for one in asked.requirements]}


async def _version_of(scope: OrgScope, given: Arguments) -> tuple[UUID, UUID]:
    """Return a document and its version that is named, or else its latest; for a reviewer."""
    document_id, version_id = UUID(given["document-id"]), _id(given.get("version-id"))
    if version_id is not None:
        return document_id, version_id
    require_capability(scope.actor_or_system, REVIEW_DOCUMENTS)

    async def query(connection: Connection) -> UUID:
        document = await find_document(connection, scope.org_id, document_id)
        versions = await list_versions(connection, scope.org_id, document_id)
        if document is None or not scope.sees(document.partition_id) or not versions:
            message = f"no document {document_id} with a version"
            raise Refused(Rejection("NOT_FOUND", message, ("document_id",)))
        return versions[0].id

    return document_id, await scope.read(query)


async def _verify(scope: OrgScope, given: Arguments) -> Any:
    place = await _version_of(scope, given)
    found = await DocumentCommands(scope).verify(
        *place,
        valid_from=_day(given.get("valid-from")),
        valid_to=_day(given.get("valid-to")),
        reason=given.get("reason"),
    )
    return {"version_id": found.id, "status": found.status}


async def _reject(scope: OrgScope, given: Arguments) -> Any:
    place = await _version_of(scope, given)
    found = await DocumentCommands(scope).reject(*place, given["code"], given.get("reason"))
    return {"version_id": found.id, "status": found.status, "rejection_code": found.rejection_code}


async def _list_documents(scope: OrgScope, given: Arguments) -> Any:
    names = {"subject-entity-id": "subject", "document-type": "document_type", "status": "status"}
    which = {name: given.get(key) for key, name in names.items()}
    fields = given.get("fields")
    if fields is not None and not isinstance(fields, Mapping):
        raise Refused(Rejection("WRONG_TYPE", "`:fields` takes an object", ("fields",)))
    page = await DocumentCommands(scope).list(fields=fields, limit=given.get("limit", 50), **which)
    return [_shown(one) for one in page.items]


async def _find_document(scope: OrgScope, given: Arguments) -> Any:
    return next(iter(await _list_documents(scope, {**given, "limit": 1})), None)


async def _list_versions(scope: OrgScope, given: Arguments) -> Any:
    found = await DocumentCommands(scope).get(UUID(given["document-id"]))
    return [_shown(one, "maker_id") for one in found.versions]


_OF_ENGINE: Final = ("org_id", "revision", "rejection", "request_is_open", "request_step_id")


async def _create_requirement(scope: OrgScope, given: Arguments) -> Any:
    made = await RequirementCommands(scope).create(
        given["subject-entity-id"],
        given["doc-type"],
        instance_id=_id(given.get("instance-id")),
        required_state=given["required-state"],
        max_attempts=given["max-attempts"],
        due_date=_day(given.get("due-date")),
    )
    return _shown(made, *_OF_ENGINE)


async def _list_requirements(scope: OrgScope, given: Arguments) -> Any:
    page = await RequirementCommands(scope).list(
        instance_id=_id(given.get("instance-id")),
        subject=given.get("subject-entity-id"),
        doc_type=given.get("doc-type"),
        status=given.get("status"),
        code=given.get("code"),
        due_before=_day(given.get("due-before")),
        limit=given.get("limit", 50),
    )
    return [_shown(one, *_OF_ENGINE) for one in page.items]


async def _show_requirement(scope: OrgScope, given: Arguments) -> Any:
    found = await RequirementCommands(scope).get(UUID(given["requirement-id"]))
    return _shown(found.requirement, *_OF_ENGINE)


async def _waive(scope: OrgScope, given: Arguments) -> Any:
    moved = await RequirementCommands(scope).waive(UUID(given["requirement-id"]), given["reason"])
    return _shown(moved, *_OF_ENGINE)


async def _reset(scope: OrgScope, given: Arguments) -> Any:
    moved = await RequirementCommands(scope).reset(UUID(given["requirement-id"]), given["reason"])
    return _shown(moved, *_OF_ENGINE)


async def _complete_task(scope: OrgScope, given: Arguments) -> Any:
    """Push results without a signature: they are refused where the source of these results signs."""
    require_capability(scope.actor_or_system, PUSH_RESULTS)
    task_id = UUID(given["task-id"])
    items = [{"cargo": one, "kind": given.get("doc-type")} for one in given.get("cargo-refs", [])]
    body = {"key": given["idempotency-key"], "status": given["status"], "items": items}
    bundle, problems = parse_bundle(body | {"error": given.get("error")})
    if bundle is None:
        raise Refused(Rejection.of(problems))

    async with scope.reading() as connection:
        asked = await find_request_row(scope, connection, task_id)
        await require_unsigned(connection, scope.org_id, asked.name)
    return {"outcome": await RequestCommands(scope).push_bundle(task_id, bundle, "python")}


_OURS: Final[Mapping[str, VerbFunction]] = {
    "document.create": _create_document,
    "document.solicit": _solicit,
    "document.solicit-set": _solicit,
    "document.verify": _verify,
    "document.reject": _reject,
    "document.list": _list_documents,
    "document.find": _find_document,
    "document.get-versions": _list_versions,
    "requirement.create": _create_requirement,
    "requirement.list": _list_requirements,
    "requirement.status": _show_requirement,
    "requirement.waive": _waive,
    "requirement.reset": _reset,
    "workflow.complete-task": _complete_task,
}
assert set(_OURS) == set(BUILT_IN.verbs)
