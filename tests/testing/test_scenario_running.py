"""Every kind of step does what it says; whatever goes otherwise fails, and the report says what, where and for whom."""

from pathlib import Path
from typing import Any

import pytest

from assent.app import App
from assent.compiler.source import read_sources
from assent.testing.sandbox import Sandbox
from assent.testing.scenarios.suite import ScenarioResult, find_scenarios, run_scenario
from tests.testing.written import COMPANY, CREATED, NOTE, SUBMITTED, read, run, scenario_text

STARTED = "- {as: ann, start: desk.job, data: {number: 7}}\n"
FORM = "- {as: ann, start: desk.form}\n"
ASKED = "- {as: ann, start: desk.vendor}\n"

GOOD = {
    "approve": SUBMITTED
    + "- {as: rob, approve: reader}\n- {expect: {state: signed, edit: locked, status: completed}}",
    "reject": SUBMITTED
    + "- {as: rob, reject: reader, reason: dull}\n- {expect: {state: draft, workflow: {_rejection: {reason: dull}}}}",
    "abstain": SUBMITTED
    + "- {as: rob, abstain: reader}\n- {expect: {state: submitted, asked: {reader: [eve]}}}",
    "an answer of its own": SUBMITTED
    + "- {as: rob, shorten: reader}\n- {expect: {state: submitted, asked: {editor: [wim]}}}",
    "advance with an approval's outcome": SUBMITTED
    + "- {as: rob, advance: approved, step: reader}\n- {expect: {state: signed}}",
    "claim and release": SUBMITTED
    + """\
- {as: rob, claim: reader}
- {as: eve, approve: reader, refused: CLAIMED}
- {as: rob, release: reader}
- {as: eve, approve: reader}
- {expect: {state: signed}}""",
    "reassign": SUBMITTED
    + """\
- {people: {zoe: [guest]}}
- {as: zoe, approve: reader, refused: POLICY_DENIED}
- {as: rob, reassign: {step: reader, from: rob, to: zoe, reason: holiday}}
- {expect: {asked: {reader: [eve, zoe]}}}
- {as: zoe, approve: reader}
- {expect: {state: signed}}""",
    "delegate": SUBMITTED
    + """\
- {people: {zoe: [guest]}}
- {as: rob, delegate: {to: zoe, until: 1 day}}
- {wait: 25h}
- {as: zoe, approve: reader, on_behalf_of: rob, refused: POLICY_DENIED}
- {as: rob, delegate: {to: zoe}}
- {as: zoe, approve: reader, on_behalf_of: rob}
- {expect: {state: signed}}""",
    "delegate later": SUBMITTED
    + """\
- {people: {zoe: [guest]}}
- {as: rob, delegate: {to: zoe, from: 2h, until: 1d}}
- {as: zoe, approve: reader, on_behalf_of: rob, refused: POLICY_DENIED}
- {wait: 1h}
- {as: zoe, approve: reader, on_behalf_of: rob, refused: POLICY_DENIED}
- {wait: 1h}
- {as: zoe, approve: reader, on_behalf_of: rob}
- {expect: {state: signed}}""",
    "delegate for a while": SUBMITTED
    + """\
- {people: {zoe: [guest]}}
- {as: rob, delegate: {to: zoe, from: 1h, until: 2h}}
- {wait: 2h}
- {as: zoe, approve: reader, on_behalf_of: rob, refused: POLICY_DENIED}""",
    "rules that come later": CREATED
    + """\
- rules:
    - {name: short, entity_type: note, action: submit, timing: before, condition: "entity.pages > 9", outcome: deny,
       then: {message: too long}}
- {as: ann, update: {pages: 10}}
- {as: ann, submit: {}, refused: RULE_DENIED}
- {as: ann, update: {pages: 9}}
- {as: ann, submit: {}}
- {expect: {state: submitted}}""",
    "emit": STARTED + '- {emit: "desk:7", data: {}}\n- {expect: {status: completed}}',
    "wait and reply": STARTED
    + """\
- {wait: 47h}
- {expect: {waiting: [ask], sent: []}}
- {wait: 1 hour}
- {expect: {waiting: [call], sent: [{webhook: "https://desk.example/7"}]}}
- {reply: call, data: {word: coming}}
- {expect: {status: completed, workflow: {answer: coming}, sent: [{email: boss@acme.example, subject: Late}]}}""",
    "reply with an error": STARTED
    + """\
- {wait: 2d}
- {reply: call, error: {code: GONE, message: nobody there}}
- {expect: {status: completed, not_sent: [{email: boss@acme.example}]}}
- {reply: call, refused: STEP_NOT_FOUND}""",
    "results": ASKED
    + """\
- {result: vendor, items: [{cargo: "external://vault/1"}], key: a}
- {result: vendor, items: [{cargo: "external://vault/9"}], key: a}
- {expect: {waiting: [vendor]}}
- {result: vendor, items: [{cargo: "external://vault/2"}, {kind: bill, status: failed}]}
- {expect: {status: completed, workflow: {papers: 2}}}
- {result: vendor, items: [{cargo: "external://vault/3"}], refused: STEP_NOT_FOUND}""",
    "a result that says no": ASKED
    + """\
- {result: vendor, items: [{cargo: passport.pdf}], refused: BAD_CARGO}
- {result: vendor, status: failed, error: no such client}
- {expect: {status: completed, workflow: {code: REQUEST_FAILED, why: no such client}}}""",
    "no result in time": ASKED
    + """\
- {wait: 71h}
- {expect: {waiting: [vendor]}}
- {wait: 1h}
- {expect: {status: completed, workflow: {code: REQUEST_EXPIRED}}}""",
    "pause and resume": SUBMITTED
    + """\
- {as: ann, workflow: pause, refused: POLICY_DENIED}
- {as: oli, workflow: pause, reason: wait}
- {expect: {status: paused}}
- {as: rob, approve: reader, refused: WORKFLOW_NOT_ACTIVE}
- {as: oli, workflow: resume}
- {as: rob, approve: reader}
- {expect: {status: completed, state: signed}}""",
    "cancel the workflow": STARTED
    + """\
- {as: rob, workflow: cancel, refused: POLICY_DENIED}
- {as: ann, workflow: cancel, reason: no}
- {expect: {status: cancelled}}""",
    "fail the workflow": STARTED
    + "- {as: oli, workflow: fail, reason: no}\n- {expect: {status: failed, incident: FORCED}}",
    "a form": FORM
    + """\
- {expect: {waiting: [fill], asked: {fill: [eve, rob]}}}
- {as: ann, advance: completed, data: {pages: 3}, refused: POLICY_DENIED}
- {as: rob, advance: completed, data: {pages: three}, refused: WRONG_TYPE}
- {as: rob, advance: completed, data: {pages: 3}}
- {expect: {status: completed, workflow: {pages: 3}}}""",
    "an answer to a form": FORM
    + "- {as: rob, drop: fill, data: {pages: 1}}\n- {expect: {status: completed}}",
    "a form that is claimed and handed on": FORM
    + """\
- {as: rob, claim: fill}
- {as: eve, advance: completed, data: {pages: 3}, refused: CLAIMED}
- {as: rob, release: fill}
- {as: rob, reassign: {step: fill, from: rob, to: ann}}
- {expect: {asked: {fill: [ann, eve]}}}
- {as: ann, advance: completed, data: {pages: 3}}
- {expect: {status: completed}}""",
    "several documents": """\
- {as: ann, create: note, name: one, data: {text: hello}}
- {as: ann, create: note, name: two, data: {text: "see {one}"}}
- {as: ann, on: one, submit: {}}
- {on: one, expect: {state: submitted}}
- {expect: {state: draft}}""",
    "an action of the kernel": CREATED
    + "- {as: ann, update: {pages: 3}}\n- {expect: {version: 2, data: {pages: 3}}}",
    "a member who leaves": CREATED
    + "- {people: {ann: {roles: [writer], active: false}}}\n- {as: ann, submit: {}, refused: NOT_A_MEMBER}",
    "settings that change": CREATED + "- {org: {limit: 5}}\n- {expect: {state: draft}}",
    "a step that waits for nobody": CREATED + "- {as: rob, approve: reader, refused: STEP_NOT_FOUND}",
}


