"""Bodies of instances and their steps, of approvals and forms, of the inbox, and of entities."""

from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Literal
from uuid import UUID

from pydantic import Field

from assent.approvals.requests import ApprovalDetails
from assent.bodies.body import Data, Page, ResponseModel
from assent.bodies.operations import WayOutBody
from assent.bodies.problems import FieldProblem
from assent.compiler.approvals import shown_in_inbox
from assent.model.contract import Contract, EditWindow
from assent.model.mutation import without_attachments
from assent.people.inbox import Bucket, InboxKind
from assent.runtime.paths import StepDetails
from assent.runtime.readers import InstanceDetails, WaitingPlace
from assent.runtime.views import StepItem
from assent.store.rows import Row

_ID: Final = "01890a5d-ac96-774b-bcce-b302099a8057"
_SHA256: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_DATA: Final = {"number": "2026-17", "grand_total": 120000}


class StepBody(ResponseModel):
    """A step that waits."""

    name: str = Field(examples=["review"])
    node_id: str
    kind: str = Field(examples=["approval"])
    step_id: UUID | None = None
    request_id: UUID | None = Field(None, description="The approval request, if there is one.")
    asked: list[str] = Field([], description="The users who are asked now.", examples=[["bob"]])
    since: datetime | None = Field(None, description="When it began to wait.")
    due_at: datetime | None = None


class MissingDocument(ResponseModel):
    """A document that a step waits for."""

    id: UUID = Field(description="The requirement.")
    doc_type: str = Field(examples=["passport"])
    subject: str = Field(examples=["client-17"])
    status: str = Field(examples=["rejected"])
    required_state: str = Field(examples=["verified"])
    attempt_count: int = Field(description="The rounds of asking so far.")
    max_attempts: int
    rejection_code: str | None = Field(None, examples=["UNREADABLE"])
    rejection_reason: str | None = None


class PossibleStep(StepBody):
    """A step that waits, with what the caller can do about it."""

    label: str | None = None
    events: list[str] = Field(
        [], description="The answers that the caller may give.", examples=[["approved", "rejected"]]
    )
    form: Data = Field({}, description="The fields of the form, if the caller may fill it in.")

    missing: list[MissingDocument] = Field([], description="The documents that it waits for.")

    @classmethod
    def at(cls, place: WaitingPlace) -> "PossibleStep":
        """Return the body of a place where an instance waits."""
        step = StepBody.of(place.waiting).model_dump()
        missing = [MissingDocument.of(one) for one in place.missing]
        return cls(
            **step, label=place.label, events=list(place.events), form=dict(place.form), missing=missing
        )


class TimelineStep(ResponseModel):
    """Something that happened."""

    id: UUID
    at: datetime
    step: str = Field(examples=["review"])
    node_id: str
    kind: str = Field(examples=["approval"])
    status: str = Field(examples=["completed"])
    outcome: str | None = Field(None, examples=["approved"])
    actor: str | None = Field(None, description="The user who caused it.", examples=["alice"])
    on_behalf_of: list[str] | None = Field(
        description="The users that the actor acted for; null for the actor alone.", examples=[["ann"]]
    )
    finished_by: str | None = Field(None, examples=["bob"])
    finished_at: datetime | None = None
    reason: str | None = None
    error: str | None = None

    @classmethod
    def of_row(cls, row: Row, name: str | None = None) -> "TimelineStep":
        """Return the body of a row of a step; `name` is the name of its node."""
        return cls.of(StepItem.of(row, name))


class InstanceBody(ResponseModel):
    """An instance after a command."""

    id: UUID = Field(examples=[_ID])
    workflow_id: str = Field(examples=["orders.approval"])
    status: str = Field(examples=["running"])
    version: int
    entity_id: UUID | None = None
    entity_version: int = 0
    context: Data = Field(examples=[{"order_id": "ord-123"}])
    steps: list[StepBody] = Field(validation_alias="waiting")
    incident: dict[str, Any] | None = None
    expires_at: datetime | None = None


class InstanceCountBody(ResponseModel):
    """How many instances fit a filter."""

    count: int
    more: bool = Field(description="Whether there are more than the count says.")


