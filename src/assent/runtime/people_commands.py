"""Commands about the people of an org: members, their roles, their API keys, and their delegations.

Each command checks its capability. Without an actor the operator of the database acts.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from assent.effects.notices import notify_delegate
from assent.model.cursor import ITEMS_DEFAULT, ItemPage, id_in, position_of, require_limit, text_in
from assent.model.mutation import Refused, Rejection
from assent.model.policy import refuse_not_held, refuse_rights_not_held
from assent.people.api_keys import (
    KEYS_OF_MEMBER_MAX,
    MANAGE_KEYS,
    OPERATOR,
    ApiKey,
    KeyMaker,
    create_api_key,
    page_of_api_keys,
    revoke_api_key,
)
from assent.people.delegations import (
    DELEGATE,
    KeptDelegation,
    NewDelegation,
    delegate,
    list_delegations,
    revoke,
)
from assent.people.members import (
    MANAGE_MEMBERS,
    MANAGE_ROLES,
    KeptMember,
    MemberFilter,
    MemberKind,
    NewMember,
    Role,
    change_member,
    create_member,
    list_members,
    list_roles,
    lock_grants,
    read_carried,
    read_member,
    read_role,
    set_capabilities,
)
from assent.runtime.administration_commands import write_as_actor
from assent.runtime.core import OrgScope
from assent.runtime.rights import require_capability
from assent.store.database import Connection


@dataclass(frozen=True, slots=True)
class DelegationCommands:
    """The delegations of an org: members who decide in the place of others."""

    scope: OrgScope

    async def list(
        self,
        user_id: str | None = None,
        *,
        everyone: bool = False,
        only_open: bool = False,
        cursor: str | None = None,
        limit: int = ITEMS_DEFAULT,
    ) -> ItemPage[KeptDelegation]:
        """Return a page of the delegations from and to a member, newest first; the actor's own without a name.

        Those of others, and those of `everyone`, take the capability `approvals:delegate`.
        """
        scope, actor = self.scope, self.scope.actor_or_system
        after = position_of(cursor, id_in)
        require_limit(limit)
        of = None if everyone else user_id or actor.id
        if of != actor.id:
            require_capability(actor, DELEGATE)
        open_at = scope.database.clock.now() if only_open else None

        async def query(connection: Connection) -> ItemPage[KeptDelegation]:
            found = await list_delegations(
                connection, scope.org_id, of, open_at=open_at, after=after, limit=limit + 1
            )
            return ItemPage.of(found, limit, lambda delegation: str(delegation.id))

        return await scope.read(query)

    async def create(  # noqa: PLR0913
        self,
        to_user: str,
        *,
        from_user: str | None = None,
        starts_at: datetime | None = None,
        ends_at: datetime | None = None,
        entity_types: Sequence[str] = (),
        workflows: Sequence[str] = (),
        reason: str | None = None,
    ) -> KeptDelegation:
        """Have a member stand in for the actor; for another member it takes `approvals:delegate`. Raise `Refused`."""
        scope, actor = self.scope, self.scope.actor_or_system
        scopes = (tuple(entity_types), tuple(workflows))
        new = NewDelegation(scope.org_id, from_user or actor.id, to_user, starts_at, ends_at, *scopes, reason)

        async def work(connection: Connection) -> KeptDelegation:
            now = scope.database.clock.now()
            made = await delegate(connection, scope.core.directory, new, actor, now)
            await notify_delegate(connection, made, now)
            return made

        return await write_as_actor(scope, work)

    async def revoke(self, delegation_id: UUID) -> KeptDelegation:
        """End a delegation now; one that was revoked before stays as it was. Raise `Refused`."""
        scope, actor = self.scope, self.scope.actor_or_system

        async def work(connection: Connection) -> KeptDelegation:
            return await revoke(connection, scope.org_id, delegation_id, actor, scope.database.clock.now())

        return await write_as_actor(scope, work)


@dataclass(frozen=True, slots=True)
class MemberCommands:
    """The members of an org: people and service accounts."""

    scope: OrgScope

    async def list(
        self,
        *,
        role: str | None = None,
        active: bool | None = None,
        cursor: str | None = None,
        limit: int = ITEMS_DEFAULT,
    ) -> ItemPage[KeptMember]:
        """Return a page of the members, by their ids; also those who have left."""
        scope = self.scope
        after = position_of(cursor, text_in)
        require_limit(limit)

        async def query(connection: Connection) -> ItemPage[KeptMember]:
            wanted = MemberFilter(role, active)
            found = await list_members(connection, scope.org_id, wanted, after, limit + 1)
            return ItemPage.of(found, limit, lambda member: member.user_id)

        return await scope.read(query)

    async def get(self, user_id: str) -> KeptMember:
        """Return a member, active or not; raise `Refused` if there is none."""
        return await self.scope.read(lambda connection: read_member(connection, self.scope.org_id, user_id))

    async def create(  # noqa: PLR0913
        self,
        user_id: str,
        name: str | None = None,
        *,
        kind: MemberKind = "user",
        email: str | None = None,
        roles: Collection[str] = (),
        manager_id: str | None = None,
    ) -> KeptMember:
        """Create a member; takes `members:manage` and all that the roles carry. Raise `Refused`."""
        scope, actor = self.scope, self.scope.actor_or_system
        require_capability(actor, MANAGE_MEMBERS)
        new = NewMember(user_id, name or user_id, kind, email, tuple(dict.fromkeys(roles)), manager_id)

        async def work(connection: Connection) -> KeptMember:
            contracts = scope.core.kernel.registry.contracts
            now = scope.database.clock.now()
            return await create_member(connection, scope.org_id, new, actor, now, contracts)

        return await write_as_actor(scope, work)

    async def change(self, user_id: str, changes: Mapping[str, Any]) -> KeptMember:
        """Set some of `name`, `email`, `roles`, `manager_id` and `active`; takes `members:manage`. Raise `Refused`."""
        scope, actor = self.scope, self.scope.actor_or_system
        require_capability(actor, MANAGE_MEMBERS)
        if "roles" in changes:
            changes = {**changes, "roles": tuple(dict.fromkeys(changes["roles"]))}

        async def work(connection: Connection) -> KeptMember:
            contracts = scope.core.kernel.registry.contracts
            now = scope.database.clock.now()
            return await change_member(connection, scope.org_id, user_id, changes, actor, now, contracts)

        return await write_as_actor(scope, work)

    async def deactivate(self, user_id: str) -> KeptMember:
        """Deactivate a member and revoke their API keys; what they did keeps their name. Raise `Refused`."""
        return await self.change(user_id, {"active": False})

    async def restore(self, user_id: str) -> KeptMember:
        """Make a deactivated member active again. Raise `Refused`."""
        return await self.change(user_id, {"active": True})


@dataclass(frozen=True, slots=True)
class RoleCommands:
    """The roles of an org and their capabilities, beside what contracts grant; all commands take `roles:manage`."""

    scope: OrgScope

    async def list(self, *, cursor: str | None = None, limit: int = ITEMS_DEFAULT) -> ItemPage[Role]:
        """Return a page of the roles that a member holds or that carry a capability, by name."""
        scope = self.scope
        after = position_of(cursor, text_in)
        require_limit(limit)
        require_capability(scope.actor_or_system, MANAGE_ROLES)

        async def query(connection: Connection) -> ItemPage[Role]:
            found = await list_roles(connection, scope.org_id, after, limit + 1)
            return ItemPage.of(found, limit, lambda role: role.role)

        return await scope.read(query)

    async def get(self, role: str) -> Role:
        """Return a role; an unknown one carries nothing."""
        require_capability(self.scope.actor_or_system, MANAGE_ROLES)
        return await self.scope.read(lambda connection: read_role(connection, self.scope.org_id, role))

    async def save(self, role: str, capabilities: Collection[str]) -> Role:
        """Have a role carry exactly these capabilities; the actor gives and takes only what they hold."""
        return await self._set(role, lambda carried: set(capabilities))

    async def grant(self, role: str, capabilities: Collection[str]) -> Role:
        """Have a role carry more capabilities; the actor gives only what they hold."""
        return await self._set(role, lambda carried: carried | set(capabilities))

    async def revoke(self, role: str, capabilities: Collection[str]) -> Role:
        """Have a role carry less; the actor takes only what they hold."""
        return await self._set(role, lambda carried: carried - set(capabilities))

    async def _set(self, role: str, change: Callable[[set[str]], set[str]]) -> Role:
        scope, actor = self.scope, self.scope.actor_or_system
        require_capability(actor, MANAGE_ROLES)

        async def work(connection: Connection) -> Role:
            await lock_grants(connection, scope.org_id)
            carried = set((await read_role(connection, scope.org_id, role)).capabilities)
            return await set_capabilities(connection, scope.org_id, role, change(carried), actor)

        return await write_as_actor(scope, work)


@dataclass(frozen=True, slots=True)
class KeyCommands:
    """The API keys of an org: made and shown once, listed, revoked."""

    scope: OrgScope

    async def list(
        self,
        user_id: str | None = None,
        *,
        everyone: bool = False,
        cursor: str | None = None,
        limit: int = ITEMS_DEFAULT,
    ) -> ItemPage[ApiKey]:
        """Return a page of a member's keys, newest first; the actor's own without a name.

        Those of others, and those of `everyone`, take the capability `keys:manage`.
        """
        scope, actor = self.scope, self.scope.actor_or_system
        after = position_of(cursor, id_in)
        require_limit(limit)
        of = None if everyone else user_id or actor.id
        if of != actor.id:
            require_capability(actor, MANAGE_KEYS)

        async def query(connection: Connection) -> ItemPage[ApiKey]:
            found = await page_of_api_keys(connection, scope.org_id, of, after, limit + 1)
            return ItemPage.of(found, limit, lambda key: str(key.id))

        return await scope.read(query)

    async def create(  # noqa: PLR0913
        self,
        name: str,
        *,
        user_id: str | None = None,
        scopes: Sequence[str] | None = None,
        expires_at: datetime | None = None,
        partition_id: str | None = None,
        maker: KeyMaker | None = None,
        keys_max: int = KEYS_OF_MEMBER_MAX,
    ) -> tuple[str, ApiKey]:
        """Make a key for the actor, or with `keys:manage` for a service account that holds no more than the actor.

        Return its text, which cannot be shown again, and its entry. The operator makes keys for every member. `maker`
        is the session that makes it, which bounds what it may do; without one, the actor's partition alone does.
        """
        scope, actor = self.scope, self.scope.actor
        user = user_id or scope.required_actor.id
        if maker is None:
            bound = KeyMaker(actor.id, partition_id=scope.partition_id) if actor is not None else OPERATOR
        else:
            bound = maker

        async def work(connection: Connection) -> tuple[str, ApiKey]:
            await self._may_make(connection, user)
            return await create_api_key(
                connection,
                scope.org_id,
                user,
                name,
                scope.database.clock.now(),
                scopes=None if scopes is None else tuple(scopes),
                expires_at=expires_at,
                partition_id=partition_id,
                maker=bound,
                keys_max=keys_max,
            )

        return await write_as_actor(scope, work)

    async def revoke(self, key_id: UUID) -> ApiKey:
        """Revoke one of the actor's keys, or any with `keys:manage`, and the keys that were made with it."""
        scope, actor = self.scope, self.scope.actor_or_system
        of = None if actor.can(MANAGE_KEYS) else actor.id

        async def work(connection: Connection) -> ApiKey:
            now = scope.database.clock.now()
            return await revoke_api_key(connection, scope.org_id, key_id, now, user_id=of)

        return await write_as_actor(scope, work)

    async def _may_make(self, connection: Connection, user_id: str) -> None:
        """Raise `Refused` unless the actor may make a key for a member: with it, one could act in their name."""
        scope, actor = self.scope, self.scope.actor
        if actor is None or user_id == actor.id:
            return
        require_capability(actor, MANAGE_KEYS)
        member = await read_member(connection, scope.org_id, user_id)
        if member.kind != "service_account":
            message = (
                f"{user_id} makes their own keys: with one of theirs, another user would act in their name"
            )
            raise Refused(Rejection("SEPARATION_OF_DUTIES", message, ("user",)))
        if not member.active:
            raise Refused(Rejection("INACTIVE", f"{user_id} is not active and cannot sign in", ("user",)))
        refuse_not_held(actor, await read_carried(connection, scope.org_id, member.roles), "user")
        refuse_rights_not_held(actor, member.roles, scope.core.kernel.registry.contracts, "user")
