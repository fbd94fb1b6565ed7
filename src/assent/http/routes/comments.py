"""Comments on entities, and questions of approvers to those whose work they are to approve.

`/api/entities/…/comments`, `/api/approvals/…/questions`, `/api/questions`
"""

from uuid import UUID

from pydantic import Field

from assent.bodies.body import ITEMS_DEFAULT, Page
from assent.bodies.comments import CommentBody
from assent.http.context import Transaction
from assent.http.fields import NamePath, RequestModel, ShortText, Text
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.replies import Reply, reply_with
from assent.http.routing import Router
from assent.people.comments import Comment

router = Router(tags=["comments"])


class CommentToAdd(RequestModel):
    text: Text = Field(
        description="`@` and a member's id mentions the member, who is notified.",
        examples=["@bea, is this the right cost center?"],
    )


class QuestionToAsk(RequestModel):
    text: Text = Field(examples=["Which project is this for?"])
    to: ShortText | None = Field(
        None, description="One of the originators; by default who requested the approval.", examples=["ann"]
    )


class AnswerToQuestion(RequestModel):
    text: Text = Field(examples=["For the new office."])


async def read_question_of_caller(tx: Transaction, question_id: UUID) -> Comment:
    """Return a question that the caller may read; else raise `Refused`."""
    return await tx.reads.questions.get(question_id)


def _show(question: Comment, status: int = 200) -> Reply[CommentBody]:
    return reply_with(CommentBody.of(question), status, about=(("question", str(question.id)),))


@router.query(
    "/api/entities/{entity_type}/{entity_id}/comments",
    scope="entities:read",
    errors=(404,),
    summary="List the comments on an entity, newest first",
)
async def list_entity_comments(
    tx: Transaction,
    entity_type: NamePath,
    entity_id: UUID,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[CommentBody]]:
    """With the questions that approvers asked about it, and their answers."""
    page = await tx.reads.comments.list(entity_id, entity_type=entity_type, cursor=cursor, limit=limit)
    return reply_with_page(page, CommentBody.of)


@router.command(
    "/api/entities/{entity_type}/{entity_id}/comments",
    scope="entities:write",
    rate="entities",
    status=201,
    errors=(404,),
    summary="Comment on an entity",
)
async def add_entity_comment(
    tx: Transaction, entity_type: NamePath, entity_id: UUID, body: CommentToAdd
) -> Reply[CommentBody]:
    """For all who may read the entity, as must the members who are mentioned. It changes no version."""
    comment = await tx.runtime.comments.add(entity_id, body.text, entity_type=entity_type)
    about = (("entity", f"{entity_type}/{entity_id}"),)
    return reply_with(CommentBody.of(comment), 201, about=about)


@router.query(
    "/api/approvals/{request_id}/questions",
    scope="approvals:read",
    errors=(404,),
    summary="List the questions on a request, oldest first",
)
async def list_approval_questions(
    tx: Transaction, request_id: UUID, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Reply[Page[CommentBody]]:
    """Each with its answer, for all who may read the request."""
    page = await tx.reads.questions.list(request_id, cursor=cursor, limit=limit)
    return reply_with_page(page, CommentBody.of)


@router.command(
    "/api/approvals/{request_id}/questions",
    scope="approvals:write",
    rate="workflows",
    status=201,
    errors=(404, 409),
    summary="Ask a question before deciding",
)
async def ask_question(tx: Transaction, request_id: UUID, body: QuestionToAsk) -> Reply[CommentBody]:
    """The request stays open. For its approvers and their delegates; the answer comes by mail and is kept here."""
    return _show(await tx.runtime.questions.ask(request_id, body.text, to=body.to), 201)


@router.query(
    "/api/questions/{question_id}", scope="approvals:read", errors=(404,), summary="Read a question"
)
async def show_approval_question(tx: Transaction, question_id: UUID) -> CommentBody:
    """For its author, for its addressee, and for callers who may read its request."""
    return CommentBody.of(await read_question_of_caller(tx, question_id))


@router.command(
    "/api/questions/{question_id}/answer",
    scope="approvals:write",
    rate="workflows",
    errors=(404, 409),
    summary="Answer a question",
)
async def answer_question(tx: Transaction, question_id: UUID, body: AnswerToQuestion) -> Reply[CommentBody]:
    """Once, for its addressee. The request stays as it is."""
    return _show(await tx.runtime.questions.answer(question_id, body.text))
