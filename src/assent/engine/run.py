"""One instance in one transaction: inputs go in, steps come out. Pure.

The runtime takes the next visit, performs it, takes its receipt and fulfils its need if it has one; again and again,
for many instances at once, until every token rests. One visit at a time for each instance: so the steps do not depend
on the other instances of the batch.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from assent.engine.consent import SLOT_LEFT
from assent.engine.edges import choose, fire_join, join_is_complete, not_qualified
from assent.engine.evolve import AUTOMATIC_KINDS, evolve
from assent.engine.inputs import Advance, Decide, Input, Start, TimerDue
from assent.engine.instance import (
    BRANCHING_KINDS,
    CONTROL,
    Instance,
    Step,
    Token,
    path_order,
    retried,
    root_id,
)
from assent.engine.nodes.asking import messages_to
from assent.engine.nodes.base import NEEDS, Creation, Done, Failure, Need, Rest, Stay, Verdict
from assent.engine.plan import Plan, PlannedEdge
from assent.engine.visit import Visit, World
from assent.language.program import as_evidence
from assent.model.actor import SYSTEM, Actor, Authority
from assent.model.approval import Seat, SeatedRequest
from assent.model.canonical import canonical_json
from assent.model.form import FormRequest
from assent.model.graph import NodeKind, Outcome
from assent.model.ids import join_key, new_id, step_key
from assent.model.job import Effect, TaskSpec
from assent.model.mutation import KeyedEvent, Rejection
from assent.model.outside_request import ClosedRequest, OutsideRequest

CHAIN_STEPS_MAX: Final = 10
EVENT_HOPS_MAX: Final = 50
"""How many events may lead from one workflow to the next, without a person or a timer in between."""
INPUT_BYTES_MAX: Final = 16_384
"""The input that a step keeps, as JSON."""

IGNORED: Final = "ignored"
"""The outcome of an input that came too late, or brought nothing new."""
DEFERRED: Final = "deferred"
"""The outcome of an input that waits until a paused instance goes on (D27)."""
ACCEPTED: Final = "accepted"

REFUSABLE: Final = (Start, Advance, Decide)
"""Commands whose caller is refused if a change is refused on the way. An operator's command leaves an incident."""

Offered = str | Rejection
Offer = Callable[["Run", Any], Offered]


