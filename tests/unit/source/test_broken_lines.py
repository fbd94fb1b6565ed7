"""Breaking a line of the design's examples gives a problem that points at that line."""

import pytest

from assent.compiler.declarations import compile_sources
from assent.compiler.source import read_sources
from assent.model.problems import Problem
from tests.authored import DESIGN

CONTRACT, PATCH, FLOW = "invoice.contract.yaml", "invoice.patch.yaml", "orders.flow.yaml"

BROKEN = [
    (CONTRACT, 1, "contract: invoice", "contract: Invoice"),
    (CONTRACT, 1, "contract: invoice", "contract: invoi\u0441e"),
    (CONTRACT, 2, "version: 1", "version: 0"),
    (CONTRACT, 2, "version: 1", "versoin: 1"),
    (CONTRACT, 3, "fields:", "feilds:"),
    (CONTRACT, 4, "type: text", "type: txt"),
    (CONTRACT, 4, "number:", "state:"),
    (CONTRACT, 4, "max: 40", "max: many"),
    (CONTRACT, 5, "required: true", "required: perhaps"),
    (CONTRACT, 6, "type: money", "type: mony"),
    (CONTRACT, 7, "type: enum", "type: text"),
    (CONTRACT, 7, "values: [EUR, USD], ", ""),
    (CONTRACT, 8, "cost_center:", "currency:   "),
    (CONTRACT, 9, "system: true", "sytem: true"),
    (CONTRACT, 10, "lifecycle:", "life_cycle:"),
    (CONTRACT, 11, "initial: draft", "initial: drft"),
    (CONTRACT, 12, "states:", "state:"),
    (CONTRACT, 13, "edit: editable", "edit: editible"),
    (CONTRACT, 14, "submitted:", "Submitted:"),
    (CONTRACT, 15, "{edit: locked}", "{edit: }"),
    (CONTRACT, 16, "{edit: locked}", "{}"),
    (CONTRACT, 16, "cancelled:", "active:   "),
    (CONTRACT, 17, "edit: editable", "edti: editable"),
    (CONTRACT, 18, "transitions:", "transition:"),
    (CONTRACT, 19, "to: submitted", "to: submited"),
    (CONTRACT, 19, "[draft, amended]", "[draft, amened]"),
    (CONTRACT, 20, "approval: required", "approval: maybe"),
    (CONTRACT, 20, "on_reject: draft", "on_reject: drafts"),
    (CONTRACT, 21, "to: cancelled", "to: canceled"),
    (CONTRACT, 22, "on_drift: amend", "on_drift: ammend"),
    (CONTRACT, 23, "create: [clerk]", "create: []"),
    (CONTRACT, 23, "[manager]}", "[manager]"),
    (PATCH, 1, "patch: invoice", "patch: in-voice"),
    (PATCH, 2, "entity_type: invoice", "entity_type: bill"),
    (PATCH, 2, "envelope_version: 1", "envelope_version: 2"),
    (PATCH, 3, "slots:", "slot:"),
    (PATCH, 4, "slot:submitted_to_approved:", "slot:submitted_to_active:"),
    (PATCH, 5, "nodes:", "node:"),
    (PATCH, 6, "type: condition", "type: conditon"),
    (PATCH, 6, "id: size", "id: sys:state:draft"),
    (PATCH, 7, "set: {lane:", "sett: {lane:"),
    (PATCH, 7, "\"'fast'\"", '"\'fast"'),
    (PATCH, 7, "waives_approval: true, ", ""),
    (PATCH, 8, "role: finance_manager", "rol: finance_manager"),
    (PATCH, 8, "due: 24h", "due: 24 hours"),
    (PATCH, 9, "id: fork", "id: fast"),
    (PATCH, 10, "id: finance,", "id: one,"),
    (PATCH, 10, ", approvers: {role: finance_manager}", ""),
    (PATCH, 11, "entity.cost_center", "entity.cost_centre"),
    (PATCH, 11, "cost_center]", "cost_center"),
    (PATCH, 12, "mode: all", "mode: most"),
    (PATCH, 13, "edges:", "edge:"),
    (PATCH, 14, "to: size", "to: sise"),
    (PATCH, 14, "from: in", "from: out"),
    (PATCH, 15, "entity.grand_total", "entity.total"),
    (PATCH, 15, "<= 50000", "<= 'cheap'"),
    (PATCH, 15, "&& entity", "&& && entity"),
    (PATCH, 15, "priority: 1", "priority: high"),
    (PATCH, 16, "> 1000000", "> EUR"),
    (PATCH, 16, "to: fork", "to: in"),
    (PATCH, 17, ", priority: 3", ", on: approved"),
    (PATCH, 18, "to: out", "to: sys:gate:approve"),
    (PATCH, 19, "on: approved", "on: aproved"),
    (PATCH, 20, "from: fork", "from: fok"),
    (PATCH, 21, "to: budget", "to: budgt"),
    (PATCH, 22, "to: both", "to: bth"),
    (PATCH, 23, "on: approved", "on: Approved"),
    (PATCH, 24, "to: out", "to: fork"),
    (FLOW, 1, "orders.approval", "orders approval"),
    (FLOW, 2, "version: 1", "version: one"),
    (FLOW, 3, "orders:approve:execute", "orders approve"),
    (FLOW, 4, "timeout: 72h", "timeout: 72"),
    (FLOW, 5, "expired", "expird"),
    (FLOW, 6, "review", "reviw"),
    (FLOW, 7, "steps:", "step:"),
    (FLOW, 8, "role: approver", "role: ''"),
    (FLOW, 8, "on_timeout: escalated", "on_timeout: escaladed"),
    (FLOW, 9, "id: escalated", "id: review"),
    (FLOW, 10, "id: process", "id: review"),
    (FLOW, 11, "type: system", "type: systems"),
    (FLOW, 12, "sdk: orders.confirm", "sdk: orders confirm"),
    (FLOW, 12, "sdk:", "skd:"),
    (FLOW, 13, "context.tenant_id", "tenant_id"),
    (FLOW, 13, "workflow.order_id", "workflow..order_id"),
    (FLOW, 14, "result.confirmed_at", "results.confirmed_at"),
    (FLOW, 15, "{workflow.order_id}", "{workflow.order_id"),
    (FLOW, 15, "channel: email", "channel: pigeon"),
    (FLOW, 16, "type: terminal", "type: terminate"),
    (FLOW, 17, "id: rejected", "id: approved"),
    (FLOW, 18, "{id: expired", "{id: [expired]"),
    (FLOW, 19, "transitions:", "transition:"),
    (FLOW, 20, "event: approved", "event: aproved"),
    (FLOW, 21, "to: rejected", "to: rejeced"),
    (FLOW, 22, "orders:approve:escalated", "orders approve"),
    (FLOW, 22, "from: escalated", "from: escalade"),
    (FLOW, 23, "event: rejected", "event: refused"),
    (FLOW, 24, "to: notify", "to: notfy"),
    (FLOW, 25, "event: error", "event: errors"),
    (FLOW, 26, "from: notify", "from: notfy"),
]


