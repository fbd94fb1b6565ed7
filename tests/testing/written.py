"""Scenarios as tests write them: a small company with a note that somebody must sign, and a flow."""

from pathlib import Path
from textwrap import dedent, indent

from assent.app import App
from assent.compiler.source import read_source, read_sources
from assent.model.problems import Problem
from assent.testing.scenarios.scenario import Scenario, read_scenario
from assent.testing.scenarios.suite import ScenarioResult, run_scenario

NOTE = """\
contract: note
version: 1
fields:
  text:     {type: text, required: true}
  pages:    {type: integer}
  filed_at: {type: datetime, system: true}
lifecycle:
  initial: draft
  states:
    draft:     {edit: editable}
    submitted: {edit: amend_only}
    signed:    {edit: locked}
    amended:   {edit: editable}
  transitions:
    submit: {from: [draft, amended], to: submitted}
    sign:   {from: submitted, to: signed, approval: required, on_reject: draft}
permissions: {create: [writer], update: [writer], submit: [writer]}
---
patch: note
base: {entity_type: note, envelope_version: 1}
slots:
  slot:submitted_to_approved:
    nodes:
      - {id: reader, type: approval, approvers: {role: reader}, due: 24h, outcomes: [shorten]}
      - {id: editor, type: approval, approvers: {role: writer}}
    edges:
      - {from: in, to: reader}
      - {from: reader, to: editor, on: shorten}
      - {from: editor, to: out, on: approved}
      - {from: reader, to: out, on: approved}
---
flow: desk.job
version: 1
start: ask
steps:
  - {id: ask, type: wait, key: "desk:{workflow.number}", timeout: 2d, on_timeout: call}
  - id: call
    type: webhook_out
    url: "https://desk.example/{workflow.number}"
    await: true
    output: {answer: result.word}
  - {id: tell, type: notification, channel: email, to: boss@acme.example, subject: Late, text: "Job {workflow.number}"}
  - {id: done, type: terminal}
  - {id: broken, type: terminal}
transitions:
  - {from: ask, event: completed, to: done}
  - {from: call, event: completed, to: tell}
  - {from: call, event: error, to: broken}
  - {from: tell, event: completed, to: done}
---
flow: desk.vendor
version: 1
start: vendor
steps:
  - id: vendor
    type: webhook_out
    url: https://vendor.example
    await: result
    expects: 2
    timeout: 3d
    output: {papers: result.received}
  - {id: note, type: script, set: {code: workflow._last_error.code, why: workflow._last_error.message}}
  - {id: done, type: terminal}
transitions:
  - {from: vendor, event: completed, to: done}
  - {from: vendor, event: error, to: note}
  - {from: note, event: completed, to: done}
---
flow: desk.form
version: 1
start: fill
steps:
  - {id: fill, type: action, assignee: {role: reader}, form: {pages: {type: integer, required: true}}}
  - {id: done, type: terminal}
  - {id: dropped, type: terminal}
transitions:
  - {from: fill, event: completed, to: done}
  - {from: fill, event: drop, to: dropped}
"""

COMPANY = "people: {ann: [writer], rob: [reader], eve: [reader], wim: [writer], oli: [operator]}\n"
RIGHTS = 'roles: {operator: ["workflows:*"], writer: ["note:shout", "note:burn"]}\n'
CREATED = "- {as: ann, create: note, data: {text: hello}}\n"
SUBMITTED = CREATED + "- {as: ann, submit: {}}\n"


def scenario_text(steps: str, head: str = COMPANY) -> str:
    return f"scenario: a note\n{head}steps:\n{indent(dedent(steps).strip(), '  ')}\n{RIGHTS}"


def read(steps: str, head: str = COMPANY) -> tuple[Scenario | None, list[Problem]]:
    return read_scenario(read_source(scenario_text(steps, head), "note.scenario.yaml"))


async def run(steps: str, server: str, head: str = COMPANY, app: App | None = None) -> ScenarioResult:
    """What becomes of a scenario of these steps."""
    scenario, problems = read(steps, head)
    assert scenario is not None, problems
    return await run_scenario(scenario, read_sources(NOTE, "note.yaml"), app, server=server)


def write(folder: Path, steps: str, name: str = "note.scenario.yaml", head: str = COMPANY) -> Path:
    """The definitions and a scenario, in a folder."""
    (folder / "note.yaml").write_text(NOTE, encoding="utf-8")
    file = folder / name
    file.write_text(scenario_text(steps, head), encoding="utf-8")
    return file
