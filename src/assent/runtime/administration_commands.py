"""Commands of administrators: settings, rules, chains, mail templates and secrets of an org; and own preferences.

Each command checks its capability. Without an actor the operator of the database acts.
"""

import builtins
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from uuid import UUID

from assent.approvals.chains import Chain, keep_chain, list_chains, read_chain
from assent.effects.alerts import Alert, send_alerts
from assent.effects.mail_templates import (
    SavedMailTemplate,
    delete_mail_template,
    list_mail_templates,
    preview_mail,
    read_mail_template,
    save_mail_template,
)
from assent.effects.named_secrets import (
    MANAGE_SECRETS,
    SecretRecord,
    delete_secret,
    list_secrets,
    put_secret,
)
from assent.effects.signing_secrets import (
    SigningSecret,
    list_signing_secrets,
    retire_old_secrets,
    rotate_secret,
)
from assent.kernel.saved_rules import (
    MANAGE_RULES,
    Position,
    RuleEvaluation,
    SavedRule,
    delete_rule,
    list_rule_evaluations,
    list_rules,
    read_rule,
    save_rule_by_member,
)
from assent.language.mails import MailWords
from assent.model.actor import By
from assent.model.cursor import ITEMS_DEFAULT, ItemPage, position_of, require_limit, text_in
from assent.model.mutation import Refused, Rejection
from assent.people.orgs import (
    ALERT_SETTING,
    MANAGE_ORG,
    Org,
    change_settings,
    list_partitions,
    read_org,
    save_settings,
)
from assent.people.preferences import Preferences, change_preferences, read_preferences
from assent.runtime.core import CommandTransaction, OrgScope
from assent.runtime.rights import may_read, may_read_definitions, require_capability
from assent.store.database import Connection
from assent.telemetry import current_trace

MANAGE_CHAINS: Final = "approvals:chains"
"""The capability to define approval chains."""

T = TypeVar("T")
Work = Callable[[Connection], Awaitable[T]]


async def write_as_actor(scope: OrgScope, work: Work[T], *, as_owner: bool = False) -> T:
    """Run work in one transaction; the audit log names the actor. The engine's role has no right to secrets."""
    by = By(scope.actor_or_system, scope.core.origin, current_trace())
    return await scope.database.run(work, org_id=None if as_owner else scope.org_id, by=by)


@dataclass(frozen=True, slots=True)
class SettingCommands:
    """The settings of an org. The tag of what was read keeps a change from overwriting another one."""

    scope: OrgScope

    async def read(self) -> Org:
        """Return the org with its settings; takes `org:manage`."""
        require_capability(self.scope.actor_or_system, MANAGE_ORG)
        async with self.scope.reading() as connection:
            return await read_org(connection, self.scope.org_id)

    async def save(self, settings: Mapping[str, Any], *, tag: str | None = None) -> Org:
        """Replace all settings; raise `Invalid` with every problem, or `Refused` if they are not those of the tag."""
        return await self._write(save_settings, settings, tag)

    async def change(self, settings: Mapping[str, Any], *, tag: str | None = None) -> Org:
        """Set some settings, and remove those whose value is None; raise as `save` does."""
        return await self._write(change_settings, settings, tag)

    async def test_alert(self) -> UUID:
        """Post a test to the org's `alert_url`, signed as alerts are, and return its id; raise `Refused`."""
        scope = self.scope
        require_capability(scope.actor_or_system, MANAGE_ORG)

        async def work(tx: CommandTransaction) -> UUID:
            url = (await read_org(tx.connection, scope.org_id)).settings.get(ALERT_SETTING)
            if not isinstance(url, str):
                hint = f"set it with `assent org set {ALERT_SETTING}=https://…`"
                raise Refused(Rejection("NOT_FOUND", f"the org has no setting `{ALERT_SETTING}`", hint=hint))
            now = scope.database.clock.now()
            (alert_id,) = await send_alerts(tx.connection, [Alert(scope.org_id, url, "test")], now)
            await tx.note("effect", "alert.test", str(alert_id))
            return alert_id

        return await scope.write(work)

    async def _write(
        self, write: Callable[..., Awaitable[Org]], settings: Mapping[str, Any], tag: str | None
    ) -> Org:
        scope, actor = self.scope, self.scope.actor_or_system
        require_capability(actor, MANAGE_ORG)
        declared = scope.core.kernel.registry.settings

        async def work(connection: Connection) -> Org:
            return await write(connection, scope.org_id, settings, actor, tag=tag, declared=declared)

        return await write_as_actor(scope, work)


