"""`assent instances start`: what is given, what comes back, what is refused."""

import json

import pytest

from assent.kernel.rules import save_rule
from tests.cli.application import app
from tests.cli.desk import Desk, lines
from tests.world import LARGE, create_invoice, rows


async def test_a_flow_is_started_and_shown_where_it_came_to_rest(desk: Desk, company) -> None:
    result = await desk.run("instances", "start", "orders", "--data", "order=17")
    (instance,) = await rows(company, "workflow_instances")
    assert lines(result)[0] == ["✓", "started", "orders"]
    assert lines(result)[1] == ["running", "orders", str(instance["id"])]
    assert lines(result)[3][:3] == ["ask", "form", "ann"]
    assert instance["subject_id"] == "ann"


async def test_values_are_json_where_they_are_json_and_text_elsewhere(desk: Desk) -> None:
    given = [
        "total=500",
        "paid=true",
        "tags=[1, 2]",
        "name=Ann B",
        "code=0017",
        'number="17"',
        "empty=",
        "no=NaN",
    ]
    started = await desk.json(
        "instances", "start", "orders", *[part for pair in given for part in ("-d", pair)]
    )
    assert started["context"] == {
        **{"total": 500, "paid": True, "tags": [1, 2], "name": "Ann B", "code": "0017", "number": "17"},
        **{"empty": "", "no": "NaN"},
    }


async def test_a_number_that_cannot_be_kept_is_refused_and_not_rounded(desk: Desk) -> None:
    refused = await desk.refusal(
        "instances", "start", "orders", "-d", "account=123456789012345678901234567890"
    )
    assert refused["problems"][0]["path"] == ["data", "account"]


async def test_data_comes_from_a_file_or_standard_input_and_a_pair_wins(desk: Desk, tmp_path) -> None:
    file = tmp_path / "order.json"
    file.write_text('{"order": 1, "note": "from the file"}')
    from_file = await desk.json("instances", "start", "orders", "--json-data", file, "-d", "order=2")
    assert from_file["context"] == {"order": 2, "note": "from the file"}
    piped = await desk.run("instances", "start", "orders", "--json-data", "-", "--json", text='{"order": 3}')
    assert json.loads(piped.stdout)["context"] == {"order": 3}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-d", "order"], "expected KEY=VALUE, found 'order'"),
        (["-d", "a=1", "-d", "a=2"], "'a' is given twice"),
        (["--json-data", "/nowhere.json"], "expected JSON in /nowhere.json"),
    ],
)
async def test_data_that_cannot_be_read_is_a_usage_error(desk: Desk, arguments, told) -> None:
    assert told in (await desk.run("instances", "start", "orders", *arguments, code=2)).stderr


async def test_a_file_that_holds_no_object_is_a_usage_error(desk: Desk) -> None:
    result = await desk.run("instances", "start", "orders", "--json-data", "-", text="[1]", code=2)
    assert "expected a JSON object in -, found list" in result.stderr


async def test_the_same_key_answers_with_the_instance_of_before(desk: Desk, company) -> None:
    first = await desk.json("instances", "start", "orders", "--key", "order-17")
    again = await desk.json("instances", "start", "orders", "--key", "order-17")
    assert first["id"] == again["id"]
    assert len(await rows(company, "workflow_instances")) == 1


async def test_whoever_lacks_the_capability_starts_nothing(desk: Desk, company) -> None:
    refused = await desk.refusal("instances", "start", "orders", user="fin")
    assert refused["code"] == "POLICY_DENIED"
    assert "it takes orders:start" in refused["detail"]
    assert await rows(company, "workflow_instances") == []


async def test_a_flow_that_is_not_published_is_not_found(desk: Desk) -> None:
    assert (await desk.refusal("instances", "start", "no.such.flow"))["code"] == "NOT_FOUND"


async def test_a_step_that_raises_is_told_and_leaves_nothing_behind(desk: Desk, company) -> None:
    from tests.cli.application import shop

    shop.is_open = False
    started = await desk.json("instances", "start", "orders")
    refused = await desk.refusal("instances", "advance", started["id"], "go")
    assert refused["code"] == "STEP_FAILED"
    assert "RuntimeError: the shop is closed; nothing was changed" in refused["detail"]
    (instance,) = await rows(company, "workflow_instances")
    assert instance["version"] == started["version"]


async def test_a_rule_that_denies_a_transition_refuses_the_command(desk: Desk, company, runtime) -> None:
    rule = {"name": "budget", "entity_type": "invoice", "action": "submit", "timing": "before"}
    deny = {
        "condition": "entity.grand_total > 100",
        "outcome": "deny",
        "then": {"message": "over the budget"},
    }
    async with company.transaction("acme") as connection:
        await save_rule(connection, app.registry, "acme", {**rule, **deny}, company.clock.now())
    invoice = await create_invoice(runtime, LARGE)
    refused = await desk.refusal("instances", "advance", invoice.id, "submit")
    assert (refused["code"], refused["detail"]) == ("RULE_DENIED", "over the budget")
    assert await rows(company, "workflow_instances") == []  # its start is still an event for a worker
    assert (await rows(company, "entities"))[0]["state"] == "draft"
