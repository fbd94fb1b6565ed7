"""Every CHECK, foreign key and unique constraint is broken here at least once, by a row that breaks it alone.

The last tests walk the catalogue: a constraint without a case turns them red.
"""

# ruff: noqa: S608 - the names of tables come from the catalogue

from functools import partial
from secrets import token_hex
from uuid import UUID

import pytest

from tests.blank_rows import TABLES, definition_of_kind
from tests.plain_sql import CHECK, FOREIGN_KEY, UNIQUE, check_deferred, refused
from tests.postgres import START
from tests.rows import (
    insert,
    insert_api_key,
    insert_chain_step,
    insert_decision,
    insert_definition,
    insert_delivery,
    insert_effect,
    insert_entity,
    insert_event,
    insert_history,
    insert_instance,
    insert_item,
    insert_member,
    insert_one_of_each,
    insert_outside_request,
    insert_request,
    insert_step,
)

NOBODY = UUID(int=7)

PARTITIONED = ("workflow_step_executions", "workflow_events_outbox")

insert_org = partial(insert, table="orgs")
insert_capability = partial(insert, table="role_capabilities")
insert_outbox_receipt = partial(insert, table="workflow_outbox_receipts")
insert_secret = partial(insert, table="effect_secrets")
insert_named_secret = partial(insert, table="named_secrets")
insert_rule = partial(insert, table="workflow_rules")
insert_evaluation = partial(insert, table="workflow_rule_evaluations")
insert_chain = partial(insert, table="approval_chains")
insert_seat = partial(insert, table="workflow_seats")
insert_form = partial(insert, table="workflow_forms")
insert_delegation = partial(insert, table="approval_delegations")
insert_reply = partial(insert, table="http_replies")
insert_source = partial(insert, table="event_sources")
insert_plain_job = partial(insert, table="jobs")
insert_submission = partial(insert, table="task_submissions")
insert_attempt = partial(insert, table="job_attempts")
insert_task_key = partial(insert, table="task_keys")
insert_start_key = partial(insert, table="workflow_start_keys")
insert_kept_event = partial(insert, table="workflow_kept_events")


async def insert_audit(connection, **given):
    """An entry about a command to an instance, by plain SQL."""
    entry = {"org_id": "acme", "id": NOBODY, "at": START, "actor_id": "ann", "actor_kind": "user"}
    entry |= {"action": "workflow.start", "changes": {}, "channel": "http", "actor_roles": []}
    entry |= {"subject_kind": "instance", "subject_id": "i-1"} | given
    marks = ", ".join(f"${number}" for number in range(1, len(entry) + 1))
    sql = f"INSERT INTO assent.audit_log ({', '.join(entry)}) VALUES ({marks})"
    await connection.execute(sql, *entry.values())


A_VERSION = {"entity_type": "invoice", "entity_id": NOBODY, "to_version": 1, "to_state": "draft"}
NO_SUBJECT = {"subject_kind": None, "subject_id": None}