class InstanceSummary(ResponseModel):
    """An instance in a list."""

    id: UUID = Field(examples=[_ID])
    workflow_id: str = Field(examples=["orders.approval"])
    definition_version: int = Field(description="The version of the workflow that it lives by.")
    status: str = Field(examples=["running"])
    version: int
    subject_id: str = Field(description="The user who started it.", examples=["alice"])
    partition_id: str | None = None
    entity_type: str | None = None
    entity_id: UUID | None = None
    entity_version: int = 0
    current_nodes: list[str] = Field(examples=[["review"]])
    stands_at: list[str] = Field([], description="The names of its current nodes.", examples=[["review"]])
    incident: dict[str, Any] | None = None
    started_at: datetime
    updated_at: datetime
    completed_at: datetime | None = None
    expires_at: datetime | None = None


class EffectAttemptBody(ResponseModel):
    """One attempt to send an effect, and its result."""

    attempt: int
    outcome: Literal["done", "failed", "lost"]
    code: str | None = Field(examples=["HTTP_STATUS"])
    error: str | None
    ambiguous: bool = Field(description="Whether it may have had its effect although it failed.")
    answer: Any = Field(description="What the receiver answered; only for holders of `workflows:retry`.")
    started_at: datetime
    ended_at: datetime


class EffectBody(ResponseModel):
    """An effect of an instance: where it stands, and every attempt."""

    id: UUID
    type: str = Field(examples=["webhook"])
    destination: str = Field(examples=["erp.example"])
    step_id: UUID
    step: str | None = Field(description="The name of its step.", examples=["tell"])
    status: str = Field(
        description="`resolved` is a dead one whose step went on, or that was discarded.",
        examples=["retrying"],
    )
    awaited: bool = Field(description="Whether its step waits for the answer.")
    attempts: int
    attempts_max: int
    next_at: datetime | None = Field(
        description="When it is tried next; null if it has ended or is being sent."
    )
    created_at: datetime
    ended_at: datetime | None
    tried: list[EffectAttemptBody] = Field(description="Every attempt, in order.")


class Descriptor(InstanceSummary):
    """An instance as the caller sees it."""

    name: str | None = None
    context: Data = Field(examples=[{"order_id": "ord-123"}])
    steps: list[PossibleStep]
    transitions: list[str] = Field(
        description="The transitions of the entity that the caller may make.", examples=[["cancel"]]
    )
    timeline: list[TimelineStep]
    effects: list[EffectBody] = Field(description="The newest effects of its steps, newest first.")

    @classmethod
    def of_details(cls, details: InstanceDetails) -> "Descriptor":
        """Return the body of an instance as the caller sees it."""
        return cls(
            **InstanceSummary.of(details.instance).model_dump(),
            name=details.name,
            context=dict(details.context),
            steps=[PossibleStep.at(place) for place in details.waiting],
            transitions=list(details.transitions),
            timeline=[TimelineStep.of(step) for step in details.timeline],
            effects=[EffectBody.of(effect) for effect in details.effects],
        )


class PathNodeBody(ResponseModel):
    """A node of a definition, and how often an instance was there."""

    id: str
    name: str = Field(examples=["review"])
    kind: str = Field(examples=["approval"])
    label: str | None
    slot: str | None = Field(description="The slot that an org filled with it; null for all else.")
    window: str = Field(description="The effect of an edit while it waits there.", examples=["amend_only"])
    timeout_s: int | None = Field(description="How many seconds it waits at most.")
    visits: int
    last_step_id: UUID | None
    last_status: str | None = Field(examples=["completed"])


class PathEdgeBody(ResponseModel):
    """An edge of a definition, and how often an instance took it."""

    id: str
    source: str
    target: str
    label: str = Field(description="The outcome that it answers.", examples=["approved"])
    condition: str | None = Field(
        description="Only for holders of `workflows:retry`, `definitions:read`, `definitions:edit` or "
        "`definitions:publish`, like `guard`.",
        examples=["entity.grand_total > 10000"],
    )
    guard: str | None = Field(description="The capability that its mover must hold.")
    provenance: str = Field(description="`envelope`, `flow`, or a slot.", examples=["envelope"])
    loop: bool = Field(description="Whether it leads back, or out of a slot by a rejection.")
    taken: int


class PathTokenBody(ResponseModel):
    """A thread of execution, and where it is."""

    id: str = Field(examples=["0.1"])
    node_id: str
    state: str = Field(examples=["resting"])
    generation: int = Field(description="How often the way led back before it.")
    step_id: UUID | None
    since: datetime | None
    wakes_at: datetime | None = Field(description="When a timer continues it.")
    event_key: str | None = Field(description="The event that it waits for.")
    attempt: int


