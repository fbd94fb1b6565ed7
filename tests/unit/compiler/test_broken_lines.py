"""Breaking any one line of the design's examples gives a problem that points at that line."""

from collections.abc import Iterable

import pytest

from assent.compiler import compile_contract, compile_effective, compile_flow
from assent.compiler.source import located, read_source
from assent.model.problems import Problem
from tests.authored import DESIGN, invoice_envelope

CONTRACT, PATCH, FLOW = "invoice.contract.yaml", "invoice.patch.yaml", "orders.flow.yaml"

BREAKS: dict[str, list[tuple[str, str, str]]] = {
    CONTRACT: [
        ("contract: invoice", "contract: Invoice", "BAD_NAME"),
        ("version: 1", "version: one", "WRONG_TYPE"),
        ("fields:", "fieldz:", "UNKNOWN_KEY"),
        ("number:      {type: text", "number:      {type: txt", "BAD_VALUE"),
        (
            "vendor_id:   {type: text, required: true}",
            "vendor_id:   {type: text, require: true}",
            "UNKNOWN_KEY",
        ),
        (
            "grand_total: {type: money, required: true, min: 0}",
            "grand_total: {type: money, min: none}",
            "WRONG_TYPE",
        ),
        ("currency:    {type: enum, values: [EUR, USD]", "currency:    {type: enum", "MISSING_KEY"),
        ("cost_center: {type: text}", "cost_center: {type: text, values: [a]}", "MISPLACED_KEY"),
        (
            "posted_at:   {type: datetime, system: true}",
            "posted_at:   {type: datetime, system: maybe}",
            "WRONG_TYPE",
        ),
        ("lifecycle:", "lifecicle:", "UNKNOWN_KEY"),
        ("initial: draft", "initial: drafft", "UNKNOWN_STATE"),
        ("states:", "stats:", "UNKNOWN_KEY"),
        ("draft:     {edit: editable}", "draft:     {edit: open}", "BAD_VALUE"),
        ("submitted: {edit: amend_only}", "submitted: {edit: amend}", "BAD_VALUE"),
        ("active:    {edit: locked}", "active:    {edits: locked}", "UNKNOWN_KEY"),
        ("cancelled: {edit: locked}", "cancelled: {edit: locked, final: perhaps}", "WRONG_TYPE"),
        ("amended:   {edit: editable}", "amended:   editable", "WRONG_TYPE"),
        ("transitions:", "transition:", "UNKNOWN_KEY"),
        ("submit:  {from: [draft, amended]", "submit:  {from: [draft, amend]", "UNKNOWN_STATE"),
        ("approval: required, on_reject: draft}", "approval: required}", "MISSING_REJECTION"),
        ("approval: required, on_reject: draft}", "approval: yes, on_reject: draft}", "BAD_VALUE"),
        ("to: cancelled}", "to: canceled}", "UNKNOWN_STATE"),
        ("on_drift: amend", "on_drift: amended", "BAD_VALUE"),
        ("create: [clerk]", "create: []", "EMPTY_ROLES"),
    ],
    PATCH: [
        ("patch: invoice", "patch: my invoice", "BAD_NAME"),
        (
            "entity_type: invoice, envelope_version: 1",
            "entity_type: order, envelope_version: 1",
            "BASE_MISMATCH",
        ),
        ("envelope_version: 1", "envelope_version: 2", "BASE_MISMATCH"),
        ("slots:", "slot:", "UNKNOWN_KEY"),
        ("slot:submitted_to_approved:", "slot:submitted_to_accepted:", "UNKNOWN_SLOT"),
        ("nodes:", "node:", "UNKNOWN_KEY"),
        ("{id: size, type: condition}", "{id: size, type: conditional}", "UNKNOWN_KIND"),
        ("{id: size, type: condition}", "{id: 'sys:gate:approve', type: condition}", "SYSTEM_NODE"),
        ("type: script, waives_approval: true", "type: script", "MISSING_APPROVAL"),
        ("set: {lane: \"'fast'\"}", 'set: {lane: "\'fast"}', "EXPRESSION_SYNTAX"),
        (
            "approvers: {role: finance_manager}, due: 24h",
            "approvers: {role: finance_manager}, due: 1 day",
            "BAD_DURATION",
        ),
        (
            "approvers: {role: finance_manager}, due: 24h",
            "approvers: {roles: finance_manager}, due: 24h",
            "UNKNOWN_KEY",
        ),
        ("{id: fork, type: parallel_split}", "{id: in, type: parallel_split}", "RESERVED_NAME"),
        (
            "{id: finance, type: approval, approvers: {role: finance_manager}}",
            "{id: finance, type: approval}",
            "BAD_VALUE",
        ),
        (
            "org.budget_owners[entity.cost_center]",
            "org.budget_owners[entity.cost_centre]",
            "UNKNOWN_VARIABLE",
        ),
        (
            "{id: both, type: parallel_join, mode: all}",
            "{id: both, type: parallel_join, mode: most}",
            "BAD_VALUE",
        ),
        ("{id: both, type: parallel_join, mode: all}", "{id: one, type: parallel_join}", "DUPLICATE_ID"),
        ("edges:", "edge:", "UNKNOWN_KEY"),
        ("{from: in, to: size}", "{from: in, to: sise}", "UNKNOWN_NODE"),
        ("{from: in, to: size}", "{from: out, to: size}", "WRONG_WAY"),
        ("entity.grand_total <= 50000", "entity.grand_totl <= 50000", "UNKNOWN_VARIABLE"),
        ("entity.grand_total <= 50000", "entity.grand_total <= 'fifty'", "UNLIKE_TYPES"),
        (', when: "entity.grand_total > 1000000"', "", "SEVERAL_UNCONDITIONAL"),
        ("entity.grand_total > 1000000", "entity.grand_total >> 1000000", "EXPRESSION_SYNTAX"),
        ("{from: size, to: one, priority: 3}", "{from: size, to: one, on: approved}", "DANGLING_LABEL"),
        ("{from: size, to: one, priority: 3}", "{from: size, to: one, priority: third}", "WRONG_TYPE"),
        ("{from: fast, to: out}", "{from: fast, to: 'sys:gate:approve'}", "SYSTEM_NODE"),
        ("{from: fast, to: out}", "{from: fast, to: out, on: approved}", "DANGLING_LABEL"),
        ("{from: one, to: out, on: approved}", "{from: one, to: out, on: accepted}", "DANGLING_LABEL"),
        (
            "{from: fork, to: finance}",
            "{from: fork, to: finance, when: 'entity.grand_total > 1'}",
            "CONDITIONAL_SPLIT",
        ),
        ("{from: fork, to: budget}", "{from: fork, to: finance}", "DUPLICATE_EDGE"),
        (
            "{from: finance, to: both, on: approved}",
            "{from: finance, to: out, on: approved}",
            "BRANCHES_MEET",
        ),
        (
            "{from: budget, to: both, on: approved}",
            "{from: budget, to: finance, on: approved}",
            "BRANCHES_MEET",
        ),
        ("{from: both, to: out}", "{from: both, to: size}", "CYCLE"),
        ("{from: both, to: out}", "{from: both, to: out, guard: 'may do'}", "BAD_CAPABILITY"),
    ],
    FLOW: [
        ("flow: orders.approval", "flow: orders approval", "BAD_NAME"),
        ("version: 1", "version: 0", "WRONG_TYPE"),
        ("orders:approve:execute", "orders approve execute", "BAD_CAPABILITY"),
        ("timeout: 72h", "timeout: 72 hours", "BAD_DURATION"),
        ("on_timeout: expired", "on_timeout: expire", "UNKNOWN_NODE"),
        ("start: review", "start: reviews", "UNKNOWN_NODE"),
        ("steps:", "step:", "UNKNOWN_KEY"),
        ("timeout: 24h, on_timeout: escalated", "timeout: 24h, on_timeout: escalate", "UNKNOWN_NODE"),
        ("timeout: 24h, on_timeout: escalated", "on_timeout: escalated", "DANGLING_LABEL"),
        (
            "{id: escalated, type: approval, assignee: {role: manager}}",
            "{id: escalated, type: approval}",
            "BAD_VALUE",
        ),
        ("id: process", "id: Process", "BAD_NAME"),
        ("type: system", "type: sistem", "UNKNOWN_KIND"),
        ("operation: {sdk: orders.confirm}", "operation: {sdk: orders confirm}", "BAD_NAME"),
        ("order_id: workflow.order_id, tenant", "order_id: workflo.order_id, tenant", "UNKNOWN_VARIABLE"),
        ("context.tenant_id", "context.tenant id", "EXPRESSION_SYNTAX"),
        ("result.confirmed_at", "results.confirmed_at", "UNKNOWN_VARIABLE"),
        ("channel: email", "channel: pigeon", "BAD_VALUE"),
        ("{workflow.customer_email}", "{workflow.customer_email", "TEMPLATE_SYNTAX"),
        ("{id: approved, type: terminal}", "{id: approved, type: terminal, timeout: 3d}", "UNKNOWN_KEY"),
        ("{id: rejected, type: terminal}", "{id: approved, type: terminal}", "DUPLICATE_ID"),
        ("{id: expired, type: terminal}", "{id: expired, type: terminus}", "UNKNOWN_KIND"),
        ("transitions:", "transition:", "UNKNOWN_KEY"),
        (
            "{from: review, event: approved, to: process}",
            "{from: review, event: aproved, to: process}",
            "DANGLING_LABEL",
        ),
        (
            "{from: review, event: rejected, to: rejected}",
            "{from: review, event: rejected, to: refused}",
            "UNKNOWN_NODE",
        ),
        ("orders:approve:escalated", "Orders/Approve", "BAD_CAPABILITY"),
        (
            "{from: escalated, event: rejected, to: rejected}",
            "{from: escalated, event: rejected}",
            "MISSING_KEY",
        ),
        (
            "{from: process, event: completed, to: notify}",
            "{from: proces, event: completed, to: notify}",
            "UNKNOWN_NODE",
        ),
        (
            "{from: process, event: error, to: review}",
            "{from: process, event: error, to: process}",
            "ENDLESS_LOOP",
        ),
        (
            "{from: notify, event: completed, to: approved}",
            "{from: notify, event: sent, to: approved}",
            "DANGLING_LABEL",
        ),
    ],
}
CASES = [(file, *change) for file, changes in BREAKS.items() for change in changes]


def problems_in(file: str, text: str) -> Iterable[Problem]:
    source = read_source(text, file)
    assert not source.problems, "the break is to be in what is said, not in the YAML"
    data = source.data
    compilation = (
        compile_contract(data)
        if file == CONTRACT
        else compile_effective(invoice_envelope(), [data])
        if file == PATCH
        else compile_flow(data)
    )
    return located(compilation.problems, source)


@pytest.mark.parametrize(("file", "old", "new", "code"), CASES)
def test_a_broken_line_is_pointed_at(file: str, old: str, new: str, code: str) -> None:
    text = (DESIGN / file).read_text(encoding="utf-8")
    before, found, after = text.partition(old)
    assert found, f"{old!r} is not in {file}"
    line = before.count("\n") + 1
    problems = [(p.code, p.position and p.position.line) for p in problems_in(file, before + new + after)]
    assert (code, line) in problems


@pytest.mark.parametrize("file", BREAKS)
def test_every_line_is_broken_at_least_once(file: str) -> None:
    lines = (DESIGN / file).read_text(encoding="utf-8").splitlines()
    untouched = [line for line in lines if not any(old in line for old, _, _ in BREAKS[file])]
    assert untouched == []
