"""The flowchart: deterministic, readable, and safe whatever labels hold."""

import re

from assent.compiler import compile_effective, compile_flow
from assent.compiler.diagram import diagram
from tests.authored import DATA, compile_steps, invoice_envelope, invoice_patch, orders_flow
from tests.golden import assert_golden

LINES = re.compile(
    r"""flowchart\ TD
    |\ +n\d+(?:\(\[|\[\[|\{\{|\(\(|\[/|\[|\(|\{)"[^"]*"(?:\]\)|\]\]|\}\}|\)\)|/\]|\]|\)|\})
    |\ +subgraph\ s\d+\["[^"]*"\]|\ +end
    |\ +n\d+\ (?:-->|-\.->)(?:\|"[^"|]*"\|)?\ n\d+
    |\ +classDef\ \w+\ [\w:\ -]+|\ +class\ [n\d,]+\ \w+""",
    re.VERBOSE,
)


def test_the_design_s_examples_look_as_they_did() -> None:
    invoice = compile_effective(invoice_envelope(), invoice_patch()).unwrap()
    assert_golden(DATA / "diagrams" / "invoice.mmd", diagram(invoice))
    assert_golden(DATA / "diagrams" / "orders.mmd", diagram(compile_flow(orders_flow()).unwrap()))


def test_nothing_in_a_label_reaches_the_reader_of_the_chart() -> None:
    nasty = 'a "quoted" <b>#35; | [x] -->\n n0 %% `x`'
    workflow = compile_steps(
        [{"id": "x", "type": "rule", "rule": nasty, "label": nasty}, {"id": "done", "type": "terminal"}],
        [{"from": "x", "to": "done", "condition": "workflow.a == '|\"<#'"}, {"from": "x", "to": "done"}],
    ).unwrap()
    for line in diagram(workflow).splitlines():
        assert LINES.fullmatch(line), line


def test_every_node_and_edge_is_drawn() -> None:
    workflow = compile_effective(invoice_envelope(), invoice_patch()).unwrap()
    text = diagram(workflow)
    assert len(re.findall(r"^ +n\d+[(\[{]", text, re.MULTILINE)) == len(workflow.nodes)
    assert len(re.findall(r"^ +n\d+ -", text, re.MULTILINE)) == len(workflow.edges)


def test_loops_rejections_and_expiry_are_dotted() -> None:
    text = diagram(compile_flow(orders_flow()).unwrap())
    assert [line for line in text.splitlines() if "-.->" in line] == [
        '  n4 -.->|"error"| n2',
        '  n1 -.->|"after 3d"| n0',
    ]


def test_who_decides_is_shown_tier_by_tier_and_what_happens_by_itself() -> None:
    groups = {"finance": {"approvers": {"role": "finance"}}, "cfo": {"approvers": {"role": "cfo"}}}
    approval = {
        "amount": "workflow.total",
        "tiers": [
            {"up_to": 500, "approvers": {"role": "lead"}},
            {"up_to": 900, "groups": groups},
            {"groups": groups, "enough": "finance or cfo"},
        ],
        "escalate": {"after": "36h", "to": {"manager": True}},
        "timeout": "3d",
        "default": "approved",
    }
    workflow = compile_steps(
        [{"id": "x", "type": "approval", **approval}, {"id": "end", "type": "terminal"}],
        [{"from": "x", "event": event, "to": "end"} for event in ("approved", "rejected")],
    ).unwrap()
    (line,) = [line for line in diagram(workflow).splitlines() if "lead" in line]
    assert line.split("<br/>")[1:] == [
        "approval by amount",
        "up to 500: role lead",
        "up to 900: cfo #amp;#amp; finance",
        "above: finance #124;#124; cfo",
        "after 36h also manager",
        'after 3d approved by itself"/]',
    ]
    assert LINES.fullmatch(line)
