"""The table of capabilities: what can be done over HTTP, on the command line and in Python, under which name.

`docs/capabilities.md` is made from the table here. A route, a command or a method of the runtime that is missing from
the table turns a test red, and so does an empty cell without a reason.
"""

import inspect
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from assent.cli.main import app as cli
from assent.runtime.core import OrgScope
from assent.runtime.runtime import OrgRuntime, Runtime
from tests.golden import assert_golden
from tests.http.route_table import OPERATIONS
from tests.http.test_same_bodies import commands

PAGE = Path(__file__).parents[2] / "docs" / "capabilities.md"

NOT_YET = {
    "later": "not there yet; use another of the three",
    "probe": "for balancers and collectors of metrics",
    "outsider": "for an outside party with a signed address, who has no account",
    "stream": "a stream for browsers; elsewhere read again",
    "files": "works on files, without a server",
    "process": "for the operator of the processes or of the database",
    "batch": "many at once, for programs",
    "part": "part of the row above",
    "function": "a function of `assent.people` or `assent.runtime.event_sources` with a connection; no command yet",
}
"""Reasons for an empty cell."""


class Row(NamedTuple):
    """One thing that can be done; a cell that begins with `-` is empty, for the reason of this name."""

    noun: str
    verb: str
    http: str
    cli: str
    python: str


def row(line: str) -> Row:
    return Row(*(cell.strip() for cell in line.split("|")))