class InstancePathBody(ResponseModel):
    """The graph that an instance lives by, and its way on it."""

    instance_id: UUID
    definition: str = Field(examples=["orders.approval"])
    definition_version: int
    start: str
    nodes: list[PathNodeBody]
    edges: list[PathEdgeBody]
    tokens: list[PathTokenBody]
    generation: int
    more: bool = Field(description="Whether there are older steps, which `visits` and `taken` do not count.")
    ways_out: list[WayOutBody] = Field(
        description="The commands by which the caller can help it, where an error paused it."
    )


class StepDetailsBody(TimelineStep):
    """A step with what it was given, how its way was chosen, and what it gave."""

    token_id: str = Field(examples=["0.1"])
    generation: int
    entity_version: int
    run_as: str = Field(examples=["actor"])
    duration_ms: int | None
    wakes_at: datetime | None
    event_key: str | None
    edges: list[str] = Field(description="The edges that it left by.")
    shown: bool = Field(
        description="Whether the caller sees `input`, `evaluations`, `expressions` and `output`: "
        "holders of `workflows:retry` do."
    )
    input: Any
    evaluations: list[dict[str, Any]] = Field(
        description="Of guards and conditions: text, variables and result."
    )
    expressions: dict[str, Any] = Field(
        description="Of what it was given: text, variables and result of each."
    )
    output: Data
    effects: list[EffectBody] = Field(description="What it sent, each with its attempts.")

    @classmethod
    def of_step(cls, details: StepDetails) -> "StepDetailsBody":
        """Return the body of a step."""
        own = {
            name: getattr(details, name) for name in StepDetails.__slots__ if name not in ("step", "effects")
        }
        effects = [EffectBody.of(effect) for effect in details.effects]
        return cls(**TimelineStep.of(details.step).model_dump(), **own, effects=effects)


class GroupBody(ResponseModel):
    """How many seats of a group must approve."""

    name: str
    mode: str = Field(examples=["any"])
    needed: int
    stage: int = 0


class SeatBody(ResponseModel):
    """One user who is, was or will be asked."""

    id: UUID
    user_id: str = Field(examples=["bob"])
    group: str
    via: str = Field(examples=["role:approver"])
    status: str = Field(examples=["open"])
    note: str | None = None


class DecisionBody(ResponseModel):
    """The answer of one approver."""

    id: UUID
    seat_id: UUID
    approver_id: str
    on_behalf_of: str | None = None
    answer: str = Field(examples=["approved"])
    outcome: str | None = None
    reason: str | None = None
    decided_at: datetime


class ApprovalBody(ResponseModel):
    """A request for approval: its exact content, its approvers and its state."""

    id: UUID
    instance_id: UUID
    node_id: str
    node_name: str | None = Field(None, description="The name of its step.", examples=["finance"])
    status: str = Field(examples=["pending"])
    reason: str | None = Field(None, description="The reason of its end.")
    mode: str = Field(examples=["any"])
    title: str | None = None
    figure: Decimal | None = None
    currency: str | None = Field(
        None, description="Of the figure, if it is money with a currency.", examples=["EUR"]
    )
    figure_text: str | None = Field(
        None, description="The figure as people read it.", examples=["20,600.00 EUR"]
    )
    requested_by: str
    created_at: datetime
    due_at: datetime | None = None
    decided_at: datetime | None = None
    applied_at: datetime | None = Field(None, description="When a gate used the approval.")
    claimed_by: str | None = None
    entity_type: str | None = None
    entity_id: UUID | None = None
    entity_version: int = Field(0, description="The one version that is to be approved.")
    snapshot: Data | None = Field(None, description="The content of that version.")
    attachments: dict[UUID, str] = Field({}, description="Its files at that version, id → SHA-256.")
    snapshot_state: str | None = None
    groups: list[GroupBody]
    seats: list[SeatBody]
    decisions: list[DecisionBody]
    questions: int = Field(0, description="How many questions its approvers have asked.")

    @classmethod
    def of_details(cls, details: ApprovalDetails) -> "ApprovalBody":
        """Return the body of a request with the content of its version."""
        found = cls.of(details.request)
        data, attachments = without_attachments(details.snapshot or {})
        snapshot = dict(data) if details.snapshot is not None else None
        files = {UUID(one): sha256 for one, sha256 in attachments.items()}
        about = {"snapshot": snapshot, "attachments": files, "snapshot_state": details.state}
        return found.model_copy(update=about)


