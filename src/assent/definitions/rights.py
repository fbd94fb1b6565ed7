"""What publishing takes beside `definitions:publish`: the rights that a workflow uses, and a second person."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final

from assent.compiler.publish_rights import RequiredCapability, required_capabilities
from assent.definitions.publisher import SQL, Publisher
from assent.model.mutation import Refused, Rejection
from assent.model.problems import Problem
from assent.model.workflow import Workflow
from assent.store.rows import Row

_PERSON: Final = "user:"


class PublishDenied(Refused):
    """The publisher lacks rights that workflows use; it names all of them."""

    def __init__(self, publisher: str, keys: Iterable[str], problems: Iterable[Problem]) -> None:
        self.publisher = publisher
        self.keys = tuple(keys)
        self.problems = tuple(dict.fromkeys(problems))
        named = " and ".join(f"`{key}`" for key in self.keys)
        why = "; ".join(problem.message for problem in self.problems)
        message = f"{publisher} may not publish {named}: {why}"
        super().__init__(Rejection("POLICY_DENIED", message, ("actor",), self.problems))

    def with_other(self, other: "PublishDenied") -> "PublishDenied":
        return PublishDenied(self.publisher, [*self.keys, *other.keys], [*self.problems, *other.problems])


async def require_rights(publisher: Publisher, workflow: Workflow) -> None:
    """D29: raise `PublishDenied` with everything that the workflow uses and its publisher does not hold."""
    needs = required_capabilities(
        workflow.nodes.values(), relaxed_here=workflow.kind == "flow", publisher=publisher.actor.id
    )
    problems = [*_missing(publisher, needs), *[one async for one in _lent_accounts(publisher, needs)]]
    if problems:
        raise PublishDenied(publisher.actor.id, [workflow.key], problems)


def _missing(publisher: Publisher, needs: Iterable[RequiredCapability]) -> Iterator[Problem]:
    for need in needs:
        capability = publisher.capabilities.get(need.thing, need.capability)
        if not publisher.actor.can(capability):
            yield _problem(need, f"which takes {capability}")


async def _lent_accounts(publisher: Publisher, needs: Iterable[RequiredCapability]) -> AsyncIterator[Problem]:
    """What service accounts hold that steps run as: nobody lends more than they have."""
    lent = [need for need in needs if need.thing.startswith("service_account:")]
    actor = publisher.actor
    if not lent or actor.can("*"):
        return
    names = sorted({need.thing.partition(":")[2] for need in lent})
    rows = await publisher.connection.fetch(SQL.read_service_accounts, publisher.org_id, names)
    accounts = {row["user_id"]: row for row in rows}
    for need in lent:
        account = accounts.get(need.thing.partition(":")[2])
        if account is None:
            # An account that is made later could be given rights by people who do not know that it is lent.
            yield _problem(need, "which is no active service account of the org")
            continue
        for capability in account["capabilities"]:
            if not actor.can(capability):
                yield _problem(need, f"which holds the capability {capability}, and {actor.id} does not")
        for role in account["roles"]:
            if role not in actor.roles:
                yield _problem(need, f"which holds the role {role}, and {actor.id} does not")


async def require_another_editor(publisher: Publisher, draft: Row) -> None:
    """Raise `Refused` where an org publishes with four eyes, and a draft's text has not been seen by two people.

    Service accounts do not count: whoever holds their key could be both.
    """
    if not await publisher.needs_two_people():
        return
    editors, actor = draft["edited_by"], publisher.actor
    if actor.kind == "user" and editors and all(_is_another_person(one, actor.id) for one in editors):
        return
    by = ", ".join(one.partition(":")[2] for one in editors) or "nobody who is known"
    message = (
        f"{actor.id} may not publish this draft, written by {by}: {publisher.org_id} publishes with four eyes"
    )
    hint = "a person publishes it who did not write it, and people wrote it"
    raise Refused(Rejection("FOUR_EYES_REQUIRED", message, ("actor",), hint=hint))


def _is_another_person(editor: str, actor_id: str) -> bool:
    return editor.startswith(_PERSON) and editor != f"{_PERSON}{actor_id}"


def _problem(need: RequiredCapability, why: str) -> Problem:
    return Problem("CAPABILITY_MISSING", f"`{need.node}` {need.use}, {why}", ("actor",))