@dataclass(frozen=True, slots=True)
class PartitionCommands:
    """The partitions of an org: they are not kept by themselves, one is there when something is in it."""

    scope: OrgScope

    async def list(self, *, cursor: str | None = None, limit: int = ITEMS_DEFAULT) -> ItemPage[str]:
        """Return a page of the partitions, by name; takes `org:manage`.

        Those of entities, instances, documents, requirements and API keys that are not revoked.
        """
        scope, after = self.scope, position_of(cursor, text_in)
        require_limit(limit)
        require_capability(scope.actor_or_system, MANAGE_ORG)

        async def query(connection: Connection) -> ItemPage[str]:
            found = await list_partitions(connection, scope.org_id, scope.partition_id, after, limit + 1)
            return ItemPage.of(found, limit, lambda name: name)

        return await scope.read(query)


@dataclass(frozen=True, slots=True)
class RuleCommands:
    """The rules of an org around actions, and the history of their evaluations."""

    scope: OrgScope

    async def list(
        self, entity_type: str | None = None, *, after: Position | None = None, limit: int | None = None
    ) -> builtins.list[SavedRule]:
        """Return the rules, or those of an entity type, by entity type and name; takes `rules:manage`."""
        self._require()
        async with self.scope.reading() as connection:
            return await list_rules(connection, self.scope.org_id, entity_type, after=after, limit=limit)

    async def get(self, entity_type: str, name: str) -> SavedRule:
        """Return a rule; raise `Refused` if there is none."""
        self._require()
        async with self.scope.reading() as connection:
            return await read_rule(connection, self.scope.org_id, entity_type, name)

    async def save(self, rule: Mapping[str, Any]) -> SavedRule:
        """Save a rule, in place of the one of this name, and return it with warnings; raise `Invalid` or `Refused`.

        A rule that sets fields takes the right to update the entity, and a rule that emits takes `events:emit`.
        """
        self._require()
        scope = self.scope

        async def work(connection: Connection) -> SavedRule:
            org = await read_org(connection, scope.org_id)
            registry, now = scope.core.kernel.registry, scope.database.clock.now()
            return await save_rule_by_member(
                connection, registry, scope.org_id, rule, org.settings, scope.actor_or_system, now
            )

        return await write_as_actor(scope, work)

    async def delete(self, entity_type: str, name: str) -> SavedRule:
        """Delete a rule and return it; the history of its evaluations stays."""
        self._require()

        async def work(connection: Connection) -> SavedRule:
            return await delete_rule(connection, self.scope.org_id, entity_type, name)

        return await write_as_actor(self.scope, work)

    async def list_evaluations(
        self, entity_type: str, name: str, *, after: UUID | None = None, limit: int | None = None
    ) -> builtins.list[RuleEvaluation]:
        """Return the evaluations of a rule, newest first, for actors who may read its entities."""
        self._require()
        scope = self.scope
        may_read(scope.core.kernel.registry.contracts, entity_type, scope.actor_or_system)
        async with scope.reading() as connection:
            return await list_rule_evaluations(
                connection,
                scope.org_id,
                entity_type,
                name,
                after=after,
                limit=limit,
                partition_id=scope.partition_id,
            )

    def _require(self) -> None:
        require_capability(self.scope.actor_or_system, MANAGE_RULES)


