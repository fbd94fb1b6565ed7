"""What people do about forms: look, claim, release, keep a draft, hand on. They are answered with `advance`."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from assent.approvals.forms import FormView, read_form
from assent.engine.inputs import ClaimForm, FormInput, ReassignForm, ReleaseForm, SaveDraft
from assent.model.actor import Actor
from assent.model.canonical import canonical_json
from assent.model.form import DRAFT_BYTES_MAX, FormDraft
from assent.model.mutation import Refused, Rejection
from assent.runtime.approval_commands import ApprovalCommands
from assent.runtime.commands import checked, view_of_job
from assent.runtime.targets import Target
from assent.runtime.view import InstanceView


class FormCommands(ApprovalCommands):
    """Each finds the instance whose form it is and hands it an input: the same door as every other command."""

    async def read_form(self, org_id: str, step_id: UUID, *, partition_id: str | None = None) -> FormView:
        """A form with its schema and its draft, also after it has ended."""
        async with self.database.transaction(org_id, read_only=True) as connection:
            found = await read_form(connection, org_id, step_id)
        if found is None or partition_id not in (None, found.partition_id):
            raise _not_found(step_id)
        return found

    async def claim_form(
        self, org_id: str, step_id: UUID, actor: Actor, *, partition_id: str | None = None
    ) -> InstanceView:
        """Take on what several may fill in; until it is released, nobody else does."""
        return await self._form_input(org_id, ClaimForm(self._id(), actor, step_id), partition_id)

    async def release_form(
        self, org_id: str, step_id: UUID, actor: Actor, *, partition_id: str | None = None
    ) -> InstanceView:
        return await self._form_input(org_id, ReleaseForm(self._id(), actor, step_id), partition_id)

    async def save_draft(
        self,
        org_id: str,
        step_id: UUID,
        actor: Actor,
        data: Mapping[str, Any],
        *,
        partition_id: str | None = None,
    ) -> FormDraft:
        """Keep what has been written so far, as it is; answers with what would be wrong with it if it were sent."""
        given = SaveDraft(self._id(), actor, step_id, _small(checked(data)))
        job = await self.run_job(_asked(org_id, given, partition_id))
        draft = job.run.world.forms[step_id].draft
        assert draft is not None
        return draft

    async def reassign_form(  # noqa: PLR0913
        self,
        org_id: str,
        step_id: UUID,
        actor: Actor,
        *,
        from_user: str,
        to_user: str,
        reason: str | None = None,
        partition_id: str | None = None,
    ) -> InstanceView:
        """Have somebody else fill it in, in somebody's place; both names stay in the record."""
        checked({"reason": reason, "to_user": to_user})
        email = await self._email_of(org_id, to_user)
        given = ReassignForm(self._id(), actor, step_id, from_user, to_user, email, reason)
        return await self._form_input(org_id, given, partition_id)

    async def _form_input(self, org_id: str, given: FormInput, partition_id: str | None) -> InstanceView:
        return view_of_job(await self.run_job(_asked(org_id, given, partition_id)))


def _asked(org_id: str, given: FormInput, partition_id: str | None) -> Target:
    assert given.step_id is not None
    return Target(org_id, "form", given.step_id, given, partition_id=partition_id)


def _small(data: Mapping[str, Any]) -> Mapping[str, Any]:
    if (size := len(canonical_json(data))) > DRAFT_BYTES_MAX:
        message = f"a draft of at most {DRAFT_BYTES_MAX} bytes was expected, found {size}"
        raise Refused(Rejection("TOO_LARGE", message, ("data",)))
    return data


def _not_found(step_id: UUID) -> Refused:
    return Refused(Rejection("NOT_FOUND", f"no form {step_id}", ("step_id",)))