CHECKS = [
    ("job_lane_is_a_short_name", insert_plain_job, {"lane": ""}),
    ("job_lane_is_a_short_name", insert_plain_job, {"lane": "t" * 201}),
    ("job_kind_is_known", insert_plain_job, {"kind": "timer"}),
    ("job_status_is_known", insert_plain_job, {"status": "complete"}),
    ("job_priority_is_a_byte", insert_plain_job, {"priority": -1}),
    ("job_priority_is_a_byte", insert_plain_job, {"priority": 256}),
    ("job_attempts_are_counted", insert_plain_job, {"attempts": -1}),
    ("job_attempts_are_counted", insert_plain_job, {"attempts": 3, "attempts_max": 2}),
    ("job_attempts_are_counted", insert_plain_job, {"attempts_max": 0}),
    ("running_job_has_a_worker", insert_plain_job, {"status": "running"}),
    ("running_job_has_a_worker", insert_plain_job, {"worker_id": NOBODY}),
    ("job_ends_when_its_status_says_so", insert_plain_job, {"status": "done"}),
    ("job_ends_when_its_status_says_so", insert_plain_job, {"status": "dead"}),
    ("job_ends_when_its_status_says_so", insert_plain_job, {"ended_at": START}),
    ("only_a_dead_job_is_resolved", insert_plain_job, {"resolved": True}),
    ("task_of_a_step_names_its_instance", insert_submission, {"step_id": NOBODY}),
    ("task_of_a_step_names_its_instance", insert_submission, {"instance_id": NOBODY}),
    ("only_a_step_awaits_a_task", insert_submission, {"awaited": True}),
    ("job_attempt_outcome_is_known", insert_attempt, {"outcome": "fine", "code": "X", "error": "x"}),
    ("job_attempt_that_failed_says_why", insert_attempt, {"outcome": "failed"}),
    ("job_attempt_that_failed_says_why", insert_attempt, {"outcome": "failed", "code": "X"}),
    ("job_attempt_that_failed_says_why", insert_attempt, {"error": "x"}),
    ("task_key_is_not_blank", insert_task_key, {"key": ""}),
    ("task_key_is_not_blank", insert_task_key, {"key": " \u200b"}),
    ("task_key_is_short", insert_task_key, {"key": "k" * 201}),
    ("reply_key_is_short", insert_reply, {"key": ""}),
    ("reply_key_is_short", insert_reply, {"key": "k" * 256}),
    ("request_is_kept_as_sha256", insert_reply, {"request_hash": "what was asked"}),
    ("reply_has_a_status_of_http", insert_reply, {"status": 0}),
    ("reply_has_a_status_of_http", insert_reply, {"status": 600}),
    ("reply_is_kept_for_a_time", insert_reply, {"expires_at": START}),
    ("event_source_name_is_not_blank", insert_source, {"name": ""}),
    ("event_source_name_is_not_blank", insert_source, {"name": "\t"}),
    ("event_source_name_is_short", insert_source, {"name": "n" * 201}),
    ("event_source_prefix_is_not_blank", insert_source, {"key_prefix": ""}),
    ("event_source_prefix_is_not_blank", insert_source, {"key_prefix": "\u00a0"}),
    ("event_source_prefix_is_short", insert_source, {"key_prefix": "p" * 201}),
    ("event_source_secret_is_one_of_standard_webhooks", insert_source, {"secret": "hunter2"}),
    ("former_event_secret_is_one_of_standard_webhooks", insert_source, {"former_secret": "hunter2"}),
    ("member_id_is_not_blank", insert_member, {"user_id": " "}),
    ("role_is_not_blank", insert_capability, {"role": "\u200b"}),
    ("api_key_name_is_not_blank", insert_api_key, {"name": ""}),
    ("start_key_is_not_blank", insert_start_key, {"key": ""}),
    ("start_key_is_not_blank", insert_start_key, {"key": "\u00a0 "}),
    ("kept_event_key_is_not_blank", insert_kept_event, {"event_key": " "}),
    ("org_id_is_a_short_word", insert_org, {"org_id": ""}),
    ("org_id_is_a_short_word", insert_org, {"org_id": "two words"}),
    ("org_id_is_a_short_word", insert_org, {"org_id": "acme\n"}),
    ("org_id_is_a_short_word", insert_org, {"org_id": "a" * 101}),
    ("org_id_is_a_short_word", insert_org, {"org_id": "**"}),
    ("org_settings_are_an_object", insert_org, {"settings": ["trusted"]}),
    ("org_publishes_directly_or_with_four_eyes", insert_org, {"settings": {"publish": "four-eyes"}}),
    ("org_publishes_directly_or_with_four_eyes", insert_org, {"settings": {"publish": None}}),
    ("secret_name_is_plain", insert_named_secret, {"name": ""}),
    ("secret_name_is_plain", insert_named_secret, {"name": "Erp"}),
    ("secret_name_is_plain", insert_named_secret, {"name": "e" * 64}),
    ("secret_value_fits_a_header", insert_named_secret, {"value": "1234567"}),
    ("secret_value_fits_a_header", insert_named_secret, {"value": "two\nlines-of-it"}),
    ("secret_value_fits_a_header", insert_named_secret, {"value": " begins-with-space"}),
    ("secret_value_fits_a_header", insert_named_secret, {"value": "ümlauts-are-no-ascii"}),
    ("secret_value_fits_a_header", insert_named_secret, {"value": "v" * 8_193}),
    ("secret_is_for_some_hosts", insert_named_secret, {"hosts": []}),
    ("secret_is_for_some_hosts", insert_named_secret, {"hosts": ["h.example"] * 21}),
    ("member_kind_is_known", insert_member, {"kind": "robot"}),
    ("member_id_is_not_a_reserved_word", insert_member, {"user_id": "system"}),
    ("member_id_is_not_a_reserved_word", insert_member, {"user_id": ""}),
    ("nobody_manages_themselves", insert_member, {"user_id": "ann", "manager_id": "ann"}),
    ("capability_is_a_path", insert_capability, {"capability": ""}),
    ("capability_is_a_path", insert_capability, {"capability": "invoice:"}),
    ("capability_is_a_path", insert_capability, {"capability": "invoice:*:read"}),
    ("capability_is_a_path", insert_capability, {"capability": "invoice create"}),
    ("api_key_is_kept_as_sha256", insert_api_key, {"key_hash": "secret in plain text"}),
    ("api_key_is_kept_as_sha256", insert_api_key, {"key_hash": "A" * 64}),
    ("api_key_is_not_its_own_parent", insert_api_key, {"id": NOBODY, "parent_id": NOBODY}),
    ("entity_version_counts_from_one", insert_entity, {"version": 0}),
    ("edit_window_is_known", insert_entity, {"edit_window": "ajar"}),
    ("audited_actor_kind_is_known", insert_entity, {"actor_kind": "robot"}),
    ("audited_is_a_version_or_a_subject", insert_audit, {"subject_id": None}),
    ("audited_is_a_version_or_a_subject", insert_audit, A_VERSION),
    ("audited_is_a_version_or_a_subject", insert_audit, {"from_version": 1}),
    ("audited_is_a_version_or_a_subject", insert_audit, {"from_state": "draft"}),
    ("audited_is_a_version_or_a_subject", insert_audit, NO_SUBJECT),
    *(
        ("audited_is_a_version_or_a_subject", insert_audit, NO_SUBJECT | A_VERSION | wrong)
        for wrong in ({"subject_id": "i-1"}, {"details": {}}, {"to_version": None}, {"to_state": None})
    ),
    ("audited_entity_has_its_type_or_there_is_none", insert_audit, {"entity_id": NOBODY}),
    ("audited_entity_has_its_type_or_there_is_none", insert_audit, {"entity_type": "invoice"}),
    ("definition_version_counts_from_one", insert_definition, {"version": 0}),
    ("definition_status_is_known", insert_definition, {"status": "retired"}),
    ("definition_kind_is_known", insert_definition, {"definition_kind": "poem"}),
    # Column by column in test_definition_guards.
    (
        "envelope_is_a_whole_shared_graph",
        insert_definition,
        definition_of_kind("envelope") | {"org_id": "acme"},
    ),
    (
        "org_patch_is_patches_on_a_base",
        insert_definition,
        definition_of_kind("org_patch") | {"base_ref": None},
    ),
    ("effective_is_compiled", insert_definition, definition_of_kind("effective") | {"compiled_hash": None}),
    ("flow_is_a_source", insert_definition, {"source_json": None}),
    ("published_flow_is_compiled", insert_definition, {"status": "published", "compiled_json": None}),
    ("instance_status_is_known", insert_instance, {"status": "active"}),
    ("instance_has_an_entity_with_its_type_or_none", insert_instance, {"entity_type": "invoice"}),
    ("instance_has_an_entity_with_its_type_or_none", insert_instance, {"entity_id": NOBODY}),
    ("instance_without_entity_has_version_zero", insert_instance, {"entity_version": 1}),
    ("instance_ended_exactly_when_terminal", insert_instance, {"completed_at": START}),
    ("instance_ended_exactly_when_terminal", insert_instance, {"status": "paused", "completed_at": START}),
    ("instance_ended_exactly_when_terminal", insert_instance, {"status": "completed", "completed_at": None}),
    ("instance_ended_exactly_when_terminal", insert_instance, {"status": "failed", "completed_at": None}),
    ("instance_ended_exactly_when_terminal", insert_instance, {"status": "cancelled", "completed_at": None}),
    ("step_status_is_known", insert_step, {"status": "done"}),
    ("step_run_as_is_known", insert_step, {"run_as": "root"}),
    ("event_status_is_known", insert_event, {"status": "done"}),
    ("event_attempts_are_counted", insert_event, {"attempts": -1}),
    ("event_attempts_are_counted", insert_event, {"attempts_max": 0}),
    ("effect_type_is_known", insert_effect, {"type": "pigeon"}),
    ("effect_secret_is_one_of_standard_webhooks", insert_secret, {"secret": "hunter2"}),
    ("effect_secret_is_one_of_standard_webhooks", insert_secret, {"secret": "whsec_short"}),
    ("receipt_is_for_events_or_side_effects", insert_outbox_receipt, {"source_table": "steps"}),
    ("chain_step_position_counts_from_one", insert_chain_step, {"position": 0}),
    ("chain_step_mode_is_known", insert_chain_step, {"mode": "most"}),
    ("chain_step_quorum_goes_with_its_modes", insert_chain_step, {"mode": "quorum"}),
    ("chain_step_quorum_goes_with_its_modes", insert_chain_step, {"mode": "percentage"}),
    ("chain_step_quorum_goes_with_its_modes", insert_chain_step, {"mode": "all", "quorum": 2}),
    ("chain_step_quorum_goes_with_its_modes", insert_chain_step, {"mode": "quorum", "quorum": 0}),
    ("chain_step_quorum_goes_with_its_modes", insert_chain_step, {"mode": "percentage", "quorum": 101}),
    ("chain_step_due_is_in_the_future", insert_chain_step, {"due_seconds": 0}),
    ("approval_request_status_is_known", insert_request, {"status": "maybe"}),
    ("approval_request_mode_is_known", insert_request, {"mode": "most"}),
    ("only_an_approved_request_is_applied", insert_request, {"applied_at": START}),
    ("only_an_approved_request_is_applied", insert_request, {"applied_at": START, "status": "void"}),
    (
        "approval_request_about_an_entity_has_its_snapshot",
        insert_request,
        {"entity_id": NOBODY, "content_hash": "x"},
    ),
    ("approval_request_about_an_entity_has_its_snapshot", insert_request, {"snapshot_version_id": NOBODY}),
    (
        "approval_request_about_an_entity_has_its_content",
        insert_request,
        {"entity_id": NOBODY, "snapshot_version_id": NOBODY},
    ),
    ("approval_request_about_an_entity_has_its_content", insert_request, {"content_hash": "x"}),
    ("approval_request_claim_is_dated", insert_request, {"claimed_by": "bea"}),
    ("approval_request_claim_is_dated", insert_request, {"claimed_at": START}),
    ("only_what_was_applied_has_its_step", insert_request, {"applied_step_id": NOBODY}),
    ("seat_kind_is_known", insert_seat, {"kind": "chair"}),
    ("seat_status_is_known", insert_seat, {"status": "warm"}),
    ("form_status_is_known", insert_form, {"status": "lost", "ended_at": START}),
    ("form_ends_when_its_status_says_so", insert_form, {"status": "answered"}),
    ("form_ends_when_its_status_says_so", insert_form, {"ended_at": START}),
    ("form_claim_is_dated", insert_form, {"claimed_by": "bea"}),
    ("form_claim_is_dated", insert_form, {"claimed_at": START}),
    ("form_draft_is_signed_dated_and_checked", insert_form, {"draft_json": {}}),
    (
        "form_draft_is_signed_dated_and_checked",
        insert_form,
        {"draft_json": {}, "draft_by": "bea", "draft_at": START},
    ),
    ("decision_is_known", insert_decision, {"decision": "perhaps"}),
    ("returned_says_as_what", insert_decision, {"decision": "returned"}),
    ("returned_says_as_what", insert_decision, {"decision": "approved", "outcome": "more_information"}),
    (
        "nobody_stands_in_for_themselves",
        insert_delegation,
        {"from_user": "bea", "to_user": "bea", "created_by": "ann"},
    ),
    ("nobody_makes_themselves_a_stand_in", insert_delegation, {"created_by": "bob"}),
    ("delegation_ends_after_it_starts", insert_delegation, {"ends_at": START}),
    ("outside_request_name_is_short", insert_outside_request, {"name": ""}),
    ("outside_request_name_is_short", insert_outside_request, {"name": "n" * 501}),
    ("outside_request_expects_something", insert_outside_request, {"expected": 0}),
    ("outside_request_expects_something", insert_outside_request, {"expected": 501}),
    ("results_are_counted", insert_outside_request, {"received": -1}),
    ("results_are_counted", insert_outside_request, {"failed": -1}),
    ("outside_request_status_is_known", insert_outside_request, {"status": "lost", "ended_at": START}),
    (
        "completed_request_has_what_it_expected",
        insert_outside_request,
        {"status": "completed", "received": 1, "ended_at": START},
    ),
    ("partial_request_has_something", insert_outside_request, {"status": "partial"}),
    ("partial_request_has_something", insert_outside_request, {"status": "partial", "received": 2}),
    ("outside_request_ends_when_its_status_says_so", insert_outside_request, {"status": "failed"}),
    ("outside_request_ends_when_its_status_says_so", insert_outside_request, {"ended_at": START}),
    ("delivery_key_is_not_blank", insert_delivery, {"key": ""}),
    ("delivery_key_is_short", insert_delivery, {"key": "k" * 201}),
    ("delivery_source_is_known", insert_delivery, {"source": "pigeon"}),
    ("item_status_is_known", insert_item, {"status": "lost"}),
    ("completed_item_points_to_something", insert_item, {"cargo": None}),
    ("item_cargo_is_a_pointer", insert_item, {"cargo": "passport.pdf"}),
    ("history_tells_what_is_known", insert_history, {"what": "forgotten"}),
    ("rule_timing_is_known", insert_rule, {"timing": "during"}),
    ("rule_outcome_is_known", insert_rule, {"outcome": "explode"}),
    ("rule_condition_is_text_or_object", insert_rule, {"condition": 7}),
    ("rule_condition_is_text_or_object", insert_rule, {"condition": ["and"]}),
    ("rule_outcome_is_an_object", insert_rule, {"outcome_json": "no"}),
    ("evaluated_outcome_goes_with_result", insert_evaluation, {"result": True}),
    ("evaluated_outcome_goes_with_result", insert_evaluation, {"outcome": "deny"}),
]