ROWS = [
    row(line)
    for line in """
instances | start | start_flow | instances start | instances.start
instances | start many | -batch | -batch | instances.start_many
instances | list | list_instances_of_org | instances list | instances.list
instances | show | show_instance | instances show | instances.get
instances | list steps | list_instance_steps | -part | instances.history
instances | advance | advance_instance | instances advance | instances.advance
instances | cancel | cancel_instance | instances cancel | instances.cancel
instances | cancel a token | cancel_token | instances cancel-token | instances.cancel_token
instances | edit variables | edit_variables | instances edit | instances.edit_variables
instances | pause | pause_instance | instances pause | instances.pause
instances | resume | resume_instance | instances resume | instances.resume
instances | retry | retry_instance | instances retry | instances.retry
instances | skip | skip_step | instances skip | instances.skip
instances | force fail | force_fail_instance | instances force-fail | instances.force_fail
instances | rebuild | rebuild_instance | rebuild | operations.rebuild
instances | compare with its steps | -later | -part | operations.fold
instances | enqueue again | reenqueue_instance | -later | operations.reenqueue
instances | list stuck ones | list_stuck | health | -later
instances | follow | stream_instance | -stream | -stream
entities | create | create_entity | -later | entities.mutate
entities | list | list_entities_of_type | -later | entities.list
entities | show | show_entity | instances show | entities.get
entities | change | change_entity | -later | entities.mutate
entities | act | act_on_entity | -later | entities.mutate
entities | mutate many | -batch | -batch | entities.mutate_many
entities | transition | move_entity | instances advance | entities.transition
entities | list versions | list_entity_versions | -later | entities.versions
entities | compare versions | compare_entity_versions | -later | entities.compare
entities | list changes | list_entity_audit | audit | entities.audit
entities | list approvals | list_entity_approvals | instances show | entities.decisions
approvals | read the inbox | show_inbox | inbox | approvals.inbox
approvals | count the inbox | count_inbox_of_caller | inbox | approvals.count_inbox
approvals | follow the inbox | stream_inbox | -stream | -stream
approvals | show | show_approval | approvals show | approvals.get
approvals | decide | decide_approval | approvals decide | approvals.decide
approvals | claim | claim_approval | approvals claim | approvals.claim
approvals | release | release_approval | approvals release | approvals.release
approvals | reassign | reassign_approval | approvals reassign | approvals.reassign
forms | show | show_form | instances show | forms.get
forms | fill in | advance_instance | instances advance | instances.advance
forms | claim | claim_form | -later | forms.claim
forms | release | release_form | -later | forms.release
forms | save a draft | keep_form_draft | -later | forms.save_draft
forms | reassign | reassign_form | -later | forms.reassign
delegations | list | list_delegations_of_org | -later | -function
delegations | create | create_delegation | -later | -function
delegations | revoke | revoke_delegation | -later | -function
chains | list | list_approval_chains | chains list | chains.list
chains | show | show_approval_chain | chains show | chains.get
chains | save | keep_approval_chain | chains save | chains.save
events | emit | emit_event | events emit | events.emit
events | list open ones | -later | events list | -later
event sources | list | list_sources | -later | -function
event sources | create | create_source | -later | -function
event sources | rotate the secret | rotate_source | -later | -function
event sources | retire a secret | retire_source_secret | -later | -function
event sources | delete | delete_source | -later | -function
outside requests | list | list_requests | -later | -later
outside requests | show | show_request | -later | -later
outside requests | push a result | push_result | -later | requests.push_result
outside requests | push a bundle | push_result | -later | requests.push_bundle
outside requests | push by callback | push_result_by_callback | -outsider | -outsider
definitions | list | list_definitions | definitions list | definitions.list_versions
definitions | check | check_definitions | check | definitions.publish
definitions | publish | publish_definitions | definitions publish | definitions.publish
definitions | recompile | -process | definitions recompile | -process
definitions | show | show_definition | -later | definitions.list_versions
definitions | draw | draw_definition | diagram | -files
definitions | compare | compare_definitions | diff | -files
definitions | archive | archive_definition | -later | definitions.archive
definitions | roll back | roll_definition_back | -later | definitions.roll_back
definitions | compile a file | -files | compile | -files
definitions | test scenarios | -files | test | -files
definitions | evaluate an expression | -files | expression | -files
definitions | print a schema | -files | schema | -files
drafts | create | create_draft_of_org | -later | -later
drafts | show | show_draft | -later | -later
drafts | change | change_draft_of_org | -later | -later
drafts | discard | discard_draft_of_org | -later | -later
drafts | publish | publish_draft_of_org | -later | -later
templates | list | list_templates | templates list | -files
templates | show | show_template | templates show | -files
templates | copy | show_template | templates copy | -files
org | create | -process | org create | create_org
org | show with settings | show_org | org show | settings.read
org | replace settings | save_settings_of_org | org set | settings.save
org | change settings | change_settings_of_org | org set | settings.change
org | remove settings | change_settings_of_org | org unset | settings.change
rules | list | list_rules_of_org | rules list | rules.list
rules | show | show_rule | rules show | rules.get
rules | save | save_rule_of_org | rules save | rules.save
rules | delete | delete_rule_of_org | rules delete | rules.delete
rules | list evaluations | list_evaluations_of_rule | rules evaluations | rules.list_evaluations
members | list | list_members_of_org | members list | -function
members | show | show_member | members list | -function
members | create | create_member_of_org | members add | -function
members | change | change_member_of_org | members change | -function
members | deactivate | deactivate_member | members remove | -function
members | restore | change_member_of_org | members restore | -function
roles | list | list_roles_of_org | roles list | -function
roles | show | show_role | roles list | -function
roles | give capabilities | set_role | roles grant | -function
roles | take capabilities | set_role | roles revoke | -function
keys | list | list_keys | keys list | -function
keys | create | create_key | keys create | -function
keys | revoke | revoke_key | keys revoke | -function
secrets | list | list_secrets_of_org | secrets list | secrets.list
secrets | save | put_secret_of_org | secrets set | secrets.set
secrets | delete | delete_secret_of_org | secrets delete | secrets.delete
signing secrets | list | list_signing_secrets_of_org | signing-secrets list | signing_secrets.list
signing secrets | rotate | rotate_signing_secret | signing-secrets rotate | signing_secrets.rotate
signing secrets | retire | retire_signing_secrets | signing-secrets retire | signing_secrets.retire
tasks | submit | submit_task | -later | tasks.submit
tasks | submit many | -batch | -batch | tasks.submit_many
tasks | list | list_tasks_of_org | -later | tasks.list
tasks | show | show_task | -later | tasks.get
tasks | cancel | cancel_task | -later | tasks.cancel
tasks | retry | retry_task | dead-letters retry | tasks.retry
tasks | retry all | -batch | dead-letters retry-all | tasks.retry_all
dead letters | list | list_dead_letters | dead-letters list | dead_letters.list
dead letters | retry | retry_dead_letter | dead-letters retry | dead_letters.retry
dead letters | discard | discard_dead_letter | dead-letters discard | dead_letters.discard
dead letters | retry all | -batch | dead-letters retry-all | dead_letters.retry_all
incidents | list groups | list_incident_groups | incidents | operations.incidents
incidents | list | list_incidents | incidents | operations.list_incidents
audit | search | search_audit_log | audit | -later
health | show | show_health | health | -later
health | probe | healthz | -probe | -probe
health | readiness | readyz | doctor | -probe
health | metrics | show_metrics | -probe | -probe
processes | serve | -process | serve | -process
processes | work | -process | worker | -process
processes | migrate | -process | migrate | -process
processes | demo | -process | demo | -process
""".strip().splitlines()
]


