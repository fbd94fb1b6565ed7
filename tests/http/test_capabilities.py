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

REASONS = {
    "probe": "for balancers and collectors of metrics",
    "outsider": "for an outside party with a signed address, who has no account",
    "stream": "a stream for browsers; elsewhere read again",
    "wait": "a value of Python; elsewhere the stream of the task, or the task read again",
    "files": "works on files, without a server",
    "process": "for the operator of the processes or of the database",
    "batch": "many at once, for programs in Python; over HTTP one by one",
    "values": "the row above as values of Python",
    "user": "for the file of a user of the command line",
    "browser": "for browsers, which sign in by a cookie",
}
"""Reasons for an empty cell."""


class CapabilityRow(NamedTuple):
    """One thing that can be done; a cell that begins with `-` is empty, for the reason of this name."""

    noun: str
    verb: str
    http: str
    cli: str
    python: str


def row(line: str) -> CapabilityRow:
    return CapabilityRow(*(cell.strip() for cell in line.split("|")))


ROWS = [
    row(line)
    for line in """
instances | start | start_flow | instances start | instances.start
instances | start many | -batch | -batch | instances.start_many
instances | list | list_instances_of_org | instances list | instances.list
instances | count | count_instances_of_org | instances count | instances.count
instances | show | show_instance | instances show | instances.get
instances | list steps | list_instance_steps | instances steps | instances.history
instances | show a step | show_instance_step | instances step | instances.step
instances | show its path | show_instance_path | instances path | instances.path
instances | list approval requests | list_instance_approvals | instances show | instances.approvals
instances | advance | advance_instance | instances advance | instances.advance
instances | cancel | cancel_instance | instances cancel | instances.cancel
instances | cancel a token | cancel_token | instances cancel-token | instances.cancel_token
instances | pause | pause_instance | instances pause | instances.pause
instances | resume | resume_instance | instances resume | instances.resume
instances | retry | retry_instance | instances retry | instances.retry
instances | skip | skip_step | instances skip | instances.skip
instances | force fail | force_fail_instance | instances force-fail | instances.force_fail
instances | edit variables | edit_variables | instances edit | instances.edit_variables
instances | rebuild | rebuild_instance | rebuild | operations.rebuild
instances | compare with its steps | compare_instance | rebuild | operations.compare
instances | fold its steps | -values | -values | operations.fold
instances | enqueue again | reenqueue_instance | instances reenqueue | operations.reenqueue
instances | list stuck ones | list_stuck | instances stuck | operations.stuck
instances | follow | stream_instance | -stream | -stream
entities | create | create_entity | entities create | entities.mutate
entities | list | list_entities_of_type | entities list | entities.list
entities | count | count_entities_of_type | entities count | entities.count
entities | read the contract | show_entity_contract | entities contract | entities.contract
entities | list indexes | list_entity_indexes | entities indexes | entities.indexes
entities | show | show_entity | entities show | entities.get
entities | change | change_entity | entities change | entities.mutate
entities | act | act_on_entity | entities act | entities.mutate
entities | mutate many | -batch | -batch | entities.mutate_many
entities | transition | move_entity | entities transition | entities.transition
entities | list versions | list_entity_versions | entities versions | entities.versions
entities | compare versions | compare_entity_versions | entities diff | entities.compare
entities | list changes | list_entity_audit | entities audit | entities.audit
entities | list approvals | list_entity_approvals | instances show | entities.decisions
attachments | list | list_entity_attachments | attachments list | attachments.list
attachments | attach a file | attach_file_to_entity | attachments add | attachments.add
attachments | download a file | download_entity_attachment | attachments download | attachments.open
attachments | save a file | download_entity_attachment | attachments download | attachments.download
attachments | remove | remove_entity_attachment | attachments remove | attachments.remove
attachments | erase | erase_entity_attachment | attachments erase | attachments.erase
comments | list | list_entity_comments | comments list | comments.list
comments | add | add_entity_comment | comments add | comments.add
filters | list | list_filters_of_caller | filters list | filters.list
filters | show | show_filter | filters show | filters.get
filters | save | save_filter_of_caller | filters save | filters.save
filters | delete | delete_filter_of_caller | filters delete | filters.delete
approvals | read the inbox | show_inbox | inbox | approvals.inbox
approvals | count the inbox | count_inbox_of_caller | inbox | approvals.count_inbox
approvals | follow the inbox | stream_inbox | -stream | -stream
approvals | show | show_approval | approvals show | approvals.get
approvals | decide | decide_approval | approvals decide | approvals.decide
approvals | claim | claim_approval | approvals claim | approvals.claim
approvals | release | release_approval | approvals release | approvals.release
approvals | reassign | reassign_approval | approvals reassign | approvals.reassign
questions | list | list_approval_questions | questions list | questions.list
questions | show | show_approval_question | questions show | questions.get
questions | ask | ask_question | questions ask | questions.ask
questions | answer | answer_question | questions answer | questions.answer
forms | show | show_form | forms show | forms.get
forms | fill in | advance_instance | instances advance | instances.advance
forms | claim | claim_form | forms claim | forms.claim
forms | release | release_form | forms release | forms.release
forms | save a draft | keep_form_draft | forms save-draft | forms.save_draft
forms | reassign | reassign_form | forms reassign | forms.reassign
delegations | list | list_delegations_of_org | delegations list | delegations.list
delegations | create | create_delegation | delegations create | delegations.create
delegations | revoke | revoke_delegation | delegations revoke | delegations.revoke
chains | list | list_approval_chains | chains list | chains.list
chains | show | show_approval_chain | chains show | chains.get
chains | save | keep_approval_chain | chains save | chains.save
events | emit | emit_event | events emit | events.emit
events | list open ones | list_open_items | events list | events.list_open
event sources | list | list_sources | event-sources list | event_sources.list
event sources | create | create_source | event-sources create | event_sources.create
event sources | rotate the secret | rotate_source | event-sources rotate | event_sources.rotate
event sources | retire a secret | retire_source_secret | event-sources retire | event_sources.retire
event sources | delete | delete_source | event-sources delete | event_sources.delete
outside requests | list | list_requests | outside-requests list | requests.list
outside requests | show | show_request | outside-requests show | requests.get
outside requests | push a result | push_result | outside-requests push | requests.push_result
outside requests | push a bundle | push_result | outside-requests push | requests.push_bundle
outside requests | push by callback | push_result_by_callback | -outsider | -outsider
outside requests | report a task | complete_task | outside-requests push | requests.push_bundle
outside requests | list open ones of an instance | list_pending_tasks | outside-requests list | requests.list
outside requests | make an upload link | create_upload_link | outside-requests upload-link | requests.upload_link
outside requests | revoke links | revoke_upload_links | outside-requests revoke-links | requests.revoke_upload_links
outside requests | see what is asked by a link | show_asked_uploads | -outsider | -outsider
outside requests | hand in by a link | hand_in_document | -outsider | -outsider
documents | create | create_document | documents create | documents.create
documents | list | list_documents | documents list | documents.list
documents | show | show_document | documents show | documents.get
documents | add a version | add_document_version | documents add-version | documents.add_version
documents | upload a file | upload_document_version | documents upload | documents.add_version
documents | download a file | download_document_version | documents download | documents.open
documents | save a file | download_document_version | documents download | documents.download
documents | make a link to a file | link_document_version | documents link | documents.link
documents | download by a link | download_by_link | -outsider | -outsider
documents | verify a version | verify_version | documents verify | documents.verify
documents | reject a version | reject_version | documents reject | documents.reject
documents | erase a version | erase_document_version | documents erase | documents.erase
requirements | create | create_requirement | requirements create | requirements.create
requirements | list | list_requirements | requirements list | requirements.list
requirements | count | count_requirements_of_org | requirements count | requirements.count
requirements | ask an outside party | solicit_documents | requirements solicit | requirements.solicit
requirements | show | show_requirement | requirements show | requirements.get
requirements | waive | waive_requirement | requirements waive | requirements.waive
requirements | reset | reset_requirement | requirements reset | requirements.reset
requirements | list rejection codes | list_rejection_codes_of_org | requirements codes | requirements.list_codes
requirements | save a rejection code | save_rejection_code | requirements save-code | requirements.save_code
verbs | list | list_verbs | verbs list | verbs.list
verbs | run | run_verb | verbs run | verbs.run
definitions | list | list_definitions | definitions list | definitions.list
definitions | list all versions of a key | list_definitions | definitions list | definitions.list_versions
definitions | check | check_definitions | check | definitions.check
definitions | publish | publish_definitions | definitions publish | definitions.publish
definitions | recompile | -process | definitions recompile | -process
definitions | show | show_definition | definitions show | definitions.get
definitions | draw | draw_definition | definitions draw | definitions.draw
definitions | draw a file | -files | diagram | -files
definitions | compare | compare_definitions | definitions compare | definitions.workflows
definitions | compare files | -files | diff | -files
definitions | archive | archive_definition | definitions archive | definitions.archive
definitions | roll back | roll_definition_back | definitions rollback | definitions.roll_back
definitions | compile a file | -files | compile | -files
definitions | test scenarios | -files | test | -files
definitions | evaluate an expression | -files | expression | -files
definitions | print a schema | -files | schema | -files
drafts | create | create_draft_of_org | drafts create | drafts.create
drafts | show | show_draft | drafts show | drafts.get
drafts | change | change_draft_of_org | drafts change | drafts.change
drafts | discard | discard_draft_of_org | drafts discard | drafts.discard
drafts | publish | publish_draft_of_org | drafts publish | drafts.publish
templates | list | list_templates | templates list | -files
templates | show | show_template | templates show | -files
templates | copy | show_template | templates copy | -files
org | create | -process | org create | create_org
org | show with settings | show_org | org show | settings.read
org | replace settings | save_settings_of_org | org set | settings.save
org | change settings | change_settings_of_org | org set | settings.change
org | remove settings | change_settings_of_org | org unset | settings.change
org | list partitions | list_partitions_of_org | org partitions | partitions.list
org | post a test alert | post_test_alert | org test-alert | settings.test_alert
mail templates | list | list_mail_templates_of_org | mail-templates list | mail_templates.list
mail templates | show | show_mail_template | mail-templates show | mail_templates.get
mail templates | save | save_mail_template_of_org | mail-templates save | mail_templates.save
mail templates | delete | delete_mail_template_of_org | mail-templates delete | mail_templates.delete
mail templates | preview | preview_mail_of_org | mail-templates preview | mail_templates.preview
preferences | show one's own | show_preferences | preferences show | preferences.get
preferences | change one's own | change_preferences_of_caller | preferences set | preferences.change
rules | list | list_rules_of_org | rules list | rules.list
rules | show | show_rule | rules show | rules.get
rules | save | save_rule_of_org | rules save | rules.save
rules | delete | delete_rule_of_org | rules delete | rules.delete
rules | list evaluations | list_evaluations_of_rule | rules evaluations | rules.list_evaluations
members | list | list_members_of_org | members list | members.list
members | show | show_member | members show | members.get
members | create | create_member_of_org | members add | members.create
members | change | change_member_of_org | members change | members.change
members | deactivate | deactivate_member | members remove | members.deactivate
members | restore | change_member_of_org | members restore | members.restore
roles | list | list_roles_of_org | roles list | roles.list
roles | show | show_role | roles show | roles.get
roles | replace capabilities | set_role | roles save | roles.save
roles | give capabilities | set_role | roles grant | roles.grant
roles | take capabilities | set_role | roles revoke | roles.revoke
keys | list | list_keys | keys list | keys.list
keys | create | create_key | keys create | keys.create
keys | revoke | revoke_key | keys revoke | keys.revoke
secrets | list | list_secrets_of_org | secrets list | secrets.list
secrets | save | put_secret_of_org | secrets set | secrets.set
secrets | delete | delete_secret_of_org | secrets delete | secrets.delete
services | list | list_services | services list | services.list
signing secrets | list | list_signing_secrets_of_org | signing-secrets list | signing_secrets.list
signing secrets | rotate | rotate_signing_secret | signing-secrets rotate | signing_secrets.rotate
signing secrets | retire | retire_signing_secrets | signing-secrets retire | signing_secrets.retire
tasks | submit | submit_task | tasks submit | tasks.submit
tasks | submit a batch | submit_task_batch | tasks submit-batch | tasks.submit_batch
tasks | submit many | -batch | -batch | tasks.submit_many
tasks | list | list_tasks_of_org | tasks list | tasks.list
tasks | show | show_task | tasks show | tasks.get
tasks | read the log | show_task_log | tasks log | tasks.log
tasks | read the tree | show_task_tree | tasks tree | tasks.tree
tasks | stream progress and log | stream_task | -stream | -stream
tasks | await the result | -wait | -wait | tasks.handle
tasks | list resources | list_task_resources | resources list | resources.list
tasks | show a resource | show_task_resource | resources show | resources.get
tasks | cancel | cancel_task | tasks cancel | tasks.cancel
tasks | complete | complete_background_task | tasks complete | tasks.complete
tasks | fail | fail_background_task | tasks fail | tasks.fail
tasks | retry | retry_task | tasks retry | tasks.retry
tasks | retry all | -batch | dead-letters retry-all | tasks.retry_all
schedules | list | list_schedules_of_org | schedules list | schedules.list
schedules | show | show_schedule | schedules show | schedules.get
schedules | list next times | list_next_times | schedules next | schedules.next
schedules | save | save_schedule_of_org | schedules save | schedules.save
schedules | pause | pause_schedule_of_org | schedules pause | schedules.pause
schedules | resume | resume_schedule_of_org | schedules resume | schedules.resume
schedules | run at once | run_schedule | schedules run | schedules.run
schedules | delete | delete_schedule_of_org | schedules delete | schedules.delete
dead letters | list | list_dead_letters | dead-letters list | dead_letters.list
dead letters | retry | retry_dead_letter | dead-letters retry | dead_letters.retry
dead letters | discard | discard_dead_letter | dead-letters discard | dead_letters.discard
dead letters | retry all | -batch | dead-letters retry-all | dead_letters.retry_all
incidents | list groups | list_incident_groups | incidents | operations.incidents
incidents | list | list_incidents | incidents | operations.list_incidents
audit | search | search_audit_log | audit | audit.search
health | show | show_health | health | operations.health
health | probe | healthz | -probe | -probe
health | readiness | readyz | doctor | -probe
fleet | list processes | list_nodes_of_fleet | nodes | operations.nodes
health | metrics | show_metrics | -probe | -probe
sessions | list the ways to sign in | show_sign_in | -browser | -browser
sessions | begin | create_session | -browser | -browser
sessions | show the caller | show_session | -browser | -browser
sessions | renew | renew_session_of_caller | -browser | -browser
sessions | end | end_session | -browser | -browser
profiles | add | -user | profiles add | -user
profiles | list | -user | profiles list | -user
profiles | remove | -user | profiles remove | -user
profiles | use | -user | profiles use | -user
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
    letters = {reason: f"({chr(97 + number)})" for number, reason in enumerate(REASONS)}
    lines += [f"- {letters[reason]} {text}" for reason, text in REASONS.items()]
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
def test_an_empty_cell_has_a_reason(each: CapabilityRow) -> None:
    empty = [cell[1:] for cell in (each.http, each.cli, each.python) if cell.startswith("-")]
    assert all(reason in REASONS for reason in empty)
    assert len(empty) < 3


def test_nothing_is_in_the_table_twice() -> None:
    counted = Counter((each.noun, each.verb) for each in ROWS)
    assert [named for named, number in counted.items() if number > 1] == []
    used = {cell[1:] for each in ROWS for cell in each[2:] if cell.startswith("-")}
    assert used == REASONS.keys()


def test_the_page_is_made_from_the_table() -> None:
    assert_golden(PAGE, table())
