"""Commands to approval requests and forms, and the reads of both. A command runs at the instance that asked."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from assent.approvals.forms import FormView, read_form
from assent.approvals.requests import ApprovalDetails, read_request, read_status
from assent.engine.consent import not_open
from assent.engine.inputs import (
    Claim,
    ClaimForm,
    Decide,
    FormInput,
    Input,
    Reassign,
    ReassignForm,
    Release,
    ReleaseForm,
    SaveDraft,
)
from assent.kernel.saved_filters import INBOX, FilterKey, find_filter
from assent.model.canonical import canonical_json
from assent.model.form import DRAFT_BYTES_MAX, FormDraft
from assent.model.mutation import Refused, Rejection
from assent.people.inbox import (
    InboxCounts,
    InboxPage,
    InboxQuery,
    count_inbox,
    inbox_filter_from,
    read_inbox,
)
from assent.runtime.batch import Execution
from assent.runtime.commands import check_data, view_of_execution
from assent.runtime.core import OrgScope
from assent.runtime.readers import (
    could_answer,
    may_read_request,
    read_answers,
    read_instance_row,
    was_asked,
)
from assent.runtime.views import InstanceView
from assent.store.database import Connection

ENDED_CODES: Final = ("APPROVAL_DECIDED", "APPROVAL_VOID", "WORKFLOW_NOT_ACTIVE")
"""The codes of commands that may have come after the end of their request."""


@dataclass(frozen=True, slots=True)
class ApprovalCommands:
    """Commands to the approval requests of an org, the inbox of the actor, and what the actor may read."""

    scope: OrgScope

    async def get(self, request_id: UUID, *, with_answers: bool = False) -> ApprovalDetails:
        """Return a request with the content of exactly the version that is to be approved.

        With answers: also those that the actor may give now, and why the actor may not approve it. Raise `Refused`
        unless the actor is or was asked, stands in for one who is, or may read its instance.
        """
        scope = self.scope

        async def query(connection: Connection) -> ApprovalDetails:
            details = await read_request(connection, scope.org_id, request_id)
            if details is None or not scope.sees(details.request.partition_id):
                message = f"no approval request {request_id}"
                raise Refused(Rejection("NOT_FOUND", message, ("request_id",)))
            await may_read_request(scope.core, connection, details.request, scope.actor_or_system)
            if not with_answers:
                return details
            return await read_answers(scope.core, connection, details, scope.required_actor)

        return await scope.read(query)

    async def inbox(self, wanted: InboxQuery | None = None, *, saved: str | None = None) -> InboxPage:
        """Return a page of the approvals and forms that wait for the actor, their roles and their delegators.

        `saved` is the name of a saved filter, in place of one; `wanted` may have a limit and a cursor then.
        """
        scope, actor = self.scope, self.scope.required_actor
        asked = wanted or InboxQuery()
        paging = InboxQuery(partition_id=asked.partition_id, limit=asked.limit, cursor=asked.cursor)
        if saved is not None and asked != paging:
            message = "a saved filter takes the place of every other part of a filter"
            raise Refused(Rejection("BAD_FILTER", message, ("saved",)))

        async def query(connection: Connection) -> InboxPage:
            filters = replace(asked, partition_id=scope.partition_id)
            if saved is not None:
                found = await find_filter(connection, FilterKey(scope.org_id, INBOX, saved, actor.id))
                filters = replace(filters, **dict(inbox_filter_from(found.filter)))
            now, directory = scope.database.clock.now(), scope.core.directory
            return await read_inbox(connection, scope.org_id, actor.id, filters, now, directory=directory)

        return await scope.read(query)

    async def count_inbox(self) -> InboxCounts:
        """Return how many items the inbox of the actor has, by bucket."""
        scope, actor = self.scope, self.scope.required_actor

        async def query(connection: Connection) -> InboxCounts:
            return await count_inbox(
                connection,
                scope.org_id,
                actor.id,
                scope.database.clock.now(),
                partition_id=scope.partition_id,
                directory=scope.core.directory,
            )

        return await scope.read(query)

    async def decide(  # noqa: PLR0913
        self,
        request_id: UUID,
        answer: str,
        *,
        reason: str | None = None,
        on_behalf_of: str | None = None,
        group: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> InstanceView:
        """Decide a request: `approved`, `rejected`, `abstained`, or an outcome of the node's own."""
        scope = self.scope
        check_data({"reason": reason})
        identity = scope.new_id(), scope.required_actor
        command = Decide(*identity, request_id, answer, reason, on_behalf_of, group, check_data(data))
        return await self._run(request_id, command)

    async def reassign(
        self, request_id: UUID, *, from_user: str, to_user: str, reason: str | None = None
    ) -> InstanceView:
        """Give a seat to another person; both names stay in the record."""
        scope = self.scope
        check_data({"reason": reason, "to_user": to_user})
        email = await _email_of(scope, to_user, people_only=True)
        identity = scope.new_id(), scope.required_actor
        return await self._run(request_id, Reassign(*identity, request_id, from_user, to_user, email, reason))

    async def claim(self, request_id: UUID) -> InstanceView:
        """Claim a request that several people may decide; until it is released, only the claimant decides it."""
        return await self._run(request_id, Claim(self.scope.new_id(), self.scope.required_actor, request_id))

    async def release(self, request_id: UUID) -> InstanceView:
        return await self._run(
            request_id, Release(self.scope.new_id(), self.scope.required_actor, request_id)
        )

    async def _run(self, request_id: UUID, command: Input) -> InstanceView:
        scope = self.scope
        try:
            job = await scope.execute("request", request_id, command)
            return replace(view_of_execution(job), request=_request_after(job, request_id))
        except Refused as refused:
            if refused.code in ENDED_CODES and (ended := await self._how_it_ended(request_id)):
                raise Refused(ended) from refused
            raise

    async def _how_it_ended(self, request_id: UUID) -> Rejection | None:
        """Return how a request ended, and by whose decision; None for one that is open.

        The instance knows the requests of its present round only, and after its end none.
        """
        async with self.scope.reading() as connection:
            reader = self.scope.required_actor.id
            status, reason, first = await read_status(connection, self.scope.org_id, request_id, reader)
        return None if status == "pending" else not_open(request_id, status, reason, first)


