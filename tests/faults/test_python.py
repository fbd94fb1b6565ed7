"""Every command of the Python API, with its links cut or frozen at every commit: answers and tables agree.

A command that returns is done, once. One that raises `OutcomeUnknown` is done or not. One that raises anything else has
changed nothing, and does what it should when it is given again.
"""

import inspect
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any, cast
from uuid import UUID

import pytest

import assent
from assent.model.actor import Actor
from assent.model.document import RejectionCode
from assent.runtime import OrgRuntime, Runtime
from assent.runtime.core import Core, OrgScope
from assent.runtime.task_commands import NewTask
from assent.store.errors import OutcomeUnknown
from tests.faults.company import ORG, Acme
from tests.faults.points import Laboratory, Point, Trial, complaints_of
from tests.faults.tables import TableChange
from tests.http.application import CAPABILITIES, CHAIN, INVOICE_DATA, LEAVE, PEOPLE, RULE, SCHEDULE, app


def person(name: str) -> Actor:
    roles = PEOPLE[name].roles
    held = {capability for role in roles for capability in CAPABILITIES.get(role, ())}
    return Actor(name, roles=frozenset(roles), capabilities=frozenset(held))


ALICE, BOB, FIN, MAX, OLGA, ADAM = (person(name) for name in ("alice", "bob", "fin", "max", "olga", "adam"))

Parts = dict[str, str]
Operation = Callable[[Runtime, Parts], Awaitable[Any]]


def _mutate(verb: str, actor: Actor, payload: dict[str, Any], entity: str | None = None) -> Operation:
    async def operation(runtime: Runtime, parts: Parts) -> Any:
        entity_id = UUID(parts[entity]) if entity else None
        return await runtime.org(ORG, actor).entities.mutate(f"invoice.{verb}", payload, entity_id)

    return operation


async def _mutate_many(runtime: Runtime, parts: Parts) -> Any:
    return await runtime.org(ORG, ALICE).entities.mutate_many(
        [assent.Change("invoice.create", {**INVOICE_DATA, "number": str(n)}) for n in range(3)]
    )


def _by(method: str, part: str, actor: Actor | None, *arguments: Any, **more: Any) -> Operation:
    """Return a command, such as `instances.pause`, to what a part of acme's names; `{version_id}` is another part."""

    def operation(runtime: Runtime, parts: Parts) -> Awaitable[Any]:
        command = attrgetter(method)(runtime.org(ORG, actor))
        rest = (UUID(parts[one[1:-1]]) if str(one).endswith("_id}") else one for one in arguments)
        return command(UUID(parts[part]), *rest, **more)  # type: ignore[no-any-return]

    return operation


def _call(method: str, actor: Actor, *arguments: Any) -> Operation:
    """Return a command, such as `roles.grant`, that names nothing by an id."""
    return lambda runtime, _: attrgetter(method)(runtime.org(ORG, actor))(*arguments)


async def _cancel_token(runtime: Runtime, parts: Parts) -> Any:
    return await runtime.org(ORG, OLGA).instances.cancel_token(UUID(parts["split_id"]), parts["left_token"])


VAULT = {"cargo": "external://vault/7"}
FOLDED = RejectionCode("FOLDED", "quality", "a", "b", "c", retryable=True)

