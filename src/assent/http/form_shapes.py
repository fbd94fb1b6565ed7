"""Forms as JSON."""

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from pydantic import BaseModel, Field

from assent.approvals.forms import FormView
from assent.http.problems import FieldProblem
from assent.http.texts import Data


class FormBody(BaseModel):
    """A form; its draft is shown to those who could answer it."""

    id: UUID = Field(description="The step that asks.")
    instance_id: UUID
    workflow: str = Field(examples=["survey"])
    node_id: str
    node_name: str = Field(examples=["ask"])
    label: str | None
    entity_type: str | None
    entity_id: UUID | None
    entity_version: int
    title: str | None
    figure: Decimal | None
    form_schema: Data = Field(description="What is asked, as a JSON schema.")
    answers: list[str] = Field(description="The events that it can be answered with.")
    requested_by: str
    asked: list[str] = Field(description="Who is asked now; whoever has the role may fill it in as well.")
    status: str = Field(examples=["open"])
    reason: str | None
    claimed_by: str | None
    claimed_at: datetime | None
    draft: Data | None
    draft_by: str | None
    draft_at: datetime | None
    draft_problems: list[FieldProblem] | None = Field(
        description="What would be wrong with the draft if it were sent."
    )
    due_at: datetime | None
    created_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, view: FormView) -> "FormBody":
        own = {name: getattr(view, name) for name in cls.model_fields if name != "form_schema"}
        return cls(**own, form_schema=dict(view.schema))