def _request_after(job: Execution, request_id: UUID) -> ApprovalDetails | None:
    """Return a request as a command left it, from memory; None where its rows may say more.

    The content that it is about is at hand where that is the entity's current version; and where the command has
    changed the content, the database has made requests void.
    """
    request = next((one for one in job.run.world.requests.values() if one.id == request_id), None)
    if request is None or request.entity_id is None:
        return ApprovalDetails(request, None, None) if request is not None else None
    before, after = job.entity_before, job.run.world.entity
    if before is None or after is None or before.version_id != request.snapshot_version_id:
        return None
    is_same = before.content_hash == after.content_hash
    return ApprovalDetails(request, before.whole_data, before.state) if is_same else None


@dataclass(frozen=True, slots=True)
class FormCommands:
    """Commands to the forms of an org; a form is completed with `instances.advance`."""

    scope: OrgScope

    async def get(self, step_id: UUID) -> FormView:
        """Return a form with its schema and its draft, also after it has ended.

        An actor who could not submit it, but may read its instance, gets it without its draft; others raise `Refused`.
        """
        scope, actor = self.scope, self.scope.actor_or_system

        async def query(connection: Connection) -> FormView:
            found = await read_form(connection, scope.org_id, step_id)
            if found is None or not scope.sees(found.partition_id):
                raise Refused(Rejection("NOT_FOUND", f"no form {step_id}", ("step_id",)))
            if actor.kind == "system":
                return found
            if await was_asked(scope.core, connection, scope.org_id, step_id, actor.id):
                return found
            if await could_answer(
                scope.core, connection, scope.org_id, found.instance_id, actor, step_id=step_id
            ):
                return found
            await read_instance_row(scope, connection, found.instance_id)
            return replace(found, draft=None, draft_problems=None)

        return await scope.read(query)

    async def claim(self, step_id: UUID) -> InstanceView:
        """Claim a form that several people may fill in; until it is released, only the claimant does."""
        command = ClaimForm(self.scope.new_id(), self.scope.required_actor, step_id)
        return view_of_execution(await self._execute(command))

    async def release(self, step_id: UUID) -> InstanceView:
        command = ReleaseForm(self.scope.new_id(), self.scope.required_actor, step_id)
        return view_of_execution(await self._execute(command))

    async def save_draft(self, step_id: UUID, data: Mapping[str, Any]) -> FormDraft:
        """Save what has been written so far; return it with the problems that it would have if it were sent."""
        draft = _require_small(check_data(data))
        command = SaveDraft(self.scope.new_id(), self.scope.required_actor, step_id, draft)
        job = await self._execute(command)
        saved = job.run.world.forms[step_id].draft
        assert saved is not None
        return saved

    async def reassign(
        self, step_id: UUID, *, from_user: str, to_user: str, reason: str | None = None
    ) -> InstanceView:
        """Give a form to another person to fill in; both names stay in the record."""
        check_data({"reason": reason, "to_user": to_user})
        email = await _email_of(self.scope, to_user)
        identity = self.scope.new_id(), self.scope.required_actor
        command = ReassignForm(*identity, step_id, from_user, to_user, email, reason)
        return view_of_execution(await self._execute(command))

    async def _execute(self, command: FormInput) -> Execution:
        assert command.step_id is not None
        return await self.scope.execute("form", command.step_id, command)


async def _email_of(scope: OrgScope, user_id: str, *, people_only: bool = False) -> str | None:
    """Return the address of an active member; raise `Refused` for anyone else, and for accounts if asked to."""
    async with scope.reading() as connection:
        people = await scope.core.directory.by_id(connection, [(scope.org_id, user_id)])
    person = people.get((scope.org_id, user_id))
    if person is None or not person.active:
        raise Refused(Rejection("UNKNOWN_USER", f"{user_id} is not an active member", ("to_user",)))
    if people_only and person.kind != "user":
        message = f"{user_id} is a service account: only people decide in the place of another"
        raise Refused(Rejection("UNKNOWN_USER", message, ("to_user",)))
    return person.email


def _require_small(data: Mapping[str, Any]) -> Mapping[str, Any]:
    if (size := len(canonical_json(data))) > DRAFT_BYTES_MAX:
        message = f"a draft of at most {DRAFT_BYTES_MAX} bytes was expected, found {size}"
        raise Refused(Rejection("TOO_LARGE", message, ("data",)))
    return data