async def insert_unique_value(owner, entity_id):
    await owner.execute(
        "INSERT INTO assent.unique_values VALUES ('acme', 'invoice', 'number', 'x', $1)", entity_id
    )


FOREIGN_KEYS = [
    ("manager_is_a_member", insert_member, {"manager_id": "nobody"}),
    ("api_key_belongs_to_a_member", insert_api_key, {"user_id": "nobody"}),
    ("api_key_was_made_by_a_key_of_the_org", insert_api_key, {"parent_id": NOBODY}),
    ("amendment_is_of_an_entity", insert_entity, {"amended_from_id": NOBODY}),
    ("version_is_of_an_entity", insert_entity, {"from_version": 1, "version": 2}),
    ("unique_value_is_of_an_entity", insert_unique_value, {"entity_id": NOBODY}),
    ("instance_is_of_an_entity", insert_instance, {"entity_id": NOBODY, "entity_type": "invoice"}),
    ("step_snapshot_is_a_version", insert_step, {"snapshot_version_id": NOBODY}),
    ("chain_step_is_of_a_chain", insert_chain_step, {"chain_id": NOBODY}),
    (
        "approval_request_snapshot_is_a_version",
        insert_request,
        {"entity_id": NOBODY, "snapshot_version_id": NOBODY, "content_hash": "x"},
    ),
    ("approval_request_chain_exists", insert_request, {"chain_id": NOBODY}),
    ("decision_is_on_a_request", insert_decision, {"request_id": NOBODY}),
    ("delivery_is_to_a_request", insert_delivery, {"request_id": NOBODY}),
    ("item_is_of_a_delivery", insert_item, {"delivery_id": NOBODY}),
    ("history_is_of_a_request", insert_history, {"request_id": NOBODY}),
]