class RefusalBody(ResponseModel):
    """Why a command would be refused."""

    code: str = Field(examples=["SEPARATION_OF_DUTIES"])
    message: str = Field(examples=["ann had a part in what is to be approved"])
    hint: str | None = None


class ApprovalToDecideBody(ApprovalBody):
    """A request with what the caller may answer now."""

    answers: list[str] = Field(
        description="The answers that the caller may give now.",
        examples=[["abstained", "approved", "rejected"]],
    )
    refusal: RefusalBody | None = Field(description="Why the caller may not approve it now, if they may not.")

    @classmethod
    def of_details(cls, details: ApprovalDetails) -> "ApprovalToDecideBody":
        """Return the body of a request that was read with its answers."""
        refusal = RefusalBody.of(details.refusal) if details.refusal is not None else None
        found = ApprovalBody.of_details(details).model_dump()
        return cls(**found, answers=list(details.answers), refusal=refusal)


class DecidedBody(ResponseModel):
    """A request after a command, and its instance."""

    request: ApprovalBody
    instance: InstanceBody | None = Field(None, description="If the caller may read it.")


class InboxItemBody(ResponseModel):
    """An approval, a form or a question that waits for the caller."""

    kind: InboxKind
    request_id: UUID = Field(description="The approval request, the step of the form, or the question.")
    bucket: Bucket = Field(description="The caller's own, one of their roles', or a delegator's.")
    on_behalf_of: str | None = Field(description="The user of the seat, if it is not the caller's own.")
    seat_id: UUID
    group: str
    via: str = Field(examples=["role:approver"])
    workflow: str = Field(examples=["orders.approval"])
    instance_id: UUID
    node_id: str
    node_name: str = Field(examples=["review"])
    entity_type: str | None
    entity_id: UUID | None
    version: int = Field(description="The version that is to be approved.")
    state: str | None = Field(description="The current state of the entity.")
    title: str | None
    figure: Decimal | None
    currency: str | None = Field(
        description="Of the figure, if it is money with a currency.", examples=["EUR"]
    )
    figure_text: str | None = Field(description="The figure as people read it.", examples=["20,600.00 EUR"])
    requested_by: str
    asked_at: datetime
    due_at: datetime | None
    overdue: bool
    claimed_by: str | None
    questions: int = Field(description="How many questions the approvers have asked about it.")
    question: str | None = Field(
        description="What `requested_by` asks the caller, if it is a question.",
        examples=["Is this the right cost center?"],
    )


class CountBody(ResponseModel):
    open: int
    overdue: int


class InboxCountsBody(ResponseModel):
    """The number of items in each part of the inbox."""

    mine: CountBody
    roles: CountBody
    delegated: CountBody


class InboxBody(ResponseModel):
    """The inbox of a member as the command line shows it: a page, and how much there is."""

    page: Page[InboxItemBody]
    counts: InboxCountsBody


class EntityBody(ResponseModel):
    """An entity at its current version."""

    id: UUID = Field(examples=[_ID])
    type: str = Field(examples=["invoice"])
    state: str = Field(examples=["draft"])
    version: int
    data: Data = Field(examples=[_DATA])
    attachments: dict[UUID, str] = Field(
        {}, description="Its files, id → SHA-256: a part of its content.", examples=[{_ID: _SHA256}]
    )
    edit_window: EditWindow = Field(description="The effect of an edit now.")
    contract_version: int
    partition_id: str | None = None
    instance_id: UUID | None = Field(
        None, description="Its workflow instance, also one that is about to start."
    )
    amended_from_id: UUID | None = None
    created_at: datetime
    updated_at: datetime


class StateCountBody(ResponseModel):
    state: str = Field(examples=["draft"])
    count: int
    more: bool


class EntityCountsBody(ResponseModel):
    """How many entities fit a filter, in all and by state."""

    count: int
    more: bool = Field(description="Whether there are, or may be, more than the count says.")
    states: list[StateCountBody]


class ContractFieldBody(ResponseModel):
    """A field of an entity type."""

    name: str = Field(examples=["grand_total"])
    label: str | None = Field(examples=["Total"])
    type: str = Field(examples=["money"])
    required: bool
    system: bool = Field(description="Whether only the workflow writes it.")
    values: list[str] | None = Field(description="The choices of an enum.")
    to: str | None = Field(description="The entity type that a reference leads to.")
    currency: str | None = Field(
        description="Of money: a code, or the field that has it.", examples=["currency"]
    )


