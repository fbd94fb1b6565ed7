"""Flows: step types, states with requirements, timeouts, entities, and names that lead nowhere."""

from typing import Any

import pytest

from assent.compiler import compile_flow
from assent.model.graph import NodeKind
from tests.authored import codes, compile_steps, invoice_contract

END = {"id": "done", "type": "terminal"}

KINDS: list[tuple[dict[str, Any], NodeKind]] = [
    ({"type": "action"}, NodeKind.FORM),
    ({"type": "form"}, NodeKind.FORM),
    ({"type": "mutation", "action": "order.create"}, NodeKind.ACTION),
    ({"type": "wait", "for": "3d"}, NodeKind.WAIT_TIMER),
    ({"type": "wait", "until": "workflow.due_at"}, NodeKind.WAIT_TIMER),
    ({"type": "wait", "cron": "0 6 1 * *"}, NodeKind.WAIT_TIMER),
    ({"type": "wait", "key": "paid:{workflow.order_id}"}, NodeKind.WAIT_EVENT),
    ({"type": "wait_timer", "for": "90s"}, NodeKind.WAIT_TIMER),
    ({"type": "wait_event", "key": "k"}, NodeKind.WAIT_EVENT),
    ({"type": "system", "operation": {"openapi": "orders.confirm"}}, NodeKind.SYSTEM),
    ({"type": "task", "task": "files.enrich"}, NodeKind.TASK),
    ({"type": "emit", "key": "paid:{workflow.order_id}", "data": {"n": 1}}, NodeKind.EMIT),
    ({"type": "script", "set": {"a": "1"}}, NodeKind.SCRIPT),
    ({"type": "rule", "rule": "credit limit"}, NodeKind.RULE),
    ({"type": "policy_gate", "capability": "orders:ship"}, NodeKind.POLICY_GATE),
    ({"type": "webhook_out", "url": "https://example.org/{workflow.id}"}, NodeKind.WEBHOOK_OUT),
    ({"type": "notification", "channel": "email", "to": "a", "text": "b"}, NodeKind.NOTIFICATION),
    ({"type": "condition"}, NodeKind.CONDITION),
]


@pytest.mark.parametrize(("step", "kind"), KINDS, ids=str)
def test_every_step_type_compiles_to_its_kind(step: dict[str, Any], kind: NodeKind) -> None:
    workflow = compile_steps([{"id": "x", **step}, END], [{"from": "x", "to": "done"}]).unwrap()
    assert workflow.nodes["x"].kind is kind


def test_lengths_of_time_are_compiled_to_seconds() -> None:
    workflow = compile_steps(
        [{"id": "x", "type": "wait", "for": "15m"}, END], [{"from": "x", "to": "done"}]
    ).unwrap()
    assert workflow.nodes["x"].config["for"] == 900


def test_a_call_over_http_is_always_awaited() -> None:
    steps = [{"id": "x", "type": "system", "operation": {"openapi": "orders.confirm"}}, END]
    assert compile_steps(steps, [{"from": "x", "to": "done"}]).unwrap().nodes["x"].config["await"] is True


def test_a_flow_may_be_named_by_id_alone() -> None:
    flow = {"id": "orders.check", "name": "Check", "version": 2, "start": "done", "steps": [END]}
    workflow = compile_flow(flow).unwrap()
    assert (workflow.key, workflow.name, workflow.version) == ("orders.check", "Check", 2)


def test_a_flow_with_two_ids_is_refused() -> None:
    flow = {"flow": "a", "id": "b", "version": 1, "start": "done", "steps": [END]}
    assert codes(compile_flow(flow)) == ["BAD_VALUE"]


STATES: dict[str, Any] = {
    "awaiting_identity": {
        "requirements": [
            {
                "all": [
                    {"type": "requirement_satisfied", "doc_type": "passport", "min_state": "verified"},
                    {
                        "type": "requirement_satisfied",
                        "doc_type": "proof_of_address",
                        "subject": "$entity_id",
                        "max_age_days": 90,
                    },
                ]
            },
            {"any": [{"type": "document_exists", "document_type": "lei", "status": "received"}]},
        ],
        "on_fail": {
            "blocker": {
                "type": "MissingDocuments",
                "resolution": "(document.solicit-set   :subject-entity-id $entity_id :doc-types [passport])",
                "expected_count": 2,
            }
        },
    },
    "resting": {},
}


def flow_of_states(**states: Any) -> dict[str, Any]:
    return {
        "flow": "clients.kyc",
        "version": 1,
        "start": "awaiting_identity",
        "steps": [END],
        "states": {**STATES, **states},
        "transitions": [
            {"from": "awaiting_identity", "to": "resting"},
            {"from": "resting", "event": "close", "to": "done"},
        ],
    }


def test_a_state_with_requirements_is_left_when_they_are_met() -> None:
    workflow = compile_flow(flow_of_states()).unwrap()
    assert workflow.nodes["awaiting_identity"].kind is NodeKind.REQUIREMENTS
    assert workflow.nodes["resting"].kind is NodeKind.STATE