async def insert_stand_in(connection, **given):
    """Insert a decision for bea, each time by another approver."""
    return await insert_decision(connection, approver_id=f"bob-{token_hex(4)}", on_behalf_of="bea", **given)


UNIQUES = [
    ("api_key_hash_is_unique", insert_api_key, ["key_hash"]),
    ("entity_version_id_is_unique", insert_entity, ["version_id"]),
    ("definition_version_is_unique", insert_definition, ["definition_kind", "key", "version"]),
    ("instance_idempotency_key_is_unique", insert_instance, ["idempotency_key"]),
    ("approval_chain_name_is_unique", insert_chain, ["name"]),
    ("event_source_prefix_is_unique", insert_source, ["key_prefix"]),
    ("one_decision_per_seat", insert_stand_in, ["request_id", "seat_id"]),
    ("rule_name_is_unique", insert_rule, ["entity_type", "name"]),
    ("delivery_key_is_taken_once", insert_delivery, ["request_id", "key"]),
    ("cargo_is_received_once", insert_item, ["request_id", "cargo"]),
]
"""Of each constraint, the columns beside the org that two rows must not share."""

OPTIONAL = {"idempotency_key": "k"}
"""Columns that a blank row leaves open, and two open ones are not the same."""

NAMES = """
SELECT DISTINCT conname FROM pg_constraint WHERE connamespace = 'assent'::regnamespace AND contype = $1
   AND conparentid = 0
"""


