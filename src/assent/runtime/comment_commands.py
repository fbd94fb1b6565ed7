"""Comments on entities, and questions of approvers to those whose work they are to approve.

Neither moves anything: a question leaves its request open, and its approvers and originators as they are.
"""

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from assent.approvals.requests import read_request
from assent.effects.notices import Notice, send_notices
from assent.engine.consent import not_open
from assent.engine.inputs import Claim
from assent.engine.requests import seat_rules_of
from assent.model.actor import Principal
from assent.model.approval import ApprovalRequest
from assent.model.contract import Contract
from assent.model.cursor import ITEMS_DEFAULT, ItemPage, require_limit
from assent.model.mutation import Entity, Refused, Rejection
from assent.people.comments import (
    MENTIONS_MAX,
    QUESTIONS_OPEN_MAX,
    Comment,
    NewComment,
    answer_if_open,
    check_text,
    count_open_questions,
    count_question_if_pending,
    insert_comment,
    mentioned_in,
    names_in,
    no_question,
    page_of_comments,
    page_of_questions,
    read_question,
)
from assent.runtime.batch import BatchItem
from assent.runtime.core import CommandTransaction, OrgScope
from assent.runtime.readers import find_readable_entity, may_read_request
from assent.runtime.rights import may_read
from assent.store.database import Connection


@dataclass(frozen=True, slots=True)
class CommentCommands:
    """The comments on the entities of an org, for all who may read the entity."""

    scope: OrgScope

    async def list(
        self,
        entity_id: UUID,
        *,
        entity_type: str | None = None,
        cursor: str | None = None,
        limit: int = ITEMS_DEFAULT,
    ) -> ItemPage[Comment]:
        """Return a page of the comments on an entity and of the questions about it, newest first."""
        require_limit(limit)
        scope = self.scope

        async def query(connection: Connection) -> ItemPage[Comment]:
            await find_readable_entity(scope, connection, entity_id, entity_type)
            return await page_of_comments(connection, scope.org_id, entity_id, cursor, limit)

        return await scope.read(query)

    async def add(self, entity_id: UUID, text: str, *, entity_type: str | None = None) -> Comment:
        """Comment on an entity, and notify the members that the text mentions, such as `@bob`.

        Raise `Refused` if the actor, or a member who is mentioned, may not read the entity.
        """
        scope, actor = self.scope, self.scope.required_actor
        check_text(text)

        async def work(tx: CommandTransaction) -> Comment:
            now = scope.database.clock.now()
            entity = await find_readable_entity(scope, tx.connection, entity_id, entity_type)
            mentions = await self._mentions(tx.connection, entity, text)
            new = NewComment(
                scope.new_id(),
                scope.org_id,
                actor.id,
                text,
                entity.partition_id,
                entity.type,
                entity.id,
                entity.version,
                tuple(mentions),
            )
            comment = await insert_comment(tx.connection, new, now)
            contract = scope.core.kernel.registry.contracts[entity.type]
            facts = {"by": actor.id, "what": _name_of(entity, contract), "comment": text}
            link = f"{entity.type}/{entity.id}"
            notices = [
                Notice(scope.org_id, user, "mentioned", facts, str(new.id), "entities", link)
                for user in mentions
                if user != actor.id
            ]
            await send_notices(tx.connection, notices, now)
            details = {"entity_type": entity.type, "entity_id": str(entity.id), "mentions": mentions}
            await tx.note("comment", "comment.add", str(new.id), details=details)
            return comment

        return await scope.write(work)

    async def _mentions(self, connection: Connection, entity: Entity, text: str) -> builtins.list[str]:
        """Return the members that a text mentions; raise `Refused` if one of them may not read the entity."""
        scope, directory = self.scope, self.scope.core.directory
        asked = [(scope.org_id, name) for name in names_in(text)]
        found = await directory.by_id(connection, asked) if asked else {}
        members = [name for (_, name), member in found.items() if member.active and member.kind == "user"]
        mentions = mentioned_in(text, members)
        if len(mentions) > MENTIONS_MAX:
            message = f"expected at most {MENTIONS_MAX} members who are mentioned, found {len(mentions)}"
            raise Refused(Rejection("TOO_LONG", message, ("text",)))
        if mentions:
            principals = [(scope.org_id, Principal(name)) for name in mentions]
            actors = await directory.actors(connection, principals)
            contracts = scope.core.kernel.registry.contracts
            for name in mentions:
                try:
                    may_read(contracts, entity.type, actors[scope.org_id, name])
                except Refused:
                    message = f"{name} may not read this {entity.type}, and cannot be mentioned here"
                    raise Refused(Rejection("POLICY_DENIED", message, ("text",))) from None
        return mentions