@pytest.mark.parametrize("name", GOOD)
async def test_scenario_passes(name: str, postgres_url: str) -> None:
    outcome = await run(GOOD[name], postgres_url)
    assert outcome.passed, outcome.text()
    assert outcome.steps_done == outcome.steps


WRONG = {
    "state": ("state: signed", "state", "signed", "submitted"),
    "edit": ("edit: locked", "edit", "locked", "amend_only"),
    "version": ("version: 9", "version", "9", "2"),
    "status": ("status: completed", "status", "completed", "running"),
    "waiting too few": ("waiting: []", "waiting", "nothing", "reader"),
    "waiting too many": ("waiting: [reader, writer]", "waiting", "reader, writer", "reader"),
    "asked": ("asked: {reader: [rob]}", "asked at reader", "rob", "eve, rob"),
    "asked elsewhere": ("asked: {writer: [rob]}", "asked at writer", "rob", "no person: it does not wait"),
    "void": ("void: [reader]", "void", "reader", "nothing"),
    "data": ("data: {text: bye}", "data.text", "bye", "hello"),
    "data that is not there": ("data: {pages: 1}", "data.pages", "1", "nothing"),
    "workflow": ("workflow: {lane: fast}", "workflow.lane", "fast", "nothing"),
    "incident": ("incident: NO_APPROVERS", "incident", "NO_APPROVERS", "none"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_whatever_is_otherwise_is_told(name: str, postgres_url: str) -> None:
    expectation, *told = WRONG[name]
    outcome = await run(f"{SUBMITTED}- {{expect: {{{expectation}}}}}", postgres_url)
    assert (outcome.passed, outcome.steps_done) == (False, 2)
    assert outcome.failure is not None
    assert [[d.what, d.expected, d.found] for d in outcome.failure.differences] == [told]


SENT_WRONG = {
    "to somebody else": "sent: [{email: nobody@acme.example}]",
    "with another text": "sent: [{email: boss@acme.example, text: Job 8}]",
    "with another subject": "sent: [{email: boss@acme.example, subject: Early}]",
    "another channel": "sent: [{sms: boss@acme.example}]",
    "a body that is not so": 'sent: [{webhook: "https://desk.example/7", body: {a: 1}}]',
    "nothing": "sent: []",
    "not this": "not_sent: [{email: boss@acme.example}]",
}


@pytest.mark.parametrize("name", SENT_WRONG)
async def test_what_was_sent_is_compared(name: str, postgres_url: str) -> None:
    steps = STARTED + "- {wait: 2d}\n- {reply: call, data: {word: a}}\n"
    outcome = await run(f"{steps}- {{expect: {{{SENT_WRONG[name]}}}}}", postgres_url)
    assert outcome.failure is not None
    assert "boss@acme.example" in outcome.failure.differences[0].found


async def test_void_approvals_are_told_and_a_void_that_should_not_be_fails(postgres_url: str) -> None:
    edited = SUBMITTED + "- {as: ann, update: {text: bye}}\n"
    assert (await run(f"{edited}- {{expect: {{state: amended, void: [reader]}}}}", postgres_url)).passed
    assert not (await run(f"{edited}- {{expect: {{void: []}}}}", postgres_url)).passed


@pytest.mark.parametrize(
    "ending", ["{as: oli, workflow: cancel, reason: no}", "{as: oli, workflow: fail, reason: no}"]
)
async def test_void_is_what_an_edit_made_void_and_not_what_ended_otherwise(
    postgres_url: str, ending: str
) -> None:
    outcome = await run(f"{SUBMITTED}- {ending}\n- {{expect: {{void: []}}}}", postgres_url)
    assert outcome.passed, outcome.text()


BESIDE_EACH_OTHER = (
    NOTE.split("---\n", maxsplit=1)[0]
    + """---
patch: note
base: {entity_type: note, envelope_version: 1}
slots:
  slot:submitted_to_approved:
    nodes:
      - {id: fork, type: parallel_split}
      - {id: reader, type: approval, approvers: {role: reader}}
      - {id: editor, type: approval, approvers: {user: wim}}
      - {id: both, type: parallel_join, mode: all}
    edges:
      - {from: in, to: fork}
      - {from: fork, to: reader}
      - {from: fork, to: editor}
      - {from: reader, to: both, on: approved}
      - {from: editor, to: both, on: approved}
      - {from: both, to: out}
"""
)


async def test_approval_that_another_no_made_useless_is_not_made_void_by_an_edit(postgres_url: str) -> None:
    steps = SUBMITTED + "- {as: rob, approve: reader}\n- {as: wim, reject: editor}\n"
    scenario, problems = read(f"{steps}- {{expect: {{state: draft, void: []}}}}")
    assert scenario is not None, problems
    sources = read_sources(BESIDE_EACH_OTHER, "note.yaml")
    statuses: list[str] = []

    async def look(sandbox: Sandbox) -> None:
        async with sandbox.database.transaction(None) as connection:
            rows = await connection.fetch("SELECT status FROM assent.approval_requests")
            statuses.extend(row["status"] for row in rows)

    outcome = await run_scenario(scenario, sources, server=postgres_url, look=look)
    assert outcome.passed, outcome.text()
    assert "void" in statuses


RULED = f"""{COMPANY}\
rules:
  - {{name: polite, entity_type: note, action: create, timing: before, condition: "entity.text != 'hello'",
     outcome: deny, then: {{message: say hello}}}}
"""


async def test_rules_hold_from_the_first_step(postgres_url: str) -> None:
    steps = "- {as: ann, create: note, data: {text: bye}, refused: RULE_DENIED}\n" + CREATED
    outcome = await run(steps, postgres_url, RULED)
    assert outcome.passed, outcome.text()


async def test_rule_that_could_not_be_applied_is_a_problem(postgres_url: str) -> None:
    outcome = await run(CREATED, postgres_url, RULED.replace("entity.text", "entity.txt"))
    assert [problem.code for problem in outcome.problems] == ["UNKNOWN_VARIABLE"]


SHOP = """
CREATE SCHEMA shop;
CREATE TABLE shop.bookings (
  id bigint GENERATED ALWAYS AS IDENTITY, room integer NOT NULL, note uuid, paid boolean DEFAULT false);
GRANT USAGE ON SCHEMA shop TO assent_engine;
GRANT SELECT, INSERT ON shop.bookings TO assent_engine;
"""


def booking_app() -> App:
    app = App()

    @app.operation("desk.book")
    async def book(connection: Any, arguments: Any) -> None:
        await connection.execute("INSERT INTO shop.bookings (room) VALUES ($1)", arguments["room"])

    return app


BOOK = """\
flow: desk.book
version: 1
start: book
steps:
  - {id: book, type: system, operation: {sdk: desk.book}, input: {room: workflow.room}}
  - {id: done, type: terminal}
transitions:
  - {from: book, event: completed, to: done}
"""


async def booked(postgres_url: str, folder: Path, expected: str, steps: str = "") -> ScenarioResult:
    (folder / "shop.ddl").write_text(SHOP, encoding="utf-8")
    (folder / "book.yaml").write_text(BOOK, encoding="utf-8")
    head = f"{COMPANY}sql: [shop.ddl]\ntables: {{shop.bookings: [{{room: 1, paid: true}}]}}\n"
    written = (
        f"- {{as: ann, start: desk.book, data: {{room: 7}}}}\n{steps}- {{expect: {{tables: {expected}}}}}"
    )
    (folder / "shop.scenario.yaml").write_text(scenario_text(written, head), encoding="utf-8")
    (found,) = find_scenarios([folder])
    return await found.run(booking_app(), server=postgres_url)


async def test_tables_of_the_application_are_given_and_expected(postgres_url: str, tmp_path: Path) -> None:
    outcome = await booked(
        postgres_url, tmp_path, "{shop.bookings: [{room: 7, paid: false, id: 2}, {room: 1, paid: true}]}"
    )
    assert outcome.passed, outcome.text()
    more = await booked(
        postgres_url,
        tmp_path,
        "{shop.bookings: [{room: 1}, {room: 7}, {room: 3}]}",
        "- {tables: {shop.bookings: [{room: 3}]}}\n",
    )
    assert more.passed, more.text()


@pytest.mark.parametrize(
    ("expected", "differences"),
    [
        ("{shop.bookings: [{room: 7}]}", [("shop.bookings", "1 rows")]),
        ("{shop.bookings: []}", [("shop.bookings", "0 rows")]),
        ("{shop.bookings: [{room: 7}, {room: 7}]}", [("shop.bookings", '{"room": 7}')]),
        (
            "{shop.bookings: [{room: 7}, {room: 1, paid: false}]}",
            [("shop.bookings", '{"room": 1, "paid": false}')],
        ),
    ],
)
async def test_rows_that_are_otherwise_are_said(
    postgres_url: str, tmp_path: Path, expected: str, differences: list[tuple[str, str]]
) -> None:
    outcome = await booked(postgres_url, tmp_path, expected)
    assert outcome.failure is not None
    found = [(one.what, one.expected) for one in outcome.failure.differences]
    assert found == [(f"tables.{table}", text) for table, text in differences]


async def test_table_that_is_not_there_fails_the_step(postgres_url: str, tmp_path: Path) -> None:
    outcome = await booked(postgres_url, tmp_path, "{shop.rooms: []}")
    assert outcome.failure is not None
    assert "shop.rooms" in outcome.failure.message
    (tmp_path / "shop.ddl").unlink()
    (found,) = find_scenarios([tmp_path])
    assert [(problem.code, problem.path) for problem in found.problems] == [("NOT_FOUND", ("sql", 0))]


async def test_delegation_that_ends_before_it_begins_is_a_problem() -> None:
    _, problems = read(CREATED + "- {as: rob, delegate: {to: eve, from: 2d, until: 1d}}")
    assert [problem.code for problem in problems] == ["BAD_DATES"]


REFUSALS = {
    "- {as: rob, submit: {}}": "it was refused: POLICY_DENIED",
    "- {as: ann, submit: {}, refused: WORKFLOW_EDIT_LOCKED}": (
        "expected to be refused with WORKFLOW_EDIT_LOCKED, but it was done"
    ),
    "- {as: rob, submit: {}, refused: WORKFLOW_EDIT_LOCKED}": (
        "expected to be refused with WORKFLOW_EDIT_LOCKED, but it was refused: POLICY_DENIED"
    ),
    "- {as: ann, sumbit: {}}": "`note` has no action `sumbit`",
}


@pytest.mark.parametrize("step", REFUSALS)
async def test_a_refusal_is_what_was_written_or_the_scenario_fails(step: str, postgres_url: str) -> None:
    outcome = await run(CREATED + step, postgres_url)
    assert outcome.failure is not None
    assert REFUSALS[step] in outcome.failure.message


async def test_report_says_which_step_who_is_asked_since_when_and_what_happened(postgres_url: str) -> None:
    steps = f"{SUBMITTED}- {{as: rob, abstain: reader}}\n- {{wait: 2h}}\n- expect:\n    state: signed\n"
    outcome = await run(steps, postgres_url)
    assert outcome.text().splitlines() == [
        "a note (note.scenario.yaml:1)",
        "  step 5, line 8:",
        "      expect:",
        "        state: signed",
        "    it is not as expected",
        "    state  expected: signed",
        "           found:    submitted",
        "    Where note stands: state submitted, version 2, edits amend_only; workflow running",
        "    What waits:",
        "      reader  approval asks eve; since Mon 2026-03-02 09:00; due Tue 2026-03-03 09:00",
        "    What happened last:",
        "      Mon 2026-03-02 09:00  ann       start (control) completed",
        "      Mon 2026-03-02 09:00  ann       draft (state) completed",
        "      Mon 2026-03-02 09:00  ann       submit (lifecycle_gate) completed",
        "      Mon 2026-03-02 09:00  ann       submitted (state) completed",
        "      Mon 2026-03-02 09:00  ann       reader (approval) waits",
    ]


async def test_report_tells_an_incident(postgres_url: str) -> None:
    outcome = await run(
        f"{SUBMITTED}- {{expect: {{state: signed}}}}", postgres_url, "people: {ann: [writer]}\n"
    )
    assert "It stopped: NO_APPROVERS" in outcome.text()


async def test_steps_about_nothing_are_told(postgres_url: str) -> None:
    outcome = await run("- {expect: {state: draft}}", postgres_url)
    assert "there is no document yet" in outcome.text()


async def test_what_breaks_is_told_with_the_step(postgres_url: str) -> None:
    (contract, *_) = read_sources(NOTE, "note.yaml")
    assert isinstance(contract.data, dict)
    app = App([contract.data])

    @app.action("note.burn")
    def burn(note: Any, payload: Any) -> dict[str, Any]:
        raise RuntimeError("too wet")

    outcome = await run(f"{CREATED}- {{as: ann, burn: {{}}}}", postgres_url, app=app)
    assert outcome.failure is not None
    assert outcome.failure.message == "it broke with RuntimeError: too wet"
    assert (outcome.steps_done, outcome.failure.step.number) == (1, 2)


async def test_problems_of_definitions_keep_a_scenario_from_running(postgres_url: str) -> None:
    scenario, _ = read(CREATED)
    assert scenario is not None
    outcome = await run_scenario(scenario, read_sources("contract: note\n", "bad.yaml"), server=postgres_url)
    assert not outcome.passed
    assert {problem.source for problem in outcome.problems} == {"bad.yaml"}