@pytest.mark.parametrize(("constraint", "insert_row", "given"), CHECKS)
async def test_check_refuses(owner, constraint, insert_row, given):
    async with refused(owner, CHECK, constraint=constraint):
        await insert_row(owner, **given)


@pytest.mark.parametrize(("constraint", "insert_row", "given"), FOREIGN_KEYS)
async def test_foreign_key_refuses(owner, constraint, insert_row, given):
    async with refused(owner, FOREIGN_KEY, constraint=constraint):
        await insert_row(owner, **given)
        await check_deferred(owner)


@pytest.mark.parametrize(("constraint", "insert_row", "columns"), UNIQUES)
async def test_unique_constraint_refuses_the_second_in_an_org(owner, constraint, insert_row, columns):
    first = await insert_row(owner, **{column: OPTIONAL[column] for column in columns if column in OPTIONAL})
    same = {column: first[column] for column in columns}
    async with refused(owner, UNIQUE, constraint=constraint):
        await insert_row(owner, **same)
    foreign = {column: value for column, value in same.items() if column not in ("request_id", "seat_id")}
    assert (await insert_row(owner, org_id="globex", **foreign))["org_id"] == "globex"


async def test_primary_key_of_every_table_refuses_the_same_row_again(owner):
    await insert_one_of_each(owner, "acme")
    await owner.execute("SELECT set_config('assent.door', 'mutate', true)")
    for table in (*TABLES, "entities", "entity_versions", "audit_log"):
        place = f"{table}_2026_03" if table in PARTITIONED else table
        async with refused(owner, UNIQUE, constraint=f"{place}_pkey"):
            await owner.execute(f"INSERT INTO assent.{table} SELECT * FROM assent.{table}")