def problems_of(file: str, text: str) -> tuple[Problem, ...]:
    """The problems of all design examples, with one of them replaced by `text`."""
    files = {name: (DESIGN / name).read_text(encoding="utf-8") for name in (CONTRACT, PATCH, FLOW)}
    sources = [
        source for name, found in (files | {file: text}).items() for source in read_sources(found, name)
    ]
    return compile_sources(sources).problems


def test_as_they_are_written_they_have_no_problem() -> None:
    assert problems_of(CONTRACT, (DESIGN / CONTRACT).read_text(encoding="utf-8")) == ()


@pytest.mark.parametrize(
    ("file", "line", "old", "new"), BROKEN, ids=[f"{b[0]}:{b[1]}-{b[3]}" for b in BROKEN]
)
def test_a_broken_line_is_pointed_at(file: str, line: int, old: str, new: str) -> None:
    lines = (DESIGN / file).read_text(encoding="utf-8").splitlines()
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    found = problems_of(file, "\n".join(lines) + "\n")
    places = [(problem.source, problem.position and problem.position.line) for problem in found]
    assert (file, line) in places, "\n".join(map(str, found))


@pytest.mark.parametrize("file", [CONTRACT, PATCH, FLOW])
def test_every_line_is_broken_at_least_once(file: str) -> None:
    count = len((DESIGN / file).read_text(encoding="utf-8").splitlines())
    assert {line for name, line, *_ in BROKEN if name == file} == set(range(1, count + 1))
