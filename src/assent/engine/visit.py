"""A visit: one token at one node, and what a handler may know about it."""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from assent.engine.consent import round_of
from assent.engine.instance import Instance, Token, root_id
from assent.model.actor import Actor, Principal
from assent.model.approval import ApprovalRequest, Delegation, Presence, RequestChanges, SeatedRequest
from assent.model.document import DocumentRequirement, RequirementChange
from assent.model.form import FormChanges, FormRequest
from assent.model.mutation import Entity, actor_view, entity_view

if TYPE_CHECKING:
    from assent.engine.plan import Plan, PlannedNode


@dataclass(slots=True)
class World:
    """What the engine knows besides the instance."""

    now: datetime
    entity: Entity | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The org's, read as `org`."""
    requests: dict[UUID, ApprovalRequest] = field(default_factory=dict)
    """Step → its approval request, of the present generation."""
    requirements: dict[tuple[str, str], DocumentRequirement] = field(default_factory=dict)
    """Subject and type → the document that the instance requires; only of workflows with such nodes."""
    changed: list[RequirementChange] = field(default_factory=list)
    """The moves of requirements, in order, to be written one after the other."""
    forms: dict[UUID, FormRequest] = field(default_factory=dict)
    """Step → its form; missing if no input is about it."""
    stored: dict[UUID, SeatedRequest] = field(default_factory=dict)
    """Step → its request or form as the database has it; what differs from it is to be written."""
    delegations: Mapping[str, tuple[Delegation, ...]] = field(default_factory=dict)
    """The people who act here → the delegations by which they act for others."""
    actors: dict[str, Actor] = field(default_factory=dict)
    """Id → the rights that people have now on whose behalf tokens move, and those of service accounts."""
    roll: Presence = field(default_factory=Presence)
    """The people who act here, or are represented, and are active now."""

    def __post_init__(self) -> None:
        if self.requests or self.forms:
            self.stored = {**self.requests, **self.forms}

    def copy(self) -> "World":
        """Return a world to try something in; its values are shared."""
        trial = copy(self)
        trial.requests, trial.forms = dict(self.requests), dict(self.forms)
        trial.stored, trial.actors = dict(self.stored), dict(self.actors)
        trial.requirements, trial.changed = dict(self.requirements), list(self.changed)
        return trial

    def actor_of(self, principal: Principal) -> Actor:
        return self.actors.get(principal.id) or principal.without_rights()

    @property
    def asked(self) -> dict[UUID, SeatedRequest]:
        """Step → its request or form."""
        return {**self.requests, **self.forms}

    def load_requests(self, requests: Mapping[UUID, ApprovalRequest]) -> None:
        self.requests.update(requests)
        self.stored.update(requests)

    def load_forms(self, forms: Mapping[UUID, FormRequest]) -> None:
        self.forms.update(forms)
        self.stored.update(forms)

    def change(self, requirement: DocumentRequirement) -> None:
        """Replace a requirement by its new value."""
        before = self.requirements.get(requirement.place)
        self.requirements[requirement.place] = requirement
        self.changed.append(RequirementChange(before, requirement))

    def put(self, asked: SeatedRequest) -> None:
        """Replace a request or a form by its new value."""
        if isinstance(asked, ApprovalRequest):
            self.requests[asked.step_id] = asked
        elif isinstance(asked, FormRequest):
            self.forms[asked.step_id] = asked

    def is_new(self, asked: SeatedRequest) -> bool:
        """Return whether it was asked in the transaction that is under way."""
        return asked.step_id not in self.stored

    def request_changes(self, of: Iterable[ApprovalRequest] | None = None) -> list[RequestChanges]:
        """Return the differences between approval requests and their rows, of all requests or of some."""
        known: dict[UUID, Any] = self.stored
        requests = self.requests.values() if of is None else of
        changed = [r for r in requests if known.get(r.step_id) is not r]
        return [RequestChanges.between(known.get(r.step_id), r) for r in changed]

    def form_changes(self) -> list[FormChanges]:
        """Return the differences between forms and their rows."""
        known: dict[UUID, Any] = self.stored
        changed = [form for form in self.forms.values() if known.get(form.step_id) is not form]
        return [FormChanges.between(known.get(form.step_id), form) for form in changed]

    def consume(self, request: ApprovalRequest, step_id: UUID) -> None:
        """Note that a gate has used an approval up; its row says so already."""
        consumed = request.evolve(applied_at=self.now, applied_step_id=step_id)
        self.requests[request.step_id] = self.stored[request.step_id] = consumed


@dataclass(slots=True)
class Visit:
    """One token at one node."""

    plan: "Plan"
    instance: Instance
    world: World
    node: "PlannedNode"
    token: Token
    actor: Actor
    """The person with whose rights the step acts, as they are now."""
    key: str
    """WF-02, or WF-16 for a join: the receipt that permits it."""
    step_id: UUID
    step_token_id: str
    """The token's id, with the attempt where a step is tried again."""
    receipted: bool = False
    by: Principal | None = None
    """The person whose own act ends the step; none for timers, events, results and operators."""
    input: Any = None
    """What the step was given, its texts resolved; the step keeps it. Headers hold secrets and are no part of it."""
    _variables: dict[str, Any] | None = None

    @property
    def slot(self) -> str:
        """The slot that the node is in; empty in the envelope and in flows."""
        return self.plan.workflow.slot_map.get(self.node.id, "")

    @property
    def round(self) -> list[ApprovalRequest]:
        """The approval requests of this slot, in the generation of the token."""
        return round_of(self.world.requests.values(), self.slot, int(root_id(self.token.id)))

    @property
    def now(self) -> datetime:
        return self.world.now

    @property
    def variables(self) -> dict[str, Any]:
        # Not a cached_property: its lock costs more than the rest, and nearly every step asks.
        if self._variables is None:
            self._variables = variables_of(self.instance, self.world, self.actor)
        return self._variables

    def forget_variables(self) -> None:
        """Compute them again: the entity has changed."""
        self._variables = None

    def variables_with(self, sets: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the variables after a step has set some: its own edges can read them."""
        if not sets:
            return self.variables
        return {**self.variables, "workflow": {**self.variables["workflow"], **sets}}


def variables_of(instance: Instance, world: World, actor: Actor) -> dict[str, Any]:
    """Return what expressions can name (D33)."""
    found: dict[str, Any] = {
        "actor": actor_view(actor),
        "org": {**world.settings, "id": instance.org_id},
        "workflow": {
            **instance.context,
            "tenant_id": instance.org_id,
            "subject_id": instance.subject_id,
            "partition_id": instance.partition_id,
        },
        "now": world.now,
    }
    if world.entity is not None:
        found["entity"] = entity_view(world.entity)
    return found