COMMANDS: dict[str, Operation] = {
    "entities.mutate to create": _mutate("create", ALICE, INVOICE_DATA),
    "entities.mutate to create under an id": _mutate("create", ALICE, INVOICE_DATA, "unused_id"),
    "entities.mutate to update": _mutate("update", ALICE, {"grand_total": 5}, "draft_invoice_id"),
    "entities.mutate to amend": _mutate("amend", ALICE, {"grand_total": 5}, "locked_id"),
    "entities.mutate_many": _mutate_many,
    "entities.transition": _by("entities.transition", "draft_invoice_id", ALICE, "submit"),
    "instances.start": lambda runtime, _: runtime.org(ORG, ALICE).instances.start("pair", {}),
    "instances.start under a key": lambda runtime, _: runtime.org(ORG, ALICE).instances.start(
        "pair", {}, idempotency_key="k"
    ),
    "instances.start_many": lambda runtime, _: runtime.org(ORG, ALICE).instances.start_many("pair", [{}, {}]),
    "instances.advance": _by("instances.advance", "survey_id", ALICE, "completed", {"rating": 3}),
    "instances.cancel": _by("instances.cancel", "survey_id", OLGA, "enough"),
    "instances.pause": _by("instances.pause", "survey_id", OLGA),
    "instances.resume": _by("instances.resume", "paused_id", OLGA),
    "instances.retry": _by("instances.retry", "failed_id", OLGA),
    "instances.skip": _by("instances.skip", "failed_id", OLGA, "confirm", "confirm->end"),
    "instances.cancel_token": _cancel_token,
    "instances.force_fail": _by("instances.force_fail", "survey_id", OLGA, "enough"),
    "events.emit": lambda runtime, _: runtime.org(ORG, OLGA).events.emit("payment:9", {}),
    "events.emit without an actor": lambda runtime, _: runtime.org(ORG).events.emit("payment:9", {}),
    "approvals.decide": _by("approvals.decide", "request_id", FIN, "approved"),
    "approvals.reassign": _by("approvals.reassign", "request_id", OLGA, from_user="fin", to_user="max"),
    "approvals.claim": _by("approvals.claim", "request_id", FIN),
    "approvals.release": _by("approvals.release", "claimed_id", FIN),
    "forms.claim": _by("forms.claim", "step_id", ALICE),
    "forms.release": _by("forms.release", "claimed_form_id", ALICE),
    "forms.save_draft": _by("forms.save_draft", "step_id", ALICE, {"rating": 2}),
    "forms.reassign": _by("forms.reassign", "step_id", ALICE, from_user="alice", to_user="max"),
    "operations.rebuild": _by("operations.rebuild", "survey_id", ADAM),
    "operations.reenqueue": _by("operations.reenqueue", "survey_id", ADAM),
    "dead_letters.retry an event": _by("dead_letters.retry", "event_letter_id", OLGA, "event"),
    "dead_letters.retry an effect": _by("dead_letters.retry", "letter_id", ADAM, "effect"),
    "dead_letters.retry a result": _by("dead_letters.retry", "result_letter_id", ADAM, "result"),
    "dead_letters.retry_all effects": lambda runtime, _: runtime.org(ORG, ADAM).dead_letters.retry_all(
        "effect"
    ),
    "dead_letters.retry_all results": lambda runtime, _: runtime.org(ORG, ADAM).dead_letters.retry_all(
        "result"
    ),
    "requests.push_result": _by("requests.push_result", "asked_id", OLGA, "k", [VAULT]),
    "requests.push_result without an actor": _by("requests.push_result", "asked_id", None, "k", [VAULT]),
    "tasks.submit": lambda runtime, _: runtime.org(ORG, ADAM).tasks.submit("report.build", {"month": "May"}),
    "tasks.submit without an actor": lambda runtime, _: runtime.org(ORG).tasks.submit(
        "report.build", {"month": "May"}
    ),
    "tasks.submit_many": lambda runtime, _: runtime.org(ORG, ADAM).tasks.submit_many(
        [NewTask("report.build", {"month": month}) for month in ("May", "June")]
    ),
    "tasks.submit_batch": lambda runtime, _: runtime.org(ORG, ADAM).tasks.submit_batch(
        [assent.NewTask("report.build", {"month": month}) for month in ("May", "June")],
        assent.NewTask("report.build", {"month": "all"}),
    ),
    "tasks.cancel": _by("tasks.cancel", "task_id", ADAM),
    "tasks.complete": _by("tasks.complete", "background_task_id", ADAM, {"pages": 3}),
    "tasks.fail": _by("tasks.fail", "background_task_id", ADAM, "no paper"),
    "tasks.retry": _by("tasks.retry", "dead_task_id", ADAM),
    "tasks.retry_all": lambda runtime, _: runtime.org(ORG, ADAM).tasks.retry_all(),
    "schedules.save": _call("schedules.save", ADAM, "nightly", SCHEDULE),
    "schedules.save to change": _call("schedules.save", ADAM, "cancel", {**SCHEDULE, "cron": "0 8 * * *"}),
    "schedules.pause": _call("schedules.pause", ADAM, "cancel"),
    "schedules.resume": _call("schedules.resume", ADAM, "paused"),
    "schedules.run": _call("schedules.run", ADAM, "cancel"),
    "schedules.delete": _call("schedules.delete", ADAM, "cancel"),
    "instances.edit_variables": _by("instances.edit_variables", "paused_survey_id", ADAM, {"order": 8}),
    "dead_letters.discard": _by("dead_letters.discard", "letter_id", ADAM, "enough"),
    "settings.change": lambda runtime, _: runtime.org(ORG, ADAM).settings.change({"budget": 7}),
    "settings.save": lambda runtime, _: runtime.org(ORG, ADAM).settings.save({"budget": 7}),
    "rules.save": lambda runtime, _: runtime.org(ORG, ADAM).rules.save(
        {**RULE, "entity_type": "invoice", "name": "n"}
    ),
    "rules.delete": lambda runtime, _: runtime.org(ORG, ADAM).rules.delete("invoice", "cancel"),
    "chains.save": lambda runtime, _: runtime.org(ORG, ADAM).chains.save({**CHAIN, "chain": "n"}),
    "secrets.set": lambda runtime, _: runtime.org(ORG, ADAM).secrets.set(
        "erp", "s3cret-of-erp", ["erp.example"]
    ),
    "secrets.delete": lambda runtime, _: runtime.org(ORG, ADAM).secrets.delete("cancel"),
    "signing_secrets.rotate": lambda runtime, _: runtime.org(ORG, ADAM).signing_secrets.rotate(),
    "signing_secrets.retire": lambda runtime, _: runtime.org(ORG, ADAM).signing_secrets.retire(),
    "definitions.archive": _by("definitions.archive", "definition_id", ADAM),
    "definitions.roll_back": _by("definitions.roll_back", "earlier_id", ADAM),
    "definitions.publish": lambda runtime, _: runtime.org(ORG, ADAM).definitions.publish(
        {**LEAVE, "flow": "n"}
    ),
    "delegations.create": lambda runtime, _: runtime.org(ORG, BOB).delegations.create("carol"),
    "delegations.revoke": _by("delegations.revoke", "delegation_id", ADAM),
    "documents.create": _call("documents.create", ADAM, "passport", "c-1"),
    "documents.add_version": _by(
        "documents.add_version", "document_id", ADAM, structured_data={"number": "7"}
    ),
    "documents.verify": _by("documents.verify", "document_id", ADAM, "{version_id}"),
    "documents.reject": _by("documents.reject", "document_id", ADAM, "{version_id}", "UNREADABLE"),
    "documents.erase": _by("documents.erase", "document_id", ADAM, "{version_id}", "asked to"),
    "requirements.create": _call("requirements.create", ADAM, "c-1", "passport"),
    "requirements.waive": _by("requirements.waive", "requirement_id", ADAM, "seen in person"),
    "requirements.reset": _by("requirements.reset", "waived_id", ADAM, "he is back"),
    "requirements.save_code": _call("requirements.save_code", ADAM, FOLDED),
    "drafts.create": _call("drafts.create", ADAM, {**LEAVE, "flow": "n"}),
    "drafts.change": _by("drafts.change", "draft_id", ADAM, {**LEAVE, "flow": "draft", "timeout": "72h"}),
    "drafts.discard": _by("drafts.discard", "draft_id", ADAM),
    "drafts.publish": _by("drafts.publish", "draft_id", ADAM),
    "event_sources.create": _call("event_sources.create", ADAM, "n", "n:"),
    "event_sources.rotate": _call("event_sources.rotate", ADAM, "cancel"),
    "event_sources.retire": _call("event_sources.retire", ADAM, "cancel"),
    "event_sources.delete": _call("event_sources.delete", ADAM, "cancel"),
    "filters.save": _call("filters.save", ADAM, "invoice", "mine", {"state": ["draft"]}),
    "filters.delete": _call("filters.delete", ADAM, "invoice", "cancel"),
    "keys.create": _call("keys.create", ADAM, "import"),
    "keys.revoke": _by("keys.revoke", "key_id", ADAM),
    "mail_templates.save": _call("mail_templates.save", ADAM, "asked", "en", {"subject": "{what}"}),
    "mail_templates.delete": _call("mail_templates.delete", ADAM, "escalated", "en"),
    "members.create": _call("members.create", ADAM, "eve", "Eve"),
    "members.change": _call("members.change", ADAM, "alice", {"name": "Alice A."}),
    "members.deactivate": _call("members.deactivate", ADAM, "dora"),
    "members.restore": _call("members.restore", ADAM, "gone"),
    "preferences.change": _call("preferences.change", ALICE, {"language": "de"}),
    "roles.save": _call("roles.save", ADAM, "reader", ["audit:read"]),
    "roles.grant": _call("roles.grant", ADAM, "clerk", ["audit:read"]),
    "roles.revoke": _call("roles.revoke", ADAM, "auditor", ["audit:read"]),
    "questions.ask": _by("questions.ask", "request_id", FIN, "Why?"),
    "questions.answer": _by("questions.answer", "question_id", ALICE, "Because."),
    "attachments.remove": _by("attachments.remove", "entity_id", ALICE, "{attachment_id}", "wrong"),
    "attachments.erase": _by("attachments.erase", "entity_id", ADAM, "{attachment_id}", "asked to"),
    "comments.add": _by("comments.add", "draft_invoice_id", ALICE, "See page 2."),
    "requirements.solicit": _call("requirements.solicit", ADAM, "c-8", ["passport"]),
    "verbs.run": _call("verbs.run", ADAM, "(requirement.create :subject-entity-id c-8 :doc-type passport)"),
    "requests.upload_link": _by(
        "requests.upload_link", "solicited_id", ADAM, base_url="https://flows.example.com"
    ),
    "requests.revoke_upload_links": _by("requests.revoke_upload_links", "solicited_id", ADAM),
    "settings.test_alert": _call("settings.test_alert", ADAM),
}
READS = {
    "partitions.list",
    *("attachments.list", "attachments.open", "attachments.download"),
    *("comments.list", "documents.download", "documents.link", "documents.open", "questions.get"),
    *("questions.list", "requirements.count", "services.list", "verbs.list"),
    *("audit.search", "definitions.check", "definitions.draw", "definitions.get", "definitions.list"),
    *("definitions.workflows", "delegations.list", "documents.get", "documents.list", "drafts.get"),
    *(
        "entities.contract",
        "entities.count",
        "entities.indexes",
        "event_sources.list",
        "events.list_open",
        "filters.get",
    ),
    *("filters.list", "instances.approvals", "instances.count", "keys.list", "mail_templates.get"),
    *("mail_templates.list", "mail_templates.preview", "members.get", "members.list", "operations.compare"),
    *("operations.health", "operations.stuck", "preferences.get", "requests.get", "requests.list"),
    *("requirements.get", "requirements.list", "requirements.list_codes", "roles.get", "roles.list"),
    *("approvals.count_inbox", "approvals.get", "approvals.inbox", "chains.get", "chains.list"),
    *("entities.audit", "entities.compare", "entities.decisions", "entities.get", "entities.list"),
    *("entities.versions", "instances.get", "instances.history", "instances.list", "operations.incidents"),
    *("instances.path", "instances.step"),
    *("operations.list_incidents", "rules.get", "rules.list", "rules.list_evaluations", "secrets.list"),
    *("settings.read", "signing_secrets.list"),
    "dead_letters.list",
    "definitions.list_versions",
    "forms.get",
    "operations.fold",
    "resources.get",
    "resources.list",
    "operations.nodes",
    "schedules.get",
    "schedules.list",
    "schedules.next",
    "tasks.get",
    "tasks.handle",
    "tasks.list",
    "tasks.log",
    "tasks.tree",
}
WITHIN = {"requests.push_bundle"}
"""What commands are made of."""
NOT_ONE_TRANSACTION = {"attachments.add"}
"""The row of a file is committed before its first byte (`test_uploads.py`)."""