class ContractStateBody(ResponseModel):
    """A state of the lifecycle of an entity type."""

    name: str = Field(examples=["draft"])
    label: str | None
    edit: EditWindow = Field(description="The effect of an edit in this state.")


class ContractTransitionBody(ResponseModel):
    """A transition of the lifecycle of an entity type."""

    name: str = Field(examples=["approve"])
    label: str | None
    from_states: list[str] = Field(examples=[["submitted"]])
    to: str = Field(examples=["active"])
    approval: Literal["required", "none"]
    on_reject: str | None = Field(examples=["draft"])


class ContractBody(ResponseModel):
    """What people need to read the entities of a type: their fields and their lifecycle."""

    entity_type: str = Field(examples=["invoice"])
    version: int
    label: str | None = Field(examples=["Supplier invoice"])
    title: str | None = Field(description="The field that names an entity in lists.", examples=["number"])
    figure: str | None = Field(description="The field with its figure in lists.", examples=["grand_total"])
    fields: list[ContractFieldBody]
    initial: str = Field(description="The state in which an entity begins.", examples=["draft"])
    states: list[ContractStateBody]
    transitions: list[ContractTransitionBody]

    @classmethod
    def of_contract(cls, contract: Contract) -> "ContractBody":
        """Return the body of a contract."""
        life, shown = contract.lifecycle, shown_in_inbox(contract)
        fields = [
            {
                **spec.model_dump(include=set(ContractFieldBody.model_fields)),
                "name": name,
                "type": spec.type.value,
            }
            for name, spec in contract.fields.items()
        ]
        states = [
            {"name": name, "label": spec.label, "edit": spec.edit} for name, spec in life.states.items()
        ]
        transitions = [
            {
                "name": name,
                "label": spec.label,
                "from_states": list(spec.from_),
                "to": spec.to,
                "approval": spec.approval,
                "on_reject": spec.on_reject,
            }
            for name, spec in life.transitions.items()
        ]
        return cls.model_validate(
            {
                "entity_type": contract.contract,
                "version": contract.version,
                "label": contract.label,
                "title": shown.get("title"),
                "figure": shown.get("figure"),
                "fields": fields,
                "initial": life.initial,
                "states": states,
                "transitions": transitions,
            }
        )


class IndexBody(ResponseModel):
    """An index of an entity type."""

    field: str = Field(
        description="A field; `*` for the words of the searched fields.", examples=["grand_total"]
    )
    type: str = Field(examples=["money"])
    ready: bool = Field(description="Whether lists can use it.")
    progress: float = Field(description="The part of all entities that it has, from 0 to 1.")


class TransitionBody(ResponseModel):
    """An entity after a transition was requested, and the instance that makes it."""

    entity: EntityBody
    instance: InstanceBody | None = None


class VersionBody(ResponseModel):
    """One version of an entity."""

    id: UUID
    version: int
    state: str
    data: Data
    attachments: dict[UUID, str] = Field({}, description="Its files, id → SHA-256.")
    created_at: datetime
    created_by: str


class FieldChange(ResponseModel):
    before: Any = None
    after: Any = None


class DiffBody(ResponseModel):
    """The differences between two versions."""

    from_version: int
    to_version: int
    state: FieldChange | None = Field(None, description="Only if it differs.")
    fields: dict[str, FieldChange] = Field(examples=[{"grand_total": {"before": 120000, "after": 130000}}])


class FormBody(ResponseModel):
    """A form; its draft is only for users who could submit it."""

    id: UUID = Field(description="The step of the form.")
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
    currency: str | None = Field(
        description="Of the figure, if it is money with a currency.", examples=["EUR"]
    )
    figure_text: str | None = Field(description="The figure as people read it.", examples=["20,600.00 EUR"])
    form_schema: Data = Field(description="The fields, as a JSON schema.", validation_alias="schema")
    answers: list[str] = Field(description="The events that submit it.")
    requested_by: str
    asked: list[str] = Field(
        description="The users who are asked now; holders of the role may fill it in as well."
    )
    status: str = Field(examples=["open"])
    reason: str | None
    claimed_by: str | None
    claimed_at: datetime | None
    draft: Data | None
    draft_by: str | None
    draft_at: datetime | None
    draft_problems: list[FieldProblem] | None = Field(
        description="The problems that the draft would have if it were submitted."
    )
    due_at: datetime | None
    created_at: datetime
    ended_at: datetime | None
