"""Who is asked, compiled: one form for every approval, and every mistake at the key that its author wrote."""

from typing import Any

import pytest

from assent.compiler import compile_effective, compile_flow, generate_envelope
from assent.compiler.declarations import compile_sources
from assent.compiler.source import read_source
from assent.model.contract import contract_from
from assent.model.problems import Path
from tests.authored import DESIGN, compile_slot, compile_steps, data_of, invoice_envelope, node, read

INVOICE = DESIGN / "invoice.contract.yaml"
SLOT = "slot:submitted_to_approved"
PLACE: Path = ("slots", SLOT, "nodes", 0)
INBOX = {"title": "number", "figure": "grand_total"}
GROUPS: dict[str, Any] = {
    "legal": {"approvers": {"role": "legal"}},
    "finance": {"approvers": {"role": "finance"}, "mode": "quorum", "quorum": 2},
    "cfo": {"approvers": {"role": "cfo"}},
}
COMPILED_GROUPS = [
    {"name": "cfo", "approvers": {"role": "cfo"}, "mode": "any"},
    {"name": "finance", "approvers": {"role": "finance"}, "mode": "quorum", "quorum": 2},
    {"name": "legal", "approvers": {"role": "legal"}, "mode": "any"},
]


def invoice_data() -> dict[str, Any]:
    data: dict[str, Any] = data_of(INVOICE)
    return data


def slot_with(approval: dict[str, Any]) -> dict[str, Any]:
    return {
        "nodes": [{"id": "x", "type": "approval", **approval}],
        "edges": [{"from": "in", "to": "x"}, {"from": "x", "to": "out", "on": "approved"}],
    }


def config(**approval: Any) -> Any:
    workflow = compile_slot(slot_with(approval)).unwrap()
    return workflow.nodes[node(workflow, "x")].config


def problems(**approval: Any) -> list[tuple[str, Path]]:
    found = compile_slot(slot_with(approval)).problems
    assert all(problem.path[:4] == PLACE for problem in found)
    return [(problem.code, problem.path[4:]) for problem in found]