@dataclass(frozen=True, slots=True)
class QuestionCommands:
    """Questions of approvers to originators, and the answers."""

    scope: OrgScope

    async def list(
        self, request_id: UUID, *, cursor: str | None = None, limit: int = ITEMS_DEFAULT
    ) -> ItemPage[Comment]:
        """Return a page of the questions on an approval request, oldest first, for all who may read the request."""
        require_limit(limit)
        scope = self.scope

        async def query(connection: Connection) -> ItemPage[Comment]:
            await self._readable_request(connection, request_id)
            return await page_of_questions(connection, scope.org_id, request_id, cursor, limit)

        return await scope.read(query)

    async def get(self, question_id: UUID) -> Comment:
        """Return a question, for its author, for its addressee, and for all who may read its request."""
        return await self.scope.read(lambda connection: self._readable(connection, question_id))

    async def ask(self, request_id: UUID, text: str, *, to: str | None = None) -> Comment:
        """Ask an originator, by default who requested the approval; the request stays open.

        The actor must be able to decide the request now, and asks one of its originators. The question is in the
        inbox of the person until it is answered, or the request has ended.
        """
        scope, actor = self.scope, self.scope.required_actor
        check_text(text)

        async def work(tx: CommandTransaction) -> Comment:
            connection, now = tx.connection, scope.database.clock.now()
            request = await self._request_to_decide(connection, request_id)
            asks = await self._who_answers(connection, request, to)
            if not await count_question_if_pending(connection, scope.org_id, request_id):
                raise Refused(not_open(request_id, "void", None))
            if await count_open_questions(connection, scope.org_id, request_id) >= QUESTIONS_OPEN_MAX:
                message = f"{QUESTIONS_OPEN_MAX} questions of this request wait for an answer"
                raise Refused(Rejection("TOO_MANY_QUESTIONS", message, ("request_id",)))
            new = NewComment(
                scope.new_id(),
                scope.org_id,
                actor.id,
                text,
                request.partition_id,
                request.entity_type,
                request.entity_id,
                request.entity_version,
                request_id=request.id,
                instance_id=request.instance_id,
                asks=asks,
            )
            question = await insert_comment(connection, new, now)
            await self._notify(connection, "questioned", asks, question, request, text)
            await self._note(tx, "question.ask", question)
            return question

        return await scope.write(work)

    async def answer(self, question_id: UUID, text: str) -> Comment:
        """Answer a question, once, as its addressee; its author is notified, and the request stays open."""
        scope, actor = self.scope, self.scope.required_actor
        check_text(text)

        async def work(tx: CommandTransaction) -> Comment:
            connection, now = tx.connection, scope.database.clock.now()
            found = await self._readable(connection, question_id)
            if found.asks != actor.id:
                raise Refused(Rejection("POLICY_DENIED", f"the question is to {found.asks}", ("actor",)))
            question = await answer_if_open(connection, scope.org_id, question_id, text, now)
            if question is None:
                why = "was answered before" if found.answered_at else "is closed: its request has ended"
                raise Refused(Rejection("QUESTION_CLOSED", f"question {question_id} {why}", ("question_id",)))
            request = await self._request_of(connection, question)
            await self._notify(connection, "answered", question.author_id, question, request, text)
            await self._note(tx, "question.answer", question)
            return question

        return await scope.write(work)

    async def _readable(self, connection: Connection, question_id: UUID) -> Comment:
        scope, reader = self.scope, self.scope.actor_or_system.id
        found = await read_question(connection, scope.org_id, question_id)
        if not scope.sees(found.partition_id):
            raise no_question(question_id)
        if reader not in (found.author_id, found.asks):
            request = await self._request_of(connection, found)
            await may_read_request(scope.core, connection, request, scope.actor_or_system)
        return found

    async def _readable_request(self, connection: Connection, request_id: UUID) -> ApprovalRequest:
        scope = self.scope
        found = await read_request(connection, scope.org_id, request_id)
        if found is None or not scope.sees(found.request.partition_id):
            raise Refused(Rejection("NOT_FOUND", f"no approval request {request_id}", ("request_id",)))
        await may_read_request(scope.core, connection, found.request, scope.actor_or_system)
        return found.request

    async def _request_of(self, connection: Connection, question: Comment) -> ApprovalRequest:
        assert question.request_id is not None
        found = await read_request(connection, question.org_id, question.request_id)
        assert found is not None
        return found.request

    async def _request_to_decide(self, connection: Connection, request_id: UUID) -> ApprovalRequest:
        """Return a request that the actor could decide now, by the rules of decisions; raise `Refused`."""
        scope, actor = self.scope, self.scope.required_actor
        asked = await self._readable_request(connection, request_id)
        now = scope.database.clock.now()
        probe = Claim(scope.new_id(), actor, request_id)
        work = BatchItem(scope.org_id, asked.instance_id, [probe])
        job = await scope.core.advancing.loader.look(connection, work, now)
        rules = seat_rules_of(job.run, request_id) if job is not None else None
        if rules is None:
            raise Refused(not_open(request_id, asked.status, asked.reason))
        if isinstance(rules, Rejection):
            raise Refused(rules)
        seat = rules.find(actor.id)
        if isinstance(seat, Rejection):
            raise Refused(seat)
        return asked

    async def _who_answers(self, connection: Connection, request: ApprovalRequest, to: str | None) -> str:
        """Return the member who is to answer: the one who is named, or who requested it."""
        people = sorted({request.requested_by, *request.originators} - {self.scope.required_actor.id})
        asks = to if to is not None else request.requested_by
        if asks not in people:
            message = f"{asks} had no part in what is to be approved"
            raise Refused(Rejection("NOT_AN_ORIGINATOR", message, ("to",), hint=_ask_another(people)))
        key = request.org_id, asks
        member = (await self.scope.core.directory.by_id(connection, [key])).get(key)
        if member is None or not member.active or member.kind != "user":
            message = f"{asks} is no active member who could answer"
            others = [name for name in people if name != asks]
            raise Refused(Rejection("INACTIVE", message, ("to",), hint=_ask_another(others)))
        return asks

    async def _notify(  # noqa: PLR0913, PLR0917
        self,
        connection: Connection,
        kind: Literal["questioned", "answered"],
        user: str,
        question: Comment,
        request: ApprovalRequest,
        text: str,
    ) -> None:
        facts: dict[str, str] = {
            "by": self.scope.required_actor.id,
            "what": _what(request),
            "comment": text,
        }
        if kind == "answered":
            facts["question"] = question.text
        page, item = ("approvals", request.id) if kind == "answered" else ("questions", question.id)
        notice = Notice(request.org_id, user, kind, facts, str(question.id), page, str(item))
        await send_notices(connection, [notice], self.scope.database.clock.now())

    async def _note(self, tx: CommandTransaction, action: str, question: Comment) -> None:
        details: Mapping[str, Any] = {"request_id": str(question.request_id), "asks": question.asks}
        await tx.note("question", action, str(question.id), details=details, instance_id=question.instance_id)


def _name_of(entity: Entity, contract: Contract) -> str:
    title = entity.data.get(contract.inbox.title or "")
    return f"{entity.type} {title if title is not None else entity.id}"


def _ask_another(people: Sequence[str]) -> str:
    return f"ask one of {', '.join(people)}" if people else "mention a member in a comment"


def _what(request: ApprovalRequest) -> str:
    names: Sequence[str | None] = (request.node_name, request.title or request.entity_type)
    return ": ".join(name for name in names if name) or "an approval"