async def test_every_table_has_a_primary_key(owner):
    without = await owner.fetch(
        "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'assent'::regnamespace"
        " AND c.relkind IN ('r', 'p')"
        " AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)"
    )
    assert without == []


async def test_row_may_come_before_the_version_and_instance_that_it_refers_to(owner):
    version_id, instance_id = UUID(int=8), UUID(int=9)
    about = {"entity_type": "invoice", "entity_id": NOBODY, "snapshot_version_id": version_id}
    await insert_step(owner, snapshot_version_id=version_id, instance_id=instance_id)
    await insert_request(owner, instance_id=instance_id, content_hash="x", **about)
    await insert_entity(owner, entity_id=NOBODY, version_id=version_id)
    await insert_instance(owner, id=instance_id)
    await check_deferred(owner)


async def test_chain_takes_its_steps_with_it(owner):
    step = await insert_chain_step(owner)
    await owner.execute("DELETE FROM assent.approval_chains WHERE id = $1", step["chain_id"])
    assert await owner.fetchval("SELECT count(*) FROM assent.approval_chain_steps") == 0


@pytest.mark.parametrize(
    ("kind", "cases"),
    [("c", CHECKS), ("f", FOREIGN_KEYS), ("u", UNIQUES)],
    ids=["check", "foreign", "unique"],
)
async def test_every_constraint_of_the_schema_has_a_case_here(owner, kind, cases):
    in_schema = {name for (name,) in await owner.fetch(NAMES, kind.encode())}
    assert in_schema == {constraint for constraint, _, _ in cases}