@pytest.mark.parametrize("name", COMMANDS)
async def test_answers_and_tables_agree(laboratory: Laboratory, acme: Acme, name: str) -> None:
    operation = COMMANDS[name]

    async def give(trial: Trial[Exception]) -> Exception | None:
        try:
            await operation(app.runtime(trial.database), acme.parts)
        except Exception as error:
            return error
        return None

    async def disturb(point: Point) -> tuple[TableChange, str | None]:
        async with laboratory.trial(point) as trial:
            await laboratory.run(give, trial)
            assert trial.change is not None
            return trial.change, await _complaint(trial, done, give)

    async with laboratory.trial() as trial:
        done = (await laboratory.run(give, trial)).change
        order = list(trial.proxy.order)
    assert trial.result is None, repr(trial.result)
    assert done is not None
    assert not done.is_nothing, "expected a command that changes something"
    complaints = await complaints_of(disturb, order)
    assert not complaints, "\n".join(complaints)


async def _complaint(trial: Trial[Any], done: TableChange, give: Any) -> str | None:
    change, error = trial.change, trial.result
    assert change is not None
    if error is None:
        return None if change.is_like(done) else f"returned, and the tables say {change}"
    if isinstance(error, OutcomeUnknown) and change.is_like(done):
        return None
    if not change.is_nothing:
        return f"{error!r}, and the tables say {change}"
    again = await give(trial)
    found = await trial.look()
    return None if again is None and found.is_like(done) else f"{error!r}; again {again!r}: {found}"


def test_every_command_is_disturbed() -> None:
    org = OrgRuntime(OrgScope(cast("Core", None), ORG))
    found = {
        f"{noun}.{name}"
        for noun in OrgRuntime.__slots__
        if noun != "scope"
        for name, _ in inspect.getmembers(type(getattr(org, noun)), inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    tried = {name.partition(" ")[0] for name in COMMANDS}
    assert found - READS - WITHIN - NOT_ONE_TRANSACTION <= tried
    assert tried | READS | WITHIN | NOT_ONE_TRANSACTION <= found