@dataclass
class Run:
    plan: Plan
    instance: Instance
    world: World
    inputs: deque[Input] = field(default_factory=deque)
    chain_steps_max: int | None = None
    """None where the workflow is an envelope's: its loops pass a person."""
    failing: Mapping[str, Exception] = field(default_factory=dict)
    """Node id → the error with which its last attempt failed."""
    actor: Actor = SYSTEM
    """The actor of the present input: a person, an operator, or the system for timers and events."""
    current: Input | None = None
    """The input that is being handled."""
    command: Input | None = None
    """The input whose caller waits for the outcome; none for events and timers."""
    refusal: Rejection | None = None
    """Why the command is refused after all: nothing of this run is to be written."""
    steps: list[Step] = field(default_factory=list)
    """New steps, and the ends of older ones, in the order in which they took effect."""
    effects: list[tuple[Step, Effect]] = field(default_factory=list)
    """Effects, each with the step that creates it."""
    asks: list[OutsideRequest] = field(default_factory=list)
    """Outside requests; each ends with its step, unless results end it before."""
    closes: list[ClosedRequest] = field(default_factory=list)
    """Outside requests that end before their step does: others take their place."""
    tasks: list[tuple[Step, TaskSpec]] = field(default_factory=list)
    """Background work for our workers, each with the step that submits it."""
    events: list[tuple[Step, KeyedEvent]] = field(default_factory=list)
    """Events under a key, each with the step that emits it."""
    stays: list[tuple[Token, Stay]] = field(default_factory=list)
    """Steps that rest on, with the next time that something is due."""
    outcomes: list[tuple[Input, Offered]] = field(default_factory=list)
    looked: set[UUID] = field(default_factory=set)
    """The steps that have looked at their list of people since the present input."""
    _open: dict[Any, Step] = field(default_factory=dict)

    def perform(self, visit: Visit) -> Need | None:
        """Run the handler of the node and return its need, if any; `answer` goes on after the receipt is taken."""
        handler = visit.node.handler
        error = self.failing.get(visit.node.id)
        if error is not None:
            verdict: Verdict | Need = Failure("ATTEMPTS_USED_UP", f"{type(error).__name__}: {error}")
        else:
            verdict = handler.enter(visit)
        if isinstance(verdict, NEEDS):
            return verdict
        self.conclude(visit, verdict)
        return None

    def answer(self, visit: Visit, answer: Any) -> None:
        self.conclude(visit, visit.node.handler.answered(visit, answer))

    def conclude(self, visit: Visit, verdict: Verdict) -> None:
        """Turn a verdict into a step, and the step into the instance's new position."""
        if isinstance(verdict, Done) and verdict.creates and self._emits_for_ever(verdict):
            message = f"more than {EVENT_HOPS_MAX} events led from workflow to workflow, without a person or a timer"
            self._fail(visit, Failure("EVENT_HOPS_LIMIT", message))
        elif isinstance(verdict, Done):
            self._done(visit, verdict)
        elif isinstance(verdict, Rest):
            self._rest(visit, verdict)
        elif isinstance(verdict, Stay):
            self._stay(visit, verdict)
        else:
            self._fail(visit, verdict)

    def _emits_for_ever(self, done: Done) -> bool:
        return self._hops >= EVENT_HOPS_MAX and any(isinstance(one, KeyedEvent) for one in done.creates)

    @property
    def _hops(self) -> int:
        """How many events led here, the last of which ended a wait of this instance."""
        hops: int = self.instance.context.get("_hops", 0)
        return hops

    def ready_visit(self) -> Visit | None:
        """Return the visit of the token that goes on next; None when all rest."""
        token = self._ready_token()
        if token is None:
            return None
        kind = self.plan.nodes[token.node].kind
        if kind in AUTOMATIC_KINDS and self._chain_is_too_long():
            message = f"more than {self.chain_steps_max} automatic calls in a row"
            self.control(
                "pause", status="paused", incident=incident("WORKFLOW_CHAIN_LIMIT", message, token.node)
            )
            return None
        return self.visit(token)

    def _ready_token(self) -> Token | None:
        tokens = self.instance.tokens.values()
        if len(tokens) == 1:
            (token,) = tokens
            if token.state == "ready":
                return token  # nearly always
        able = [token for token in tokens if token.state == "ready" or join_is_complete(self, token)]
        if not able:
            return None
        first = min(able, key=path_order)
        if first.state == "split":
            fire_join(self, first)
        return first

    def _chain_is_too_long(self) -> bool:
        return self.chain_steps_max is not None and self.instance.chain_length >= self.chain_steps_max

    def visit(self, token: Token, by: Actor | None = None) -> Visit:
        """Return the token at its node: for the person who acts there by themselves, or on whose behalf it moves."""
        actor = by or self.world.actor_of(token.authority.principal)
        node = self.plan.nodes[token.node]
        step_token = retried(token.id, token.attempt) if token.attempt else token.id
        if node.kind is NodeKind.PARALLEL_JOIN:
            key = join_key(self.instance.id, token.node, token.version, step_token)
        else:
            key = step_key(self.instance.id_text, token.node, step_token, token.version)
        step_id = new_id(self.world.now)
        return Visit(self.plan, self.instance, self.world, node, token, actor, key, step_id, step_token)

    def _rest(self, visit: Visit, rest: Rest) -> None:
        output = {**rest.output, "entered": self.instance.version + 1}
        step = self._step(visit, "pending", output)
        step.resume_at, step.event_key = rest.resume_at, rest.event_key
        self._open[step.id] = step
        self._create(step, rest.creates)
        self._record(step)

    def _stay(self, visit: Visit, stay: Stay) -> None:
        token = visit.token
        assert token.step_id is not None, "only a token that rests can stay"
        opened = self._open.get(token.step_id)
        if opened is not None:
            opened.resume_at = stay.resume_at
        else:
            self.stays.append((token, stay))
        self._create(opened or self._step(visit, "pending", {}), stay.creates)

    def notify(self, token: Token, request: SeatedRequest, seats: list[Seat]) -> None:
        """Notify people who are asked now."""
        visit = self.visit(token)
        messages = messages_to(visit, visit.node.node.config, request, seats)
        self._create(self._step(visit, "pending", {}), messages)

    def _create(self, step: Step, creations: Iterable[Creation]) -> None:
        """Keep what a step creates, to be written with it."""
        for one in creations:
            if isinstance(one, Effect):
                self.effects.append((step, one))
            elif isinstance(one, TaskSpec):
                self.tasks.append((step, one))
            elif isinstance(one, KeyedEvent):
                self.events.append((step, replace(one, hops=self._hops + 1)))
            elif isinstance(one, OutsideRequest):
                self.asks.append(one)
            elif isinstance(one, ClosedRequest):
                self.closes.append(one)
            elif isinstance(one, FormRequest):
                self.world.forms[step.id] = one
            else:
                self.world.requests[step.id] = one
                step.request_id, step.snapshot_version_id = one.id, one.snapshot_version_id

    def _done(self, visit: Visit, done: Done) -> None:
        node = visit.node
        variables = visit.variables_with(done.sets) if node.asks else {}
        edges, evaluations = self._edges(visit, done, variables)
        if not edges and node.kind is not NodeKind.END:
            self._no_way_on(visit, done, evaluations)
            return
        output = _output(done.outcome, edges, evaluations)
        output.update(done.output)
        if node.asks and (absorbed := not_qualified(visit, edges, variables)):
            output["absorbed"] = absorbed
        sets = dict(done.sets)
        if node.node.waives_approval:
            sets["_waived"] = int(root_id(visit.token.id))
        if self._hops and isinstance(self.current, Advance | Decide | TimerDue):
            sets["_hops"] = 0
        if sets:
            output["set"] = sets
        if node.kind is NodeKind.PARALLEL_JOIN:
            output["authority"] = visit.token.authority.to_json()
        self._leave(visit, edges)
        step = self._finish(visit, "completed", output)
        if done.creates:
            self._create(step, done.creates)

    def _edges(
        self, visit: Visit, done: Done, variables: Mapping[str, Any]
    ) -> tuple[list[PlannedEdge], list[dict[str, Any]]]:
        if visit.node.kind is NodeKind.PARALLEL_SPLIT:
            return list(visit.node.everything), []
        edge, evaluations = choose(visit, done.outcome, variables)
        return [edge] if edge else [], evaluations

    def _no_way_on(self, visit: Visit, done: Done, evaluations: list[dict[str, Any]]) -> None:
        if done.outcome == Outcome.TIMEOUT:
            # A step without a way of its own out of its time falls back on that of the workflow.
            self.expire(done.output)
            return
        message = f"no edge answers `{done.outcome}` of `{visit.node.node.name}`"
        failure = Failure("NO_EDGE_MATCHES", message)
        self._fail(visit, failure, {**done.output, "outcome": done.outcome, "evaluations": evaluations})

    def _fail(self, visit: Visit, failure: Failure, output: Mapping[str, Any] | None = None) -> None:
        edge, evaluations = choose(visit, Outcome.ERROR, visit.variables)
        edges = [edge] if edge else []
        if not edges and failure.rejection is not None and self._caller_waits():
            self.refusal = failure.rejection
            return
        error = {"code": failure.code, "message": failure.message, "node": visit.node.node.name}
        found = _output(Outcome.ERROR, edges, evaluations) | dict(output or {})
        found |= {"error": error, "set": {"_last_error": error}}
        self._leave(visit, edges)
        self._finish(visit, "failed", found, failure.message)
        if not edges:
            self.control("pause", status="paused", incident=error)

    def _caller_waits(self) -> bool:
        """Return whether the step happens within the command of a caller, who can be refused."""
        return (
            self.current is not None and self.current is self.command and isinstance(self.current, REFUSABLE)
        )

    def _leave(self, visit: Visit, edges: list[PlannedEdge]) -> None:
        """End what else goes on inside a slot when a rejection leaves it (D20)."""
        if edges and edges[0].leaves_slot:
            self.cancel_tokens(
                [token for token in self.instance.tokens.values() if token is not visit.token], SLOT_LEFT
            )
            self.void_approvals(SLOT_LEFT)

    def _finish(self, visit: Visit, status: Any, output: dict[str, Any], error: str | None = None) -> Step:
        step = self._step(visit, status, output)
        step.error = error
        self._require_choice(step)
        self._record(step)
        return step

    def _require_choice(self, step: Step) -> None:
        if step.node_type in BRANCHING_KINDS and "chosen_edge_ids" not in step.output:
            raise AssertionError(f"step at {step.node_id} does not say which edges it chose")

    def _step(self, visit: Visit, status: Any, output: dict[str, Any]) -> Step:
        """Return the step that a visit comes to; `output` becomes the step's own."""
        token, now = visit.token, self.world.now
        if status != "pending":
            output["n"] = self.instance.version + 1
            if visit.by is not None:
                output["principal"] = visit.by.to_json()
        if self.actor.id != token.authority.principal.id and visit.by is None:
            output["on_behalf_of"] = list(token.authority.ids)
        rested = token.step_id is not None
        if rested:
            output["entered"] = token.entered
        return Step(
            org_id=self.instance.org_id,
            instance_id=self.instance.id,
            id=token.step_id or visit.step_id,
            created_at=token.step_at or now,
            node_id=visit.node.id,
            node_type=visit.node.type,
            token_id=visit.step_token_id,
            entity_version=token.version,
            key=visit.key,
            status=status,
            actor_id=self.actor.id,
            run_as=visit.node.run_as,
            input=_kept_input(visit.input),
            output=output,
            completed_at=None if status == "pending" else now,
            is_new=not rested,
            receipted=visit.receipted,
        )

    def void_approvals(self, reason: str) -> None:
        """Make approvals void that no gate has consumed, when the instance takes another way."""
        for request in list(self.world.requests.values()):
            if request.status == "approved" and request.applied_at is None:
                self.world.put(request.end("void", self.world.now, reason))

    def _close_request(self, step: Step) -> None:
        """Cancel the request of a step that ended without an answer."""
        request = self.world.requests.get(step.id)
        if request is not None and request.status == "pending" and step.status != "pending":
            reason = step.output.get("reason") or step.output.get("outcome")
            self.world.put(request.end("cancelled", self.world.now, reason))

    def _record(self, step: Step) -> None:
        """Apply a step, and keep it to be written. An end within the transaction completes the new row itself."""
        known = self.instance.originators.ids
        evolve(self.plan, self.instance, step)
        if self.world.requests:
            if self.instance.originators.ids != known:
                self._exclude_originators()
            self._close_request(step)
        opened = self._open.get(step.id) if not step.is_new else None
        if opened is None:
            self.steps.append(step)
            return
        explained = {name: opened.output[name] for name in ("expressions",) if name in opened.output}
        opened.status, opened.output, opened.error = step.status, {**explained, **step.output}, step.error
        opened.completed_at, opened.resume_at, opened.event_key = step.completed_at, None, None
        del self._open[step.id]

    def _exclude_originators(self) -> None:
        """Remove people from seats of requests whose content their work has become part of."""
        for request in list(self.world.requests.values()):
            relaxed = self.plan.nodes[request.node_id].node.config.get("separation", {})
            if request.status == "pending" and relaxed.get("originator") != "allowed":
                self.world.put(request.exclude(self.instance.originators.ids))

    def cancel_tokens(self, tokens: list[Token], reason: str) -> None:
        """End tokens with step rows: open steps are cancelled, others leave a cancelled one where they were."""
        for token in sorted(tokens, key=path_order):
            if token.state == "split":
                self.instance.tokens.pop(token.id, None)
            else:
                self._cancel(token, reason)

    def cancel_branch(self, token: Token, reason: str) -> None:
        """End one token; where it was split, with all tokens from the split."""
        self.cancel_tokens(self.instance.descendants_of(token.id), reason)
        self._cancel(token, reason)

    def _cancel(self, token: Token, reason: str) -> None:
        _leave_key_to_the_past(token)
        self._record(self._step(self.visit(token), "cancelled", {"reason": reason}))

    def skip(self, token: Token, edge: PlannedEdge, reason: str) -> None:
        """Take an edge past a step, as if the step had chosen it; for administrators."""
        _leave_key_to_the_past(token)
        visit = self.visit(token)
        output = _output(edge.label, [edge], []) | {"reason": reason, "skipped_by": self.actor.id}
        self._leave(visit, [edge])
        self._finish(visit, "skipped", output)
        still_failed = any(other.state == "failed" for other in self.instance.tokens.values())
        if self.instance.status == "paused" and not still_failed:
            self.control("resume", status="running")

    def ask_again(self, token: Token, entity_version: int) -> None:
        """Fail the step whose request became void while its token rested, and try it again at once."""
        why = incident("APPROVAL_VOID", f"it was edited: version {entity_version}", token.node)
        self._finish(
            self.visit(token), "failed", _output(Outcome.ERROR, [], []) | {"error": why}, why["message"]
        )
        self.control("ask_again", again=token.id, entity_version=entity_version)

    def move(
        self,
        why: str,
        target: str,
        output: Mapping[str, Any],
        authority: Authority,
        sets: Mapping[str, Any] | None = None,
    ) -> None:
        """End every token with its steps, and begin again at `target` with the next generation (D24)."""
        self.cancel_tokens(list(self.instance.tokens.values()), why)
        self.void_approvals(why)
        moved = {**output, "authority": authority.to_json(), "set": dict(sets or {})}
        self.control("move", reason=why, to=target, **moved)

    def joint_authority(self) -> Authority:
        """Return the authority of all tokens together, in the order of their paths."""
        first, *others = sorted(self.instance.tokens.values(), key=path_order)
        return first.authority.joined_by(p for other in others for p in other.authority.principals)

    def expire(self, output: Mapping[str, Any]) -> None:
        """Move the instance to the target of its time limit, or fail it without one."""
        expiry = self.plan.workflow.expiry
        if expiry is not None and expiry.target is not None:
            timed_out = {**output, "timed_out": True}
            self.move(Outcome.TIMEOUT, expiry.target, timed_out, self.joint_authority())
            return
        self.cancel_tokens(list(self.instance.tokens.values()), Outcome.TIMEOUT)
        self.void_approvals(Outcome.TIMEOUT)
        why = incident("WORKFLOW_TIMEOUT", "the time was over, and there is nowhere to go then")
        self.control("timeout", status="failed", incident=why, **output)

    def control(self, name: str, **output: Any) -> None:
        """Record a step about the instance itself (D8, D25)."""
        now = self.world.now
        token_id = f"ctl:{self.current.id if self.current else 'engine'}"
        node_id = f"ctl:{name}"
        sequence = self.instance.version + 1
        self._record(
            Step(
                org_id=self.instance.org_id,
                instance_id=self.instance.id,
                id=new_id(now),
                created_at=now,
                node_id=node_id,
                node_type=CONTROL,
                token_id=token_id,
                entity_version=self.instance.entity_version,
                key=step_key(
                    self.instance.id, node_id, f"{token_id}:{sequence}", self.instance.entity_version
                ),
                status="completed",
                actor_id=self.actor.id,
                output={**output, "n": sequence},
                completed_at=now,
            )
        )


def _kept_input(given: Any) -> Any:
    """Return the input of a step as it is kept: cut as evidence is, or only its size where it is large all the same."""
    if given is None:
        return None
    kept = as_evidence(given)
    size = len(canonical_json(kept))
    return kept if size <= INPUT_BYTES_MAX else {"…": f"{size} bytes, more than are kept"}


def _leave_key_to_the_past(token: Token) -> None:
    """Give what comes next another key: the step that failed, or split the token, has the key of this place (D25)."""
    if token.state in ("failed", "split"):
        token.attempt += 1


def incident(code: str, message: str, node: str | None = None) -> dict[str, Any]:
    return {"code": code, "message": message, "node": node}


def _output(outcome: str, edges: list[PlannedEdge], evaluations: list[dict[str, Any]]) -> dict[str, Any]:
    output: dict[str, Any] = {"outcome": str(outcome), "chosen_edge_ids": [edge.id for edge in edges]}
    if evaluations:
        output["evaluations"] = evaluations
    return output
