"""Apply an input to an instance, or return why not."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from assent.engine.edges import choose
from assent.engine.inputs import (
    PAUSED,
    Advance,
    Cancel,
    CancelToken,
    Claim,
    ClaimForm,
    Decide,
    Drifted,
    EditVariables,
    EventArrived,
    Expired,
    ForceFail,
    Input,
    Pause,
    Poke,
    Reassign,
    ReassignForm,
    Release,
    ReleaseForm,
    Repin,
    RequestDecided,
    RequirementChanged,
    Resume,
    RetryInstance,
    SaveDraft,
    Skip,
    Start,
    TimerDue,
    Unreadable,
)
from assent.engine.instance import Token, parent_id, path_order
from assent.engine.plan import PlannedEdge
from assent.engine.requests import (
    claim,
    claim_form,
    decide,
    reassign,
    reassign_form,
    release,
    release_form,
    save_draft,
)
from assent.engine.rights import denied
from assent.engine.run import ACCEPTED, DEFERRED, IGNORED, Offered, Run, incident
from assent.engine.visit import Visit
from assent.model.actor import Actor, Authority, Principal
from assent.model.graph import NodeKind, Outcome
from assent.model.mutation import Rejection
from assent.model.policy import check_policy

EVENT_FAILED: Final = "EVENT_FAILED"
"""The code of an instance that is paused because an event is dead and no step began."""

_WHILE_PAUSED: Final = (
    Resume,
    RetryInstance,
    Skip,
    Cancel,
    CancelToken,
    ForceFail,
    EditVariables,
    Repin,
    Start,
)
VARIABLES_EDITED: Final = "variables edited"
"""Why approvals are void after an operator has edited the variables that they were about."""
_NOTICES: Final = (EventArrived, RequestDecided, RequirementChanged, TimerDue, Expired, Drifted, Poke)


def next_visit(run: Run) -> Visit | None:
    """Return the next visit of an instance, after applying inputs; None when it rests and no input is left.

    A run whose command was refused on the way has none: it is thrown away.
    """
    while run.refusal is None:
        if run.instance.status == "running":
            if visit := run.ready_visit():
                return visit
            if _look_at_people(run):
                continue
        if not run.inputs:
            return None
        incoming = run.inputs.popleft()
        run.actor = incoming.actor
        run.looked.clear()
        run.outcomes.append((incoming, apply_input(run, incoming)))
    return None


def apply_input(run: Run, incoming: Input) -> Offered:
    """Apply an input. Ended instances ignore notices, paused ones defer them (D27)."""
    run.current = incoming
    if not isinstance(incoming, _NOTICES) and getattr(incoming, "authority", None) is None:
        # A command comes with the rights of its caller; those of all others are read.
        run.world.actors[incoming.actor.id] = incoming.actor
    if refused := denied(run, incoming):
        return refused
    status = run.instance.status
    is_notice = isinstance(incoming, _NOTICES)
    if run.instance.has_ended:
        return IGNORED if is_notice else _not_active(run)
    if status == "paused" and not isinstance(incoming, _WHILE_PAUSED):
        return DEFERRED if is_notice else _not_active(run)
    return _OFFERS[type(incoming)](run, incoming)


def _not_active(run: Run) -> Rejection:
    message = f"instance {run.instance.id} is {run.instance.status}"
    return Rejection("WORKFLOW_NOT_ACTIVE", message, ("instance_id",))


def _start(run: Run, incoming: Start) -> Offered:
    if run.instance.version:
        return Rejection("ALREADY_STARTED", f"instance {run.instance.id} runs already", ("instance_id",))
    authority = incoming.authority or Authority.of(incoming.actor, incoming.transition)
    begins = {"authority": authority.to_json(), "contributes": True, "set": dict(incoming.data)}
    if incoming.transition is None:
        run.control("start", to=run.plan.start, **begins)
        return ACCEPTED
    found = _edge_from_state(run, incoming.transition, incoming.actor)
    if isinstance(found, Rejection):
        return _start_on_the_way(run, incoming, begins) or found
    edge, evaluations = found
    output = {"chosen_edge_ids": [edge.id], "evaluations": evaluations}
    run.control("start", to=edge.target, **begins, **output)
    return ACCEPTED


def _start_on_the_way(run: Run, incoming: Start, begins: Mapping[str, Any]) -> Offered | None:
    """Start from a state that goes on by itself, in which an instance ended on its way: with the transition that led
    there, or the one that leaves it. Nothing else would take the entity out of it."""
    node_id, contract, entity = _state_node(run), run.plan.contract, run.world.entity
    if node_id is None or contract is None or entity is None:
        return None
    if Outcome.COMPLETED not in run.plan.nodes[node_id].answers:
        return None
    declared = contract.lifecycle.transitions.get(incoming.transition or "")
    if declared is None or entity.state not in (declared.to, *declared.from_):
        return None
    if denied := check_policy(contract, str(incoming.transition), incoming.actor):
        return denied
    run.control("start", to=node_id, **begins)
    return ACCEPTED


def _advance(run: Run, incoming: Advance) -> Offered:
    candidates = _candidates(run, incoming)
    if len(candidates) > 1:
        names = ", ".join(run.plan.nodes[token.node].node.name for token in candidates)
        message = f"several steps can be answered with `{incoming.event}`: {names}"
        return Rejection("AMBIGUOUS_STEP", message, ("step",), hint="name the step")
    if candidates:
        return _resume(run, candidates[0], incoming)
    return _transition_of_the_whole(run, incoming)


def _candidates(run: Run, incoming: Advance) -> list[Token]:
    resting = [token for token in run.instance.tokens.values() if token.state == "resting"]
    if incoming.step is not None:
        return [
            token for token in resting if incoming.step in (token.node, run.plan.nodes[token.node].node.name)
        ]
    answering = [token for token in resting if incoming.event in run.plan.nodes[token.node].answers]
    return answering or (resting if len(resting) == 1 and not _state_answers(run, incoming.event) else [])


def _state_node(run: Run) -> str | None:
    entity = run.world.entity
    node_id = f"sys:state:{entity.state}" if entity is not None else ""
    return node_id if node_id in run.plan.nodes else None


def _state_answers(run: Run, event: str) -> bool:
    node_id = _state_node(run)
    return node_id is not None and event in run.plan.nodes[node_id].answers


def _transition_of_the_whole(run: Run, incoming: Advance) -> Offered:
    """Make a transition that the state of the entity allows while tokens are on their way: all of them end (D24)."""
    if incoming.step is not None or incoming.event in (Outcome.DRIFT, Outcome.COMPLETED):
        return _nothing_answers(incoming.event)
    found = _edge_from_state(run, incoming.event, incoming.actor)
    if isinstance(found, Rejection):
        return found
    edge, evaluations = found
    output = {"chosen_edge_ids": [edge.id], "evaluations": evaluations, "contributes": True}
    run.move(incoming.event, edge.target, output, Authority.of(incoming.actor, incoming.event), incoming.data)
    return ACCEPTED


def _edge_from_state(
    run: Run, transition: str, actor: Actor
) -> tuple[PlannedEdge, list[dict[str, Any]]] | Rejection:
    """Return the edge of a transition from the present state of the entity, or why the actor may not take it."""
    node_id = _state_node(run)
    if node_id is None or transition not in run.plan.nodes[node_id].answers:
        return _nothing_answers(transition)
    contract = run.plan.contract
    if contract is not None and (denied := check_policy(contract, transition, actor)):
        return denied
    visit = run.visit(Token("0", node_id, run.instance.entity_version), actor)
    edge, evaluations = choose(visit, transition, visit.variables)
    return (edge, evaluations) if edge is not None else _nothing_answers(transition)


def _nothing_answers(event: str) -> Rejection:
    return Rejection(
        "INVALID_TRANSITION", f"nothing that rests here can be answered with `{event}`", ("event",)
    )


def _resume(run: Run, token: Token, incoming: Input) -> Offered:
    if isinstance(incoming, Advance | Decide):
        visit = run.visit(token, incoming.actor)
        visit.by = Principal.of(incoming.actor)
    else:
        visit = run.visit(token)
    verdict = visit.node.handler.resume(visit, incoming)
    if isinstance(verdict, Rejection):
        return verdict
    run.conclude(visit, verdict)
    return ACCEPTED


def _decide(run: Run, incoming: Decide) -> Offered:
    token = decide(run, incoming)
    return token if isinstance(token, Rejection) else _resume(run, token, incoming)


def _notice(run: Run, incoming: EventArrived | RequestDecided | TimerDue) -> Offered:
    token = next((t for t in run.instance.tokens.values() if t.step_id == incoming.step_id), None)
    if token is None or token.state != "resting":
        return IGNORED
    outcome = _resume(run, token, incoming)
    return IGNORED if isinstance(outcome, Rejection) else outcome


def _requirement_changed(run: Run, incoming: RequirementChanged) -> Offered:
    """Let every step look that waits for documents: each knows which ones."""
    nodes, tokens = run.plan.nodes, sorted(run.instance.tokens.values(), key=path_order)
    waiting = [t for t in tokens if t.state == "resting" and nodes[t.node].kind is NodeKind.REQUIREMENTS]
    for token in waiting:
        if run.instance.tokens.get(token.id) is token and token.state == "resting":
            _resume(run, token, incoming)
    return ACCEPTED if waiting else IGNORED


def _look_at_people(run: Run) -> bool:
    """Let a step look whose list of people is another now, once for each input; return whether one did."""
    if not run.plan.has_requirements or run.current is None:
        return False
    nodes = run.plan.nodes
    for token in sorted(run.instance.tokens.values(), key=path_order):
        if token.state != "resting" or token.step_id is None or token.step_id in run.looked:
            continue
        if nodes[token.node].handler.must_look(run.visit(token)):
            run.looked.add(token.step_id)
            _resume(run, token, RequirementChanged(run.current.id))
            return True
    return False


def _expired(run: Run, incoming: Expired) -> Offered:
    run.expire({})
    return ACCEPTED


def _drifted(run: Run, incoming: Drifted) -> Offered:
    if incoming.amended_by is not None:
        return _end(run, "cancel", "cancelled", "amended", {"amended_by": str(incoming.amended_by)})
    if incoming.entity_version <= run.instance.entity_version:
        return IGNORED
    if not _in_stable_region(run):
        return _ask_again(run, incoming)
    last, changes = _edits(run, incoming)
    found = {"from_version": run.instance.entity_version, "changes": changes, "void": _voided(run)}
    found["entity_version"] = last.entity_version
    target = run.plan.workflow.amendment
    if target is not None:
        authority = last.authority or run.joint_authority()
        run.move(Outcome.DRIFT, target, {**found, "contributes": True}, authority)
        return ACCEPTED
    run.cancel_tokens(list(run.instance.tokens.values()), Outcome.DRIFT)
    run.void_approvals(Outcome.DRIFT)
    message = f"the entity was edited while it should have rested: version {incoming.entity_version}"
    run.control("drift", status="failed", incident=incident("WORKFLOW_VERSION_DRIFT", message), **found)
    return ACCEPTED


def _ask_again(run: Run, incoming: Drifted) -> Offered:
    """Ask again about the new content, where edits are free: the requests about the former content are void."""
    void = {r.step_id for r in run.world.requests.values() if r.status == "void"}
    tokens = [token for token in run.instance.tokens.values() if token.step_id in void]
    for token in tokens:
        run.ask_again(token, incoming.entity_version)
    return ACCEPTED if tokens else IGNORED


def _edits(run: Run, incoming: Drifted) -> tuple[Drifted, dict[str, Any]]:
    """Return the last of this edit and those behind it, and all changes: field → [value asked about, value now]."""
    edits = [
        incoming,
        *(later for later in run.inputs if isinstance(later, Drifted) and not later.amended_by),
    ]
    changes: dict[str, Any] = {}
    for edit in edits:
        for name, (before, after) in edit.changes.items():
            changes[name] = [changes[name][0] if name in changes else before, after]
    return edits[-1], {name: pair for name, pair in changes.items() if pair[0] != pair[1]}


def _voided(run: Run) -> list[str]:
    """Return the names of the steps whose requests the edit has made void."""
    requests = [r for r in run.world.requests.values() if r.applied_at is None]
    names = {
        run.plan.nodes[r.node_id].node.name for r in requests if r.status in ("pending", "approved", "void")
    }
    return sorted(names)


def _in_stable_region(run: Run) -> bool:
    stable = run.plan.workflow.stable_nodes
    return any(token.node in stable for token in run.instance.tokens.values())


def _end(run: Run, name: str, status: str, reason: str, more: Mapping[str, Any] | None = None) -> Offered:
    run.cancel_tokens(list(run.instance.tokens.values()), reason)
    run.void_approvals(reason)
    run.control(name, status=status, reason=reason, set={f"{name}_reason": reason}, **(more or {}))
    return ACCEPTED


def _cancel(run: Run, incoming: Cancel) -> Offered:
    return _end(run, "cancel", "cancelled", incoming.reason)


def _force_fail(run: Run, incoming: ForceFail) -> Offered:
    why = incident("FORCED", incoming.reason or "an admin failed it")
    return _end(run, "fail", "failed", incoming.reason, {"incident": why})


def _edit_variables(run: Run, incoming: EditVariables) -> Offered:
    """Set variables of a paused instance; approvals of the former values that no gate has consumed are void."""
    if run.instance.status != "paused":
        return Rejection(
            "WORKFLOW_NOT_PAUSED", "only variables of a paused instance are edited", ("instance_id",)
        )
    for name, value in incoming.data.items():
        before = run.instance.context.get(name)
        if before is not None and value is not None and json_type(before) != json_type(value):
            message = f"expected {json_type(before)} in `{name}`, as before, found {json_type(value)}"
            return Rejection("WRONG_TYPE", message, ("variables", name))
    run.void_approvals(VARIABLES_EDITED)
    authority = Authority.of(incoming.actor).to_json()
    edited = {"set": dict(incoming.data), "reason": incoming.reason}
    run.control("edit", authority=authority, contributes=True, **edited)
    return ACCEPTED


def json_type(value: Any) -> str:
    """Return the name of the JSON type of a value; an integer is a number."""
    match value:
        case bool():
            return "boolean"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case Mapping():
            return "object"
        case None:
            return "null"
        case _:
            return "number"


def _pause(run: Run, incoming: Pause) -> Offered:
    run.control(
        "pause", status="paused", reason=incoming.reason, incident=incident(incoming.code, incoming.reason)
    )
    return ACCEPTED


def _resume_instance(run: Run, incoming: Resume) -> Offered:
    if run.instance.status != "paused":
        return Rejection("WORKFLOW_NOT_PAUSED", "only a paused instance is resumed", ("instance_id",))
    if _has_incident(run):
        # Running with a failed step that nothing tries, it could never end.
        return _retry(run, RetryInstance(incoming.id, incoming.actor))
    run.control("resume", status="running")
    return ACCEPTED


def _retry(run: Run, incoming: RetryInstance) -> Offered:
    failed = [token for token in run.instance.tokens.values() if token.state == "failed"]
    if incoming.step is not None:
        failed = [t for t in failed if incoming.step in (t.node, run.plan.nodes[t.node].node.name)]
    if not failed and incoming.step is None and _has_incident(run):
        run.control("retry", status="running", **_forget_hops(run))
        return ACCEPTED
    if not failed:
        return Rejection("NOTHING_FAILED", "no failed step is there to be tried again", ("step",))
    for token in failed:
        run.control("retry", status="running", again=token.id, **_forget_hops(run))
    return ACCEPTED


def _forget_hops(run: Run) -> dict[str, Any]:
    """Return what lets a step emit again after an operator has looked at the events that led there."""
    return {"set": {"_hops": 0}} if run.instance.context.get("_hops") else {}


def _has_incident(run: Run) -> bool:
    """Return whether it is paused by itself, and not by an operator."""
    found = run.instance.incident
    return run.instance.status == "paused" and found is not None and found.get("code") != PAUSED


def _skip(run: Run, incoming: Skip) -> Offered:
    tokens = [
        token
        for token in run.instance.tokens.values()
        if token.state in ("resting", "failed")
        and incoming.step in (token.node, run.plan.nodes[token.node].node.name)
    ]
    if len(tokens) != 1:
        message = f"expected one step `{incoming.step}` that rests or failed, found {len(tokens)}"
        return Rejection("STEP_NOT_FOUND", message, ("step",))
    if refused := _skips_an_approval(run, tokens[0], incoming):
        return refused
    edges = {edge.id: edge for edge in run.plan.nodes[tokens[0].node].everything}
    if incoming.edge not in edges:
        message = f"`{incoming.edge}` does not leave this step; these do: {', '.join(edges)}"
        return Rejection("EDGE_NOT_FOUND", message, ("edge",))
    run.skip(tokens[0], edges[incoming.edge], incoming.reason)
    return ACCEPTED


def _skips_an_approval(run: Run, token: Token, incoming: Skip) -> Rejection | None:
    """Refuse to skip an approval to `approved`, for an admin as well."""
    edge = run.plan.edges.get(incoming.edge)
    is_approval = run.plan.nodes[token.node].kind is NodeKind.APPROVAL
    if not is_approval or edge is None or edge.label != Outcome.APPROVED:
        return None
    hint = "reassign it to a member who can decide, or skip by another edge"
    return Rejection("APPROVAL_CANNOT_BE_SKIPPED", "an approval is given, not skipped", ("edge",), hint=hint)


def _cancel_token(run: Run, incoming: CancelToken) -> Offered:
    token = run.instance.tokens.get(incoming.token)
    if token is None or not parent_id(token.id):
        message = f"`{incoming.token}` is not a token on a path of a split"
        return Rejection("TOKEN_NOT_FOUND", message, ("token",), hint="cancel the instance instead")
    run.cancel_branch(token, incoming.reason)
    return ACCEPTED


def _unreadable(run: Run, incoming: Unreadable) -> Offered:
    raise ValueError(incoming.problem)


def _unknown(run: Run, incoming: Input) -> Offered:
    return Rejection("UNKNOWN_EVENT", "the type of this event is unknown")


def _repin(run: Run, incoming: Repin) -> Offered:
    found = {"definition_id": str(incoming.definition_id), "definition_version": incoming.definition_version}
    run.control("repin", **found, definition_hash=incoming.definition_hash)
    return ACCEPTED


_OFFERS: Final[Mapping[type[Input], Callable[[Run, Any], Offered]]] = {
    Start: _start,
    Advance: _advance,
    Decide: _decide,
    Reassign: lambda run, incoming: reassign(run, incoming) or ACCEPTED,
    Claim: lambda run, incoming: claim(run, incoming) or ACCEPTED,
    Release: lambda run, incoming: release(run, incoming) or ACCEPTED,
    ClaimForm: lambda run, incoming: claim_form(run, incoming) or ACCEPTED,
    ReleaseForm: lambda run, incoming: release_form(run, incoming) or ACCEPTED,
    ReassignForm: lambda run, incoming: reassign_form(run, incoming) or ACCEPTED,
    SaveDraft: lambda run, incoming: save_draft(run, incoming) or ACCEPTED,
    EventArrived: _notice,
    RequestDecided: _notice,
    RequirementChanged: _requirement_changed,
    TimerDue: _notice,
    Expired: _expired,
    Drifted: _drifted,
    Cancel: _cancel,
    Pause: _pause,
    Resume: _resume_instance,
    RetryInstance: _retry,
    Skip: _skip,
    CancelToken: _cancel_token,
    ForceFail: _force_fail,
    EditVariables: _edit_variables,
    Repin: _repin,
    Unreadable: _unreadable,
    Input: _unknown,
    Poke: lambda run, incoming: ACCEPTED,
}
