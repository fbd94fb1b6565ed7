"""The runtime of an application on one database, and its commands for one org and actor."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from assent.model.actor import SYSTEM, Actor, By, Origin
from assent.model.names import require_name
from assent.people.orgs import Org, create_org
from assent.runtime.administration_commands import (
    ChainCommands,
    MailTemplateCommands,
    PartitionCommands,
    PreferenceCommands,
    RuleCommands,
    SecretCommands,
    ServiceCommands,
    SettingCommands,
    SigningSecretCommands,
)
from assent.runtime.approval_commands import ApprovalCommands, FormCommands
from assent.runtime.attachment_commands import AttachmentCommands
from assent.runtime.audit_commands import AuditCommands
from assent.runtime.comment_commands import CommentCommands, QuestionCommands
from assent.runtime.core import Core, OrgScope
from assent.runtime.definition_commands import DefinitionCommands, DraftCommands
from assent.runtime.document_commands import DocumentCommands, RequirementCommands
from assent.runtime.event_commands import EventCommands, EventSourceCommands, RequestCommands
from assent.runtime.filter_commands import FilterCommands
from assent.runtime.instance_commands import EntityCommands, InstanceCommands
from assent.runtime.operation_commands import DeadLetterCommands, OperationCommands
from assent.runtime.people_commands import (
    DelegationCommands,
    KeyCommands,
    MemberCommands,
    RoleCommands,
)
from assent.runtime.resource_commands import ResourceCommands
from assent.runtime.schedule_commands import ScheduleCommands
from assent.runtime.task_commands import TaskCommands
from assent.runtime.verb_commands import VerbCommands
from assent.store.caller_transaction import CallerDatabase, caller_transaction
from assent.store.database import Connection, Database
from assent.telemetry import current_trace


class Runtime:
    """An application on one database; `org` binds an org and an actor, and offers the commands.

    await runtime.org("acme", ann).approvals.decide(request_id, "approved")
    """

    def __init__(self, core: Core) -> None:
        self.core = core

    @property
    def database(self) -> Database:
        return self.core.database

    def org(self, org_id: str, actor: Actor | None = None, partition_id: str | None = None) -> "OrgRuntime":
        """Return the commands for an org, by an actor, in one partition of the org or in all of it.

        Without an actor, only commands that need none are accepted: they act as the system.
        """
        require_name(org_id, "org_id")
        if partition_id is not None:
            require_name(partition_id, "partition_id")
        return OrgRuntime(OrgScope(self.core, org_id, actor, partition_id))

    async def create_org(
        self, org_id: str, name: str | None = None, settings: Mapping[str, Any] | None = None
    ) -> Org:
        """Create an org, as the operator of the database; raise `Refused` if there is one, or `Invalid`."""
        declared = self.core.kernel.registry.settings

        async def work(connection: Connection) -> Org:
            return await create_org(connection, org_id, name, settings, declared=declared)

        return await self.database.run(work, org_id=None, by=By(SYSTEM, self.core.origin, current_trace()))

    @asynccontextmanager
    async def within(
        self, caller: Any, org_id: str, actor: Actor | None = None, partition_id: str | None = None
    ) -> "AsyncIterator[OrgRuntime]":
        """Return the commands in a transaction of asyncpg, or of a SQLAlchemy session or connection on asyncpg.

        async with runtime.within(session, "acme", ann) as acme:
            await acme.entities.mutate("expense.create", {"title": "Taxi"})
            await acme.events.emit("order:paid:42")

        Everything in the block commits, or rolls back, with the caller's own rows; a command that is refused rolls back
        alone. The caller's role must be allowed to become the engine's role; the role that migrated is.
        """
        bound = self.org(org_id, actor, partition_id)
        async with caller_transaction(self.database, caller, org_id) as connection:
            yield bound.on(CallerDatabase(self.database, connection, org_id))

    def on(self, database: Database) -> "Runtime":
        """Return the same application on another database, such as a transaction that is under way."""
        return Runtime(self.core.on(database))

    def via(self, origin: Origin) -> "Runtime":
        """Return the same runtime for commands that come by another way, as the audit log shows it."""
        return Runtime(self.core.via(origin))


class OrgRuntime:
    """The commands of an application, bound to an org, an actor and optionally a partition."""

    __slots__ = (
        "approvals",
        "attachments",
        "audit",
        "chains",
        "comments",
        "dead_letters",
        "definitions",
        "delegations",
        "documents",
        "drafts",
        "entities",
        "event_sources",
        "events",
        "filters",
        "forms",
        "instances",
        "keys",
        "mail_templates",
        "members",
        "operations",
        "partitions",
        "preferences",
        "questions",
        "requests",
        "requirements",
        "resources",
        "roles",
        "rules",
        "schedules",
        "scope",
        "secrets",
        "services",
        "settings",
        "signing_secrets",
        "tasks",
        "verbs",
    )

    def __init__(self, scope: OrgScope) -> None:
        self.scope = scope
        self.instances = InstanceCommands(scope)
        self.entities = EntityCommands(scope)
        self.approvals = ApprovalCommands(scope)
        self.forms = FormCommands(scope)
        self.attachments = AttachmentCommands(scope)
        self.comments = CommentCommands(scope)
        self.questions = QuestionCommands(scope)
        self.tasks = TaskCommands(scope)
        self.resources = ResourceCommands(scope)
        self.schedules = ScheduleCommands(scope)
        self.requests = RequestCommands(scope)
        self.documents = DocumentCommands(scope)
        self.requirements = RequirementCommands(scope)
        self.events = EventCommands(scope)
        self.dead_letters = DeadLetterCommands(scope)
        self.filters = FilterCommands(scope)
        self.definitions = DefinitionCommands(scope)
        self.operations = OperationCommands(scope)
        self.partitions = PartitionCommands(scope)
        self.settings = SettingCommands(scope)
        self.rules = RuleCommands(scope)
        self.chains = ChainCommands(scope)
        self.mail_templates = MailTemplateCommands(scope)
        self.preferences = PreferenceCommands(scope)
        self.secrets = SecretCommands(scope)
        self.signing_secrets = SigningSecretCommands(scope)
        self.services = ServiceCommands(scope)
        self.members = MemberCommands(scope)
        self.roles = RoleCommands(scope)
        self.keys = KeyCommands(scope)
        self.delegations = DelegationCommands(scope)
        self.event_sources = EventSourceCommands(scope)
        self.drafts = DraftCommands(scope)
        self.audit = AuditCommands(scope)
        self.verbs = VerbCommands(scope)

    def by(self, actor: Actor) -> "OrgRuntime":
        """Return the same commands for another actor."""
        return OrgRuntime(OrgScope(self.scope.core, self.scope.org_id, actor, self.scope.partition_id))

    def on(self, database: Database) -> "OrgRuntime":
        """Return the same commands on another database, such as a transaction that is under way."""
        scope = self.scope
        return OrgRuntime(OrgScope(scope.core.on(database), scope.org_id, scope.actor, scope.partition_id))