@dataclass(frozen=True, slots=True)
class ChainCommands:
    """The approval chains of an org."""

    scope: OrgScope

    async def list(self, *, after: str | None = None, limit: int | None = None) -> Sequence[Chain]:
        """Return the chains by name, also those that are not in use."""
        async with self.scope.reading() as connection:
            return await list_chains(connection, self.scope.org_id, after=after, limit=limit)

    async def get(self, name: str) -> Chain:
        """Return a chain; raise `Refused` if there is none."""
        async with self.scope.reading() as connection:
            chain = await read_chain(connection, self.scope.org_id, name)
        if chain is None:
            raise Refused(Rejection("NOT_FOUND", f"no approval chain `{name}`", ("name",)))
        return chain

    async def save(self, chain: Mapping[str, Any]) -> Chain:
        """Save a chain, in place of the one of this name; takes `approvals:chains`; raise `Invalid`."""
        require_capability(self.scope.actor_or_system, MANAGE_CHAINS)

        async def work(connection: Connection) -> Chain:
            now = self.scope.database.clock.now()
            return await keep_chain(connection, self.scope.org_id, chain, now)

        return await write_as_actor(self.scope, work)


@dataclass(frozen=True, slots=True)
class MailTemplateCommands:
    """What an org writes in place of our mails, by kind and language; all of it takes `org:manage`."""

    scope: OrgScope

    async def list(self) -> builtins.list[SavedMailTemplate]:
        """Return the templates of every kind, ours and the org's own, by kind and language."""
        self._require()
        async with self.scope.reading() as connection:
            return await list_mail_templates(connection, self.scope.org_id)

    async def get(self, kind: str, language: str) -> SavedMailTemplate:
        """Return the template of a kind in a language; raise `Refused` if there is none."""
        self._require()
        async with self.scope.reading() as connection:
            return await read_mail_template(connection, self.scope.org_id, kind, language)

    async def save(self, kind: str, language: str, template: Mapping[str, Any]) -> SavedMailTemplate:
        """Save `subject`, `text` and `html`, or some of them; raise `Refused`, or `Invalid` with every problem."""
        self._require()
        scope = self.scope

        async def work(connection: Connection) -> SavedMailTemplate:
            by, now = scope.actor_or_system.id, scope.database.clock.now()
            return await save_mail_template(connection, scope.org_id, kind, language, template, by, now)

        return await write_as_actor(scope, work)

    async def delete(self, kind: str, language: str) -> SavedMailTemplate:
        """Delete the org's parts and return them: our words are sent again; raise `Refused` if there are none."""
        self._require()

        async def work(connection: Connection) -> SavedMailTemplate:
            return await delete_mail_template(connection, self.scope.org_id, kind, language)

        return await write_as_actor(self.scope, work)

    async def preview(self, kind: str, language: str, template: Mapping[str, Any] | None = None) -> MailWords:
        """Return a mail with example values, of a template that is not saved yet or of the saved one."""
        self._require()
        async with self.scope.reading() as connection:
            return await preview_mail(connection, self.scope.org_id, kind, language, template)

    def _require(self) -> None:
        require_capability(self.scope.actor_or_system, MANAGE_ORG)


@dataclass(frozen=True, slots=True)
class PreferenceCommands:
    """How the actor is written to; each sets their own."""

    scope: OrgScope

    async def get(self) -> Preferences:
        """Return the preferences of the actor."""
        actor = self.scope.required_actor
        async with self.scope.reading() as connection:
            return await read_preferences(connection, self.scope.org_id, actor.id)

    async def change(self, changes: Mapping[str, Any]) -> Preferences:
        """Set some of `language`, `time_zone`, `mails`, `digest_hour` and `decides_by_mail`; raise `Refused`."""
        actor = self.scope.required_actor

        async def work(connection: Connection) -> Preferences:
            return await change_preferences(connection, self.scope.org_id, actor.id, changes)

        return await write_as_actor(self.scope, work)