def table() -> str:
    paths = {operation.id: str(operation) for operation in OPERATIONS}
    lines = [
        "# What can be done, and where",
        "",
        "Everything that can be done over HTTP, on the command line (`assent …`) and in Python",
        "(`runtime.org(org, actor).…`; `create_org` is of the runtime itself). A test makes this page, and fails if",
        "a route, a command or a method is missing. An empty cell has a letter for its reason:",
        "",
    ]
    letters = {reason: f"({chr(97 + number)})" for number, reason in enumerate(NOT_YET)}
    lines += [f"- {letters[reason]} {text}" for reason, text in NOT_YET.items()]
    for noun in dict.fromkeys(each.noun for each in ROWS):
        lines += [
            "",
            f"## {noun.capitalize()}",
            "",
            "| | HTTP | command line | Python |",
            "|---|---|---|---|",
        ]
        for each in ROWS:
            if each.noun == noun:
                cells = (paths.get(each.http, each.http), each.cli, each.python)
                shown = [letters[cell[1:]] if cell.startswith("-") else f"`{cell}`" for cell in cells]
                lines.append(f"| {each.verb} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def methods() -> set[str]:
    """Every public method of the nouns of a runtime, and what the runtime itself creates."""
    bound = OrgRuntime(OrgScope(None, "acme"))  # type: ignore[arg-type]
    nouns = {name: getattr(bound, name) for name in OrgRuntime.__slots__ if name != "scope"}
    found = {
        f"{noun}.{name}"
        for noun, commands_ in nouns.items()
        for name, _ in inspect.getmembers(type(commands_), inspect.isfunction)
        if not name.startswith("_")
    }
    return found | {name for name in vars(Runtime) if name.startswith("create_")}


def test_every_route_is_in_the_table() -> None:
    named = {each.http for each in ROWS if not each.http.startswith("-")}
    assert named == {operation.id for operation in OPERATIONS}


def test_every_command_is_in_the_table() -> None:
    named = {each.cli for each in ROWS if not each.cli.startswith("-")}
    assert named == {words for words, _ in commands(typer.main.get_command(cli))}


def test_every_method_is_in_the_table() -> None:
    named = {each.python for each in ROWS if not each.python.startswith("-")}
    assert named == methods()


@pytest.mark.parametrize("each", ROWS, ids=lambda each: f"{each.noun} {each.verb}")
def test_an_empty_cell_has_a_reason(each: Row) -> None:
    empty = [cell[1:] for cell in (each.http, each.cli, each.python) if cell.startswith("-")]
    assert all(reason in NOT_YET for reason in empty)
    assert len(empty) < 3


def test_nothing_is_in_the_table_twice() -> None:
    counted = Counter((each.noun, each.verb) for each in ROWS)
    assert [named for named, number in counted.items() if number > 1] == []
    used = {cell[1:] for each in ROWS for cell in each[2:] if cell.startswith("-")}
    assert used == NOT_YET.keys()


def test_the_page_is_made_from_the_table() -> None:
    assert_golden(PAGE, table())