def one_group(people: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [{"groups": [{"name": "approvers", "approvers": people, "mode": "any", **more}]}]


def test_a_plain_approval_is_one_tier_of_one_group() -> None:
    found = config(approvers={"role": "boss"}, due="24h")
    assert found == {"tiers": one_group({"role": "boss"}), "due": 86_400, "inbox": INBOX}


def test_an_assignee_is_a_group_like_any_other() -> None:
    assert config(assignee={"user": "ann"}) == config(approvers={"user": "ann"})


@pytest.mark.parametrize(
    ("mode", "quorum"), [("any", None), ("all", None), ("sequence", None), ("quorum", 2), ("percentage", 60)]
)
def test_modes_are_kept_with_their_number(mode: str, quorum: int | None) -> None:
    number = {} if quorum is None else {"quorum": quorum}
    found = config(approvers={"rule": "org.board"}, mode=mode, **number)
    assert found["tiers"] == one_group({"rule": "org.board"}, mode=mode, **number)


@pytest.mark.parametrize(
    ("written", "compiled"),
    [
        ({"role": "a", "pick": "all"}, {"role": "a"}),
        ({"role": "a", "pick": "round_robin"}, {"role": "a", "pick": "round_robin"}),
        ({"role": "a", "pick": "first_available"}, {"role": "a", "pick": "first_available"}),
        ({"manager": True, "levels": 1}, {"manager": True}),
        ({"manager": "entity.vendor_id", "levels": 3}, {"manager": "entity.vendor_id", "levels": 3}),
        ({"chain": "large invoices"}, {"chain": "large invoices"}),
    ],
)
def test_what_goes_without_saying_is_left_out(written: dict[str, Any], compiled: dict[str, Any]) -> None:
    assert config(approvers=written)["tiers"] == one_group(compiled)


def test_groups_come_by_name_with_canonical_enough() -> None:
    found = config(groups=GROUPS, enough="((finance)  AND legal) OR cfo")
    assert found["tiers"] == [{"groups": COMPILED_GROUPS, "enough": "finance && legal || cfo"}]


def test_unsaid_all_groups_are_needed() -> None:
    assert config(groups=GROUPS)["tiers"] == [{"groups": COMPILED_GROUPS}]


def test_the_order_of_groups_does_not_change_the_hash() -> None:
    backwards = dict(reversed(GROUPS.items()))
    hashes = {compile_slot(slot_with({"groups": groups})).unwrap().hash for groups in (GROUPS, backwards)}
    assert len(hashes) == 1


TIERS: list[dict[str, Any]] = [
    {"up_to": 100_000, "approvers": {"role": "team_lead"}},
    {"up_to": 1_000_000, "assignee": {"role": "finance"}, "mode": "all"},
    {"groups": GROUPS, "enough": "finance && legal || cfo"},
]


def test_tiers_go_by_the_figure_of_the_contract() -> None:
    found = config(tiers=TIERS)
    assert found["amount"] == "entity.grand_total"
    assert found["tiers"] == [
        {"up_to": 100_000, **one_group({"role": "team_lead"})[0]},
        {"up_to": 1_000_000, **one_group({"role": "finance"}, mode="all")[0]},
        {"groups": COMPILED_GROUPS, "enough": "finance && legal || cfo"},
    ]


def test_tiers_go_by_what_their_author_says() -> None:
    assert config(tiers=TIERS, amount="( workflow.total )")["amount"] == "workflow.total"


def test_times_are_in_seconds_and_people_are_told() -> None:
    found = config(
        approvers={"role": "a"},
        notify="sms",
        remind="24h",
        escalate={"after": "48h", "to": {"role": "manager", "pick": "all"}},
        timeout="72h",
        default="rejected",
    )
    assert found == {
        "tiers": one_group({"role": "a"}),
        "notify": "sms",
        "remind": 86_400,
        "escalate": {"after": 172_800, "to": {"role": "manager"}},
        "default": "rejected",
        "inbox": INBOX,
    }


def test_no_channel_is_compiled_that_the_author_did_not_write() -> None:
    assert "notify" not in config(approvers={"role": "a"}, remind="1h")
    assert "notify" not in config(approvers={"role": "a"}, escalate={"after": "1h", "to": {"role": "b"}})


def test_expressions_are_canonical_wherever_they_stand() -> None:
    rule = 'org.owners["a"]'
    tiers = [
        {"up_to": 5, "approvers": {"rule": rule}},
        {"groups": {"g": {"approvers": {"manager": rule}}}},
    ]
    found = config(tiers=tiers, escalate={"after": "1h", "to": {"rule": rule}})
    canonical = "org.owners.a"
    first, second = found["tiers"]
    assert first["groups"][0]["approvers"] == {"rule": canonical}
    assert second["groups"][0]["approvers"] == {"manager": canonical}
    assert found["escalate"]["to"] == {"rule": canonical}


BAD = {"rule": "entity.colour"}
WRONG: list[tuple[dict[str, Any], str, Path]] = [
    ({"approvers": BAD}, "UNKNOWN_VARIABLE", ("approvers", "rule")),
    ({"assignee": BAD}, "UNKNOWN_VARIABLE", ("assignee", "rule")),
    ({"approvers": {"manager": "entity.grand_total"}}, "WRONG_TYPE", ("approvers", "manager")),
    (
        {"groups": GROUPS | {"legal": {"approvers": BAD}}},
        "UNKNOWN_VARIABLE",
        ("groups", "legal", "approvers", "rule"),
    ),
    ({"tiers": [TIERS[0], {"assignee": BAD}]}, "UNKNOWN_VARIABLE", ("tiers", 1, "assignee", "rule")),
    (
        {"tiers": [TIERS[0], {"groups": {"a": {"approvers": {"role": "x"}}, "b": {"approvers": BAD}}}]},
        "UNKNOWN_VARIABLE",
        ("tiers", 1, "groups", "b", "approvers", "rule"),
    ),
    (
        {"approvers": {"role": "a"}, "escalate": {"after": "1h", "to": BAD}},
        "UNKNOWN_VARIABLE",
        ("escalate", "to", "rule"),
    ),
    ({"tiers": TIERS, "amount": "entity.number"}, "WRONG_TYPE", ("amount",)),
    ({"tiers": TIERS, "amount": "entity.gran_total"}, "UNKNOWN_VARIABLE", ("amount",)),
    ({"groups": GROUPS, "enough": "finance && legal"}, "UNUSED_GROUP", ("enough",)),
    ({"groups": GROUPS, "enough": "finance && legal || cfo || ceo"}, "UNKNOWN_GROUP", ("enough",)),
    ({"groups": GROUPS, "enough": "finance && legal || cfo.any"}, "UNKNOWN_GROUP", ("enough",)),
    ({"groups": GROUPS, "enough": "finance && legal || cfo || !cfo"}, "NOT_OF_GROUPS", ("enough",)),
    ({"groups": GROUPS, "enough": "finance && legal && cfo && true"}, "NOT_OF_GROUPS", ("enough",)),
    ({"groups": GROUPS, "enough": "finance && legal && cfo && legal == 2"}, "NOT_OF_GROUPS", ("enough",)),
    ({"groups": GROUPS, "enough": "finance &&"}, "EXPRESSION_SYNTAX", ("enough",)),
    (
        {"tiers": [TIERS[0], {"groups": GROUPS, "enough": "cfo &"}]},
        "EXPRESSION_SYNTAX",
        ("tiers", 1, "enough"),
    ),
    ({"groups": {"in": {"approvers": {"role": "a"}}}}, "RESERVED_NAME", ("groups", "in")),
    ({"groups": {"context": {"approvers": {"role": "a"}}}}, "RESERVED_NAME", ("groups", "context")),
    ({"groups": {"now": {"approvers": {"role": "a"}}}}, "RESERVED_NAME", ("groups", "now")),
]


@pytest.mark.parametrize(("approval", "code", "path"), WRONG, ids=str)
def test_a_mistake_is_found_where_it_was_written(approval: dict[str, Any], code: str, path: Path) -> None:
    assert (code, path) in problems(**approval)


def test_a_mistake_in_enough_is_shown_at_its_column() -> None:
    text = "\n".join(
        [
            "patch: invoice",
            "base: {entity_type: invoice, envelope_version: 1}",
            "slots:",
            f"  {SLOT}:",
            "    nodes:",
            "      - id: x",
            "        type: approval",
            "        groups: {a: {approvers: {role: a}}, b: {approvers: {role: b}}}",
            "        enough: a && c",
            "    edges: [{from: in, to: x}, {from: x, to: out}]",
        ]
    )
    found = compile_sources([read(INVOICE), read_source(text, "patch.yaml")]).problems
    assert [
        (problem.code, str(problem.position)) for problem in found if problem.code == "UNKNOWN_GROUP"
    ] == [("UNKNOWN_GROUP", "Position(line=9, column=22)")]


def flow(approval: dict[str, Any], **head: Any) -> dict[str, Any]:
    return {
        "flow": "a.b",
        "version": 1,
        "start": "x",
        "steps": [{"id": "x", "type": "approval", **approval}, {"id": "end", "type": "terminal"}],
        "transitions": [
            {"from": "x", "event": "approved", "to": "end"},
            {"from": "x", "event": "rejected", "to": "end"},
        ],
        **head,
    }


def test_tiers_of_a_flow_without_a_contract_must_say_their_amount() -> None:
    (problem,) = compile_flow(flow({"tiers": TIERS})).problems
    assert (problem.code, problem.path) == ("MISSING_KEY", ("steps", 0, "amount"))
    assert compile_flow(flow({"tiers": TIERS, "amount": "workflow.total"})).problems == ()


def test_a_default_answers_for_the_timeout() -> None:
    approval = {"approvers": {"role": "a"}, "timeout": "1d", "default": "approved"}
    workflow = compile_flow(flow(approval)).unwrap()
    assert (workflow.nodes["x"].config["default"], workflow.nodes["x"].timeout_seconds) == (
        "approved",
        86_400,
    )


def test_without_a_default_the_timeout_needs_a_way() -> None:
    (problem,) = compile_flow(flow({"approvers": {"role": "a"}, "timeout": "1d"})).problems
    assert (problem.code, problem.path) == ("UNMATCHED_OUTCOME", ("steps", 0))


def test_a_way_for_the_timeout_beside_a_default_is_never_taken() -> None:
    data = flow({"approvers": {"role": "a"}, "timeout": "1d", "default": "rejected"})
    data["transitions"].append({"from": "x", "event": "timeout", "to": "end"})
    (problem,) = compile_flow(data).problems
    assert (problem.code, problem.path) == ("DANGLING_LABEL", ("transitions", 2, "event"))


def separation_of(contract: dict[str, Any] | None, flow_says: dict[str, Any] | None) -> Any:
    held = contract_from(invoice_data() | ({} if contract is None else {"separation": contract}))
    head: dict[str, Any] = {"entity": "invoice"} | ({} if flow_says is None else {"separation": flow_says})
    workflow = compile_flow(flow({"approvers": {"role": "a"}}, **head), held).unwrap()
    return workflow.nodes["x"].config.get("separation")


@pytest.mark.parametrize(
    ("contract", "flow_says", "compiled"),
    [
        (None, None, None),
        ({"originator": "refused"}, None, None),
        ({"originator": "allowed"}, None, {"originator": "allowed"}),
        ({"originator": "allowed"}, {"twice": "allowed"}, {"originator": "allowed", "twice": "allowed"}),
        ({"originator": "allowed"}, {"originator": "refused"}, None),
        (None, {"twice": "allowed"}, {"twice": "allowed"}),
    ],
)
def test_only_what_was_relaxed_is_kept_and_a_flow_speaks_for_itself(
    contract: dict[str, Any] | None, flow_says: dict[str, Any] | None, compiled: dict[str, Any] | None
) -> None:
    assert separation_of(contract, flow_says) == compiled


def test_the_approval_of_an_empty_slot_knows_the_contract_too() -> None:
    contract = invoice_data() | {"separation": {"twice": "allowed"}, "inbox": {"title": "vendor_id"}}
    workflow = compile_effective(generate_envelope(contract_from(contract))).unwrap()
    assert workflow.nodes["sys:approval:approve"].config == {
        "tiers": one_group({"permission": "approve"}),
        "separation": {"twice": "allowed"},
        "inbox": {"title": "vendor_id", "figure": "grand_total"},
    }


@pytest.mark.parametrize(
    ("fields", "inbox"),
    [
        ({"b": {"type": "text"}, "a": {"type": "text"}}, {"title": "a"}),
        ({"a": {"type": "text"}, "b": {"type": "text", "required": True}}, {"title": "b"}),
        ({"a": {"type": "integer"}, "b": {"type": "money"}, "c": {"type": "money"}}, {"figure": "b"}),
        ({"b": {"type": "integer"}, "a": {"type": "decimal"}}, {"figure": "a"}),
        ({"a": {"type": "date"}}, None),
    ],
)
def test_the_inbox_shows_a_text_and_a_number_when_nothing_is_said(
    fields: dict[str, Any], inbox: dict[str, Any] | None
) -> None:
    contract = contract_from(invoice_data() | {"fields": fields})
    workflow = compile_effective(generate_envelope(contract)).unwrap()
    assert workflow.nodes["sys:approval:approve"].config.get("inbox") == inbox


def test_the_bare_envelope_is_not_touched() -> None:
    envelope = invoice_envelope()
    before = envelope.to_json()
    compile_effective(envelope).unwrap()
    assert envelope.to_json() == before


def test_a_form_says_when_it_is_due_and_who_is_told() -> None:
    form = {
        "type": "form",
        "assignee": {"role": "clerk", "pick": "round_robin"},
        "due": "2h",
        "remind": "1h",
        "notify": "chat",
    }
    workflow = compile_steps(
        [{"id": "x", **form}, {"id": "end", "type": "terminal"}], [{"from": "x", "to": "end"}]
    ).unwrap()
    assert workflow.nodes["x"].config == {
        "assignee": {"role": "clerk", "pick": "round_robin"},
        "due": 7_200,
        "remind": 3_600,
        "notify": "chat",
    }