@dataclass(frozen=True, slots=True)
class SecretCommands:
    """The secrets that definitions name. No command returns a value; none works inside a caller's transaction."""

    scope: OrgScope

    async def list(
        self, *, after: str | None = None, limit: int | None = None
    ) -> builtins.list[SecretRecord]:
        """Return the secrets by name, without their values; takes `secrets:manage`."""
        self._require()

        async def work(connection: Connection) -> builtins.list[SecretRecord]:
            return await list_secrets(connection, self.scope.org_id, after, limit)

        return await write_as_actor(self.scope, work, as_owner=True)

    async def set(self, name: str, value: str, hosts: Sequence[str]) -> SecretRecord:
        """Keep a secret, in place of the one of this name; raise `Refused`."""
        self._require()
        scope = self.scope

        async def work(connection: Connection) -> SecretRecord:
            by, now = scope.actor_or_system.id, scope.database.clock.now()
            return await put_secret(connection, scope.org_id, name, value, hosts, by, now)

        return await write_as_actor(scope, work, as_owner=True)

    async def delete(self, name: str) -> SecretRecord:
        """Delete a secret; raise `Refused` if there is none."""
        self._require()

        async def work(connection: Connection) -> SecretRecord:
            return await delete_secret(connection, self.scope.org_id, name)

        return await write_as_actor(self.scope, work, as_owner=True)

    def _require(self) -> None:
        require_capability(self.scope.actor_or_system, MANAGE_SECRETS)


@dataclass(frozen=True, slots=True)
class RegisteredService:
    """A service that the application of this process registers by its OpenAPI document."""

    name: str
    base_url: str
    operations: tuple[str, ...]
    """What steps may call, such as `getRate` of `rates.getRate`."""
    capability: str
    """What publishing a step that calls it takes."""


@dataclass(frozen=True, slots=True)
class ServiceCommands:
    """The services that steps may call. Credentials for them are in the application, and shown nowhere."""

    scope: OrgScope

    async def list(
        self, *, cursor: str | None = None, limit: int = ITEMS_DEFAULT
    ) -> ItemPage[RegisteredService]:
        """Return a page of the services, by name; takes `definitions:read`, `:edit` or `:publish`."""
        after = position_of(cursor, text_in)
        require_limit(limit)
        may_read_definitions(self.scope.actor_or_system)
        core = self.scope.core
        services = core.outlets.services if core.outlets is not None else {}
        found = [
            RegisteredService(
                name,
                service.base_url,
                tuple(sorted(operation.id for operation in service.operations)),
                core.capabilities.get(f"service:{name}", f"service:{name}:use"),
            )
            for name, service in sorted(services.items())
            if after is None or name > after
        ]
        return ItemPage.of(found[: limit + 1], limit, lambda service: service.name)


@dataclass(frozen=True, slots=True)
class SigningSecretCommands:
    """The secrets that sign the webhooks of an org. None works inside a caller's transaction."""

    scope: OrgScope

    async def list(
        self, *, after: UUID | None = None, limit: int | None = None
    ) -> builtins.list[SigningSecret]:
        """Return when they were made and retired, newest first; takes `secrets:manage`."""
        self._require()

        async def work(connection: Connection) -> builtins.list[SigningSecret]:
            return await list_signing_secrets(connection, self.scope.org_id, after, limit)

        return await write_as_actor(self.scope, work, as_owner=True)

    async def rotate(self) -> str:
        """Make a new secret, which signs beside the previous one, and return it this once."""
        self._require()

        async def work(connection: Connection) -> str:
            return await rotate_secret(connection, self.scope.org_id, self.scope.database.clock.now())

        return await write_as_actor(self.scope, work, as_owner=True)

    async def retire(self) -> int:
        """Let only the newest secret sign from now on, and return how many were retired."""
        self._require()

        async def work(connection: Connection) -> int:
            return await retire_old_secrets(connection, self.scope.org_id, self.scope.database.clock.now())

        return await write_as_actor(self.scope, work, as_owner=True)

    def _require(self) -> None:
        require_capability(self.scope.actor_or_system, MANAGE_SECRETS)
