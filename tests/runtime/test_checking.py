"""`assent check --app`, `publish --app`, `App.add` and `App.check`: what an application could not run is a problem."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assent.app import App
from assent.cli.main import app as cli
from assent.definitions import publish_contract
from assent.engine.run import CHAIN_STEPS_MAX
from assent.model.actor import SYSTEM
from assent.model.problems import Invalid
from assent.store.database import Database
from tests.authored import arrows, call, flow_of
from tests.world import rows

END = {"id": "end", "type": "terminal"}
MEMO: dict[str, Any] = {
    "contract": "memo",
    "version": 1,
    "fields": {"title": {"type": "text"}},
    "lifecycle": {
        "initial": "draft",
        "states": {"draft": {"edit": "editable"}, "sent": {"edit": "locked"}},
        "transitions": {"send": {"from": "draft", "to": "sent"}},
    },
    "permissions": {"create": ["clerk"], "send": ["clerk"]},
}
SHOP = """
from assent import App

app = App()

@app.operation("bank.pay")
async def pay(connection, arguments):
    return {}
"""


def flow_with(*steps: dict[str, Any]) -> dict[str, Any]:
    names = [step["id"] for step in steps]
    return flow_of("memos", [*steps, END], arrows(*names, "end"))


def application() -> App:
    app = App().add(MEMO)

    @app.operation("bank.pay")
    async def pay(connection: Any, arguments: Any) -> dict[str, Any]:
        return {}

    @app.task("memos.print")
    async def print_memo(number: int) -> None: ...

    @app.action("memo.stamp")
    def stamp(entity: Any, payload: Any) -> dict[str, Any]:
        return {}

    return app.adapter("chat", lambda message: None)


KNOWN = [
    call("pay", "bank.pay"),
    {"id": "print", "type": "task", "task": "memos.print", "input": {"number": "1"}},
    {"id": "tell", "type": "notification", "channel": "chat", "to": "ann", "text": "x", "subject": "y"},
    {"id": "mail", "type": "notification", "channel": "email", "to": "ann", "text": "x", "subject": "y"},
]


def test_what_the_application_registers_is_no_problem() -> None:
    assert application().check(flow_with(*KNOWN)).problems == ()


@pytest.mark.parametrize(
    ("step", "code", "hint"),
    [
        (call("one", "bank.pya"), "UNKNOWN_OPERATION", "did you mean `bank.pay`?"),
        (call("one", "warehouse"), "UNKNOWN_OPERATION", "register it: @app.operation('warehouse')"),
        (
            {"id": "one", "type": "system", "operation": {"openapi": "bank.pay"}},
            "UNKNOWN_SERVICE",
            "register it: app.openapi('bank', document, base_url=…)",
        ),
        (
            {"id": "one", "type": "task", "task": "memos.prin"},
            "UNKNOWN_TASK",
            "did you mean `memos.print`?",
        ),
        (
            {"id": "one", "type": "notification", "channel": "sms", "to": "1", "text": "x", "subject": "y"},
            "UNKNOWN_CHANNEL",
            "register one: app.adapter('sms', send)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("UNKNOWN") else "",
)
def test_what_it_does_not_register_is_a_problem_at_its_step(
    step: dict[str, Any], code: str, hint: str | None
) -> None:
    (problem,) = application().check(flow_with(step)).problems
    assert (problem.code, problem.path[:2], problem.hint) == (code, ("steps", 0), hint)


def test_chain_of_automatic_calls_beyond_the_limit_is_a_problem_and_one_with_a_wait_is_not() -> None:
    """FINDINGS: cases of use, friction 1."""
    calls = [call(f"c{number}", "bank.pay") for number in range(CHAIN_STEPS_MAX + 1)]
    app = application()
    assert app.check(flow_with(*calls[:-1])).problems == ()
    (problem,) = app.check(flow_with(*calls)).problems
    assert (problem.code, problem.path) == ("TOO_MANY_CALLS", ("steps", CHAIN_STEPS_MAX))
    wait = {"id": "pause", "type": "wait_timer", "for": "1m"}
    assert app.check(flow_with(*calls[:5], wait, *calls[5:])).problems == ()


def test_add_refuses_what_check_refuses() -> None:
    """FINDINGS: a new user's trial, B8 (e)."""
    lifecycle = MEMO["lifecycle"] | {"states": {**MEMO["lifecycle"]["states"], "lost": {"edit": "editable"}}}
    app = App()
    with pytest.raises(Invalid, match="UNREACHABLE"):
        app.add(MEMO | {"lifecycle": lifecycle})
    assert not app.registry.contracts
    assert not app.sources


def patch_with(step: dict[str, Any]) -> dict[str, Any]:
    slot = {"nodes": [step], "edges": arrows_of_slot(step["id"])}
    return {
        "patch": "memos",
        "base": {"entity_type": "memo", "envelope_version": 1},
        "slots": {"slot:draft_to_send": slot},
    }


def test_patch_may_be_added_after_its_contract() -> None:
    app = application().add(patch_with(call("pay", "bank.pya")))
    (problem,) = app.check().problems
    assert problem.code == "UNKNOWN_OPERATION"


@pytest.mark.parametrize(
    ("action", "code", "hint"),
    [
        ("memo.stam", "UNKNOWN_ACTION", "did you mean `memo.stamp`?"),
        ("letter.create", "UNKNOWN_ENTITY_TYPE", None),
        ("memo.update", None, None),
        ("memo.stamp", None, None),
    ],
)
def test_action_that_the_application_does_not_know_is_a_problem(
    action: str, code: str | None, hint: str | None
) -> None:
    step = {"id": "one", "type": "action", "action": action, "writes": []}
    found = application().check(patch_with(step)).problems
    assert [(problem.code, problem.hint) for problem in found] == ([(code, hint)] if code else [])


def arrows_of_slot(name: str) -> list[dict[str, Any]]:
    return [{"from": "in", "to": name}, {"from": name, "to": "out"}]


def test_commands_check_and_publish_against_the_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_to_check.py").write_text(SHOP)
    (tmp_path / "flow.yaml").write_text(json.dumps(flow_with(call("one", "bank.pya"))))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSENT_APP", raising=False)
    run = CliRunner().invoke
    assert run(cli, ["check", "flow.yaml"]).exit_code == 0
    for words in (["check", "flow.yaml"], ["definitions", "publish", "flow.yaml", "--org", "acme"]):
        refused = run(cli, [*words, "--app", "shop_to_check:app", "--json"])
        assert refused.exit_code == 1, refused.output
        assert [each["code"] for each in json.loads(refused.stdout)["problems"]] == ["UNKNOWN_OPERATION"]


async def test_contracts_that_differ_from_the_published_are_named(database: Database) -> None:
    """FINDINGS: a new user's trial, B8 (d)."""
    assert await App([MEMO]).compare_contracts(database) == [
        "contract `memo`: version 1 runs here, and none is published; publish it"
    ]
    async with database.transaction(None) as connection:
        await publish_contract(connection, MEMO, SYSTEM, database.clock.now())
    assert await App([MEMO]).compare_contracts(database) == []
    changed = MEMO | {"fields": {"title": {"type": "text"}, "pages": {"type": "integer"}}}
    assert await App([changed]).compare_contracts(database) == [
        "contract `memo`: version 1 runs here with other content than was published"
    ]
    async with database.transaction(None) as connection:
        await publish_contract(connection, changed | {"version": 2}, SYSTEM, database.clock.now())
    assert await App([MEMO]).compare_contracts(database) == [
        "contract `memo`: version 1 runs here, and version 2 is published"
    ]
    assert len(await rows(database, "workflow_definitions")) > 1