def test_the_older_spelling_of_a_requirement_compiles_to_the_newer() -> None:
    config = compile_flow(flow_of_states()).unwrap().nodes["awaiting_identity"].config
    assert config["requirements"][1] == {
        "any": [
            {
                "type": "requirement_satisfied",
                "doc_type": "lei",
                "min_state": "received",
                "subject": "$entity_id",
            }
        ]
    }


def test_the_verb_of_a_blocker_is_kept_in_canonical_text_with_the_count_it_expects() -> None:
    blocker = compile_flow(flow_of_states()).unwrap().nodes["awaiting_identity"].config["on_fail"]["blocker"]
    assert (
        blocker["resolution"] == "(document.solicit-set :subject-entity-id $entity_id :doc-types [passport])"
    )
    assert blocker["expected_count"] == 2


def test_a_verb_that_cannot_be_read_is_a_problem_at_the_verb() -> None:
    broken = {
        "requirements": STATES["awaiting_identity"]["requirements"],
        "on_fail": {"blocker": {"type": "X", "resolution": "document.solicit passport"}},
    }
    (problem,) = compile_flow(flow_of_states(awaiting_identity=broken)).problems
    assert problem.path == ("states", "awaiting_identity", "on_fail", "blocker", "resolution")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"start": "nowhere"}, ("start",)),
        ({"timeout": "3d", "on_timeout": "nowhere"}, ("on_timeout",)),
        ({"transitions": [{"from": "x", "to": "nowhere"}]}, ("transitions", 0, "to")),
        ({"transitions": [{"from": "nowhere", "to": "done"}]}, ("transitions", 0, "from")),
        (
            {"steps": [{"id": "x", "type": "action", "timeout": "1d", "on_timeout": "nowhere"}, END]},
            ("steps", 0, "on_timeout"),
        ),
    ],
)
def test_a_name_that_leads_nowhere_is_the_only_problem(
    change: dict[str, Any], path: tuple[str | int, ...]
) -> None:
    flow = {
        "flow": "x",
        "version": 1,
        "start": "x",
        "steps": [{"id": "x", "type": "action"}, END],
        "transitions": [{"from": "x", "to": "done"}],
    }
    (problem,) = compile_flow(flow | change).problems
    assert (problem.code, problem.path) == ("UNKNOWN_NODE", path)


def test_two_steps_cannot_have_one_name() -> None:
    steps = [{"id": "x", "type": "action"}, {"id": "x", "type": "condition"}, END]
    (problem,) = compile_steps(steps, [{"from": "x", "to": "done"}]).problems
    assert (problem.code, problem.path) == ("DUPLICATE_ID", ("steps", 1, "id"))


@pytest.mark.parametrize("name", ["Review", "sys:start", "révision", "a b", "x" * 64, "раздел"])
def test_names_are_plain_ascii(name: str) -> None:
    compilation = compile_steps([{"id": name, "type": "action"}, END], [{"from": name, "to": "done"}])
    assert ("BAD_NAME", ("steps", 0, "id")) in [
        (problem.code, problem.path) for problem in compilation.problems
    ]


def test_somewhere_to_go_needs_a_time_to_go() -> None:
    compilation = compile_steps(
        [{"id": "x", "type": "action"}, END], [{"from": "x", "to": "done"}], on_timeout="done"
    )
    (problem,) = compilation.problems
    assert (problem.code, problem.path) == ("MISSING_KEY", ("on_timeout",))


def test_the_end_of_an_expired_flow_counts_as_reached() -> None:
    steps = [{"id": "x", "type": "action"}, END, {"id": "expired", "type": "terminal"}]
    compilation = compile_steps(steps, [{"from": "x", "to": "done"}], timeout="3d", on_timeout="expired")
    assert compilation.workflow is not None


def test_a_flow_about_an_entity_knows_its_fields() -> None:
    steps = [{"id": "x", "type": "condition"}, END]
    transitions = [
        {"from": "x", "to": "done", "condition": "entity.colour == 'red'"},
        {"from": "x", "to": "done"},
    ]
    flow = {"flow": "x", "version": 1, "start": "x", "steps": steps, "transitions": transitions}
    assert codes(compile_flow(flow)) == ["UNKNOWN_VARIABLE"]
    assert compile_flow({**flow, "entity": "invoice"}).workflow is not None
    checked = compile_flow({**flow, "entity": "invoice"}, invoice_contract())
    assert [(p.code, p.path) for p in checked.problems] == [
        ("UNKNOWN_VARIABLE", ("transitions", 0, "condition"))
    ]


def test_a_flow_is_not_compiled_with_the_contract_of_something_else() -> None:
    flow = {"flow": "x", "version": 1, "start": "done", "steps": [END], "entity": "order"}
    (problem,) = compile_flow(flow, invoice_contract()).problems
    assert (problem.code, problem.path) == ("BASE_MISMATCH", ("entity",))
