"""What people do about requests for approval: decide, reassign, claim, release."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from assent.approvals.requests import read_status
from assent.engine.consent import not_open
from assent.engine.inputs import Claim, Decide, Input, Reassign, Release
from assent.model.actor import Actor
from assent.model.mutation import Refused, Rejection
from assent.people.directory import Directory
from assent.runtime.commands import Commands, checked, view_of_job
from assent.runtime.targets import Target
from assent.runtime.view import InstanceView


class ApprovalCommands(Commands):
    """Each finds the instance that asked and hands it an input: the same door as every other command."""

    directory: Directory

    async def decide(  # noqa: PLR0913
        self,
        org_id: str,
        request_id: UUID,
        answer: str,
        actor: Actor,
        *,
        reason: str | None = None,
        on_behalf_of: str | None = None,
        group: str | None = None,
        data: Mapping[str, Any] | None = None,
        partition_id: str | None = None,
    ) -> InstanceView:
        """Answer a request: `approved`, `rejected`, `abstained`, or an outcome of the node's own."""
        checked({"reason": reason})
        given = Decide(self._id(), actor, request_id, answer, reason, on_behalf_of, group, checked(data))
        return await self._request_input(org_id, request_id, given, partition_id)

    async def reassign(  # noqa: PLR0913
        self,
        org_id: str,
        request_id: UUID,
        actor: Actor,
        *,
        from_user: str,
        to_user: str,
        reason: str | None = None,
        partition_id: str | None = None,
    ) -> InstanceView:
        """Ask somebody else in somebody's place; both names stay in the record."""
        checked({"reason": reason, "to_user": to_user})
        email = await self._email_of(org_id, to_user, people_only=True)
        given = Reassign(self._id(), actor, request_id, from_user, to_user, email, reason)
        return await self._request_input(org_id, request_id, given, partition_id)

    async def claim(
        self, org_id: str, request_id: UUID, actor: Actor, *, partition_id: str | None = None
    ) -> InstanceView:
        """Take on what several are asked; until it is released, nobody else decides it."""
        given = Claim(self._id(), actor, request_id)
        return await self._request_input(org_id, request_id, given, partition_id)

    async def release(
        self, org_id: str, request_id: UUID, actor: Actor, *, partition_id: str | None = None
    ) -> InstanceView:
        given = Release(self._id(), actor, request_id)
        return await self._request_input(org_id, request_id, given, partition_id)

    async def _request_input(
        self, org_id: str, request_id: UUID, given: Input, partition_id: str | None
    ) -> InstanceView:
        asked = Target(org_id, "request", request_id, given, partition_id=partition_id)
        try:
            return view_of_job(await self.run_job(asked))
        except Refused as refused:
            if refused.code != "APPROVAL_VOID":
                raise
            raise Refused(await self._how_it_ended(org_id, request_id)) from refused

    async def _how_it_ended(self, org_id: str, request_id: UUID) -> Rejection:
        """The instance knows the requests of its present round only; one of an earlier round may have been decided."""
        async with self.database.transaction(org_id, read_only=True) as connection:
            status, reason = await read_status(connection, org_id, request_id)
        return not_open(request_id, status, reason)

    async def _email_of(self, org_id: str, user_id: str, *, people_only: bool = False) -> str | None:
        """Where an active member is reached; nobody else can be asked, and to decide only people."""
        async with self.database.transaction(org_id, read_only=True) as connection:
            people = await self.directory.by_id(connection, [(org_id, user_id)])
        person = people.get((org_id, user_id))
        if person is None or not person.active:
            raise Refused(Rejection("UNKNOWN_USER", f"{user_id} is not an active member", ("to_user",)))
        if people_only and person.kind != "user":
            message = f"{user_id} is a service account: only people decide in the place of another"
            raise Refused(Rejection("UNKNOWN_USER", message, ("to_user",)))
        return person.email
