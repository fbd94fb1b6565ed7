"""Every CHECK, foreign key and unique constraint is broken here at least once, by a row that breaks it alone.

The last tests walk the catalogue: a constraint without a case turns them red.
"""

# ruff: noqa: S608 - the names of tables come from the catalogue

from datetime import timedelta
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
    insert_document_version,
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
    insert_session,
    insert_step,
    insert_upload_link,
    insert_version_with_file,
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
insert_schedule = partial(insert, table="schedules")
insert_join = partial(insert, table="task_joins")
insert_source = partial(insert, table="event_sources")
insert_plain_job = partial(insert, table="jobs")
insert_dead_message = partial(insert, table="dead_messages")
insert_submission = partial(insert, table="task_submissions")
insert_attempt = partial(insert, table="job_attempts")
insert_progress = partial(insert, table="task_progress")
insert_log_line = partial(insert, table="task_log_lines")
insert_task_key = partial(insert, table="task_keys")
insert_throttle = partial(insert, table="task_throttles")
RATE = {"rate_key": "crm", "rate_max": 3, "rate_period": timedelta(seconds=1)}


async def insert_resource(connection, name="ollama", max_concurrency=2):
    """Resources belong to no org."""
    await connection.execute("INSERT INTO assent.resources VALUES ($1, $2)", name, max_concurrency)


insert_step_evidence = partial(insert, table="step_evidence")
insert_start_key = partial(insert, table="workflow_start_keys")
insert_kept_event = partial(insert, table="workflow_kept_events")
insert_comment = partial(insert, table="comments")
insert_preferences = partial(insert, table="member_preferences")
insert_template = partial(insert, table="mail_templates")
insert_requirement = partial(insert, table="document_requirements")
insert_blob = partial(insert, table="blobs")
insert_document = partial(insert, table="documents")
insert_document_event = partial(insert, table="document_events")
insert_rejection_code = partial(insert, table="rejection_codes")


async def insert_audit(connection, **given):
    """An entry about a command to an instance, by plain SQL."""
    entry = {"org_id": "acme", "id": NOBODY, "at": START, "actor_id": "ann", "actor_kind": "user"}
    entry |= {"action": "workflow.start", "changes": {}, "channel": "http", "actor_roles": []}
    entry |= {"subject_kind": "instance", "subject_id": "i-1"} | given
    marks = ", ".join(f"${number}" for number in range(1, len(entry) + 1))
    sql = f"INSERT INTO assent.audit_log ({', '.join(entry)}) VALUES ({marks})"
    await connection.execute(sql, *entry.values())


async def insert_indexes(connection, org_id):
    await connection.execute(
        "INSERT INTO assent.entity_indexes"
        " (org_id, entity_type, contract_version, stamp, fields, searched, ready, built)"
        " VALUES ($1, 'invoice', 1, 1, '{}', '{}', '{}', true)",
        org_id,
    )


async def insert_filter(connection, **given):
    return await insert(connection, "saved_filters", **given)


async def insert_counter(connection, last_number):
    await connection.execute(
        "INSERT INTO assent.number_series VALUES ('acme', 'invoice', 'number', '2026', $1)", last_number
    )


A_VERSION = {"entity_type": "invoice", "entity_id": NOBODY, "to_version": 1, "to_state": "draft"}
NO_SUBJECT = {"subject_kind": None, "subject_id": None}
NO_STEP = {"instance_id": None, "step_id": None, "step_created_at": None}
REVIEWED = {"status": "verified", "verified_by": "bea", "verified_at": START}
QUESTION = {"kind": "question", "request_id": NOBODY, "instance_id": NOBODY, "asks": "bob"}
ERASED = {"structured_data": None, "erased_at": START, "erased_by": "bea"}

CHECKS = [
    ("comment_kind_is_known", insert_comment, {"kind": "note"}),
    ("comment_is_about_an_entity", insert_comment, {"entity_type": None, "entity_id": None}),
    ("commented_entity_has_its_type", insert_comment, {"entity_type": None}),
    ("question_is_of_a_request_to_a_member", insert_comment, {"kind": "question"}),
    ("question_is_of_a_request_to_a_member", insert_comment, QUESTION | {"asks": None}),
    ("question_is_of_a_request_to_a_member", insert_comment, {"asks": "bob"}),
    ("question_is_to_another", insert_comment, QUESTION | {"asks": "ann"}),
    ("answer_is_dated", insert_comment, QUESTION | {"answer": "yes"}),
    ("answer_is_dated", insert_comment, QUESTION | {"answered_at": START}),
    ("only_a_question_ends", insert_comment, {"closed_at": START}),
    (
        "question_is_answered_or_closed",
        insert_comment,
        QUESTION | {"answer": "yes", "answered_at": START, "closed_at": START},
    ),
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
    ("only_a_task_has_a_parent", insert_plain_job, {"kind": "effect", "parent_id": NOBODY}),
    ("only_a_task_waits_for_others", insert_plain_job, {"kind": "effect", "status": "blocked"}),
    ("only_a_task_waits_for_others", insert_plain_job, {"kind": "effect", "status": "background"}),
    ("subtask_names_the_attempt_that_made_it", insert_submission, {"parent_id": NOBODY, "depth": 1}),
    ("subtask_names_the_attempt_that_made_it", insert_submission, {"parent_attempt": 1}),
    ("subtask_has_its_depth", insert_submission, {"depth": 1}),
    ("subtask_has_its_depth", insert_submission, {"parent_id": NOBODY, "parent_attempt": 1}),
    (
        "subtask_is_awaited_by_its_parent_alone",
        insert_submission,
        {
            "parent_id": NOBODY,
            "parent_attempt": 1,
            "depth": 1,
            "awaited": True,
            "step_id": NOBODY,
            "instance_id": NOBODY,
        },
    ),
    ("job_attempt_outcome_is_known", insert_attempt, {"outcome": "fine", "code": "X", "error": "x"}),
    ("job_attempt_that_failed_says_why", insert_attempt, {"outcome": "failed"}),
    ("job_attempt_that_failed_says_why", insert_attempt, {"outcome": "failed", "code": "X"}),
    ("job_attempt_that_failed_says_why", insert_attempt, {"error": "x"}),
    ("task_progress_is_a_part_of_the_whole", insert_progress, {"fraction": 1.1}),
    ("task_log_level_is_known", insert_log_line, {"level": "loud"}),
    ("only_a_task_is_throttled", insert_plain_job, {"kind": "effect", "throttle": NOBODY}),
    ("task_throttle_limits_something", insert_throttle, {"resources": []}),
    ("task_throttle_has_few_resources", insert_throttle, {"resources": [f"r{n}" for n in range(11)]}),
    ("rate_of_a_throttle_is_whole", insert_throttle, {"rate_key": "crm"}),
    ("rate_of_a_throttle_is_whole", insert_throttle, {"rate_max": 3, "rate_period": timedelta(seconds=1)}),
    ("rate_of_a_throttle_lets_one_start", insert_throttle, RATE | {"rate_max": 0}),
    ("rate_of_a_throttle_lets_one_start", insert_throttle, RATE | {"rate_period": timedelta()}),
    ("rate_key_is_short", insert_throttle, RATE | {"rate_key": ""}),
    ("rate_key_is_short", insert_throttle, RATE | {"rate_key": "k" * 501}),
    ("resource_name_is_short", insert_resource, {"name": ""}),
    ("resource_name_is_short", insert_resource, {"name": " \u200b"}),
    ("resource_name_is_short", insert_resource, {"name": "n" * 101}),
    ("resource_lets_one_task_run", insert_resource, {"max_concurrency": 0}),
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
    ("schedule_name_is_not_blank", insert_schedule, {"name": " "}),
    ("schedule_name_is_short", insert_schedule, {"name": "n" * 201}),
    ("schedule_input_is_an_object", insert_schedule, {"input": []}),
    ("schedule_line_is_short", insert_schedule, {"cron": "* * * *"}),
    ("schedule_zone_is_short", insert_schedule, {"zone": ""}),
    ("schedule_missed_is_known", insert_schedule, {"missed": "some"}),
    ("only_a_paused_schedule_has_a_problem", insert_schedule, {"problem": "no zone"}),
    ("schedule_that_ran_names_its_task", insert_schedule, {"last_at": START}),
    ("task_join_name_is_short", insert_join, {"name": ""}),
    ("task_join_key_is_short", insert_join, {"key": "k" * 257}),
    ("task_join_completed_is_an_object", insert_join, {"completed": []}),
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
    ("session_token_is_kept_as_sha256", insert_session, {"token_hash": "the token itself"}),
    ("session_previous_token_is_kept_as_sha256", insert_session, {"previous_hash": "the token itself"}),
    ("session_expires_by_its_end", insert_session, {"ends_at": START}),
    ("api_key_is_not_its_own_parent", insert_api_key, {"id": NOBODY, "parent_id": NOBODY}),
    ("entity_version_counts_from_one", insert_entity, {"version": 0}),
    ("numbers_count_from_one", insert_counter, {"last_number": 0}),
    ("saved_filter_is_an_object", insert_filter, {"filter": ["state"]}),
    ("indexes_are_of_all_orgs", insert_indexes, {"org_id": "acme"}),
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
    ("step_of_request_is_of_an_instance", insert_outside_request, {"instance_id": None}),
    ("step_of_request_is_of_an_instance", insert_outside_request, {"step_id": None}),
    ("step_of_request_is_of_an_instance", insert_outside_request, {"node_id": None}),
    ("step_of_request_is_of_an_instance", insert_outside_request, {"token_id": None}),
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
    ("delivery_source_is_known", insert_delivery, {"source": "rabbit"}),
    ("dead_message_transport_is_known", insert_dead_message, {"transport": "rabbit"}),
    ("dead_message_is_short", insert_dead_message, {"body": b"{}", "size": 1}),
    ("dead_message_is_short", insert_dead_message, {"body": b" " * 1_048_577, "size": 1_048_577}),
    ("item_status_is_known", insert_item, {"status": "lost"}),
    ("completed_item_points_to_something", insert_item, {"cargo": None}),
    ("item_cargo_is_a_pointer", insert_item, {"cargo": "passport.pdf"}),
    ("history_tells_what_is_known", insert_history, {"what": "forgotten"}),
    ("rule_timing_is_known", insert_rule, {"timing": "during"}),
    ("rule_outcome_is_known", insert_rule, {"outcome": "explode"}),
    ("rule_condition_is_text_or_object", insert_rule, {"condition": 7}),
    ("rule_condition_is_text_or_object", insert_rule, {"condition": ["and"]}),
    ("step_evidence_is_an_object", insert_step_evidence, {"evidence": [1]}),
    ("rule_outcome_is_an_object", insert_rule, {"outcome_json": "no"}),
    ("evaluated_outcome_goes_with_result", insert_evaluation, {"result": True}),
    ("evaluated_outcome_goes_with_result", insert_evaluation, {"outcome": "deny"}),
    ("effect_of_a_step_names_its_instance", insert_effect, {"instance_id": None}),
    ("effect_of_a_step_names_its_instance", insert_effect, NO_STEP | {"instance_id": NOBODY}),
    ("only_a_step_awaits_an_effect", insert_effect, NO_STEP | {"awaited": True}),
    ("preferred_language_is_a_tag", insert_preferences, {"language": "german"}),
    ("preferred_language_is_a_tag", insert_preferences, {"language": "de-at"}),
    ("preferred_mails_are_known", insert_preferences, {"mails": "weekly"}),
    ("digest_hour_is_of_a_day", insert_preferences, {"digest_hour": -1}),
    ("digest_hour_is_of_a_day", insert_preferences, {"digest_hour": 24}),
    ("links_go_to_an_address", insert_preferences, {"links_to": " "}),
    ("links_go_to_an_address", insert_preferences, {"links_to": "a" * 1001}),
    ("mail_template_language_is_a_tag", insert_template, {"language": "EN"}),
    ("mail_template_has_a_part", insert_template, {"subject": None}),
    ("mail_template_subject_is_one_line", insert_template, {"subject": "one\nBcc: two"}),
    ("mail_template_subject_is_one_line", insert_template, {"subject": "one\rtwo"}),
    ("requirement_status_is_known", insert_requirement, {"status": "lost"}),
    ("required_state_is_known", insert_requirement, {"required_state": "in_qa"}),
    ("requirement_subject_is_named", insert_requirement, {"subject": ""}),
    ("requirement_subject_is_named", insert_requirement, {"subject": "\u00a0"}),
    ("requirement_subject_is_named", insert_requirement, {"subject": "s" * 201}),
    ("requirement_doc_type_is_named", insert_requirement, {"doc_type": ""}),
    ("requirement_doc_type_is_named", insert_requirement, {"doc_type": "\u00a0"}),
    ("requirement_doc_type_is_named", insert_requirement, {"doc_type": "d" * 101}),
    ("attempts_are_counted", insert_requirement, {"attempt_count": -1}),
    ("attempts_are_counted", insert_requirement, {"max_attempts": 0}),
    ("attempts_are_counted", insert_requirement, {"max_attempts": 101}),
    ("requested_document_was_asked_for", insert_requirement, {"status": "requested"}),
    ("document_in_review_is_there", insert_requirement, {"status": "received"}),
    ("document_in_review_is_there", insert_requirement, {"status": "in_qa"}),
    ("document_in_review_is_there", insert_requirement, {"status": "verified", "satisfied_at": START}),
    ("rejected_requirement_says_why", insert_requirement, {"status": "rejected"}),
    ("waived_requirement_says_by_whom", insert_requirement, {"status": "waived", "satisfied_at": START}),
    ("waived_requirement_says_by_whom", insert_requirement, {"waived_by": "bea"}),
    *(
        ("requirement_is_satisfied_when_its_status_says_so", insert_requirement, given)
        for given in (
            {"satisfied_at": START},
            {"status": "waived", "waived_by": "bea"},
            {"status": "verified", "version_id": NOBODY},
            {"status": "received", "version_id": NOBODY, "required_state": "received"},
            {"status": "in_qa", "version_id": NOBODY, "satisfied_at": START},
        )
    ),
    ("document_type_is_named", insert_document, {"document_type": ""}),
    ("document_type_is_named", insert_document, {"document_type": "\u00a0"}),
    ("document_type_is_named", insert_document, {"document_type": "d" * 101}),
    ("document_subject_is_named", insert_document, {"subject": ""}),
    ("document_subject_is_named", insert_document, {"subject": "\u00a0"}),
    ("document_subject_is_named", insert_document, {"subject": "s" * 201}),
    ("document_source_is_known", insert_document, {"source": "pigeon"}),
    ("document_source_ref_is_short", insert_document, {"source_ref": ""}),
    ("document_source_ref_is_short", insert_document, {"source_ref": "r" * 501}),
    ("blob_status_is_known", insert_blob, {"status": "lost"}),
    ("kept_blob_is_described", insert_blob, {"size_bytes": None}),
    ("kept_blob_is_described", insert_blob, {"sha256": None}),
    ("kept_blob_is_described", insert_blob, {"found_type": None}),
    ("blob_is_not_empty", insert_blob, {"size_bytes": 0}),
    ("blob_hash_is_of_sha256", insert_blob, {"sha256": "0" * 63}),
    ("blob_name_is_short", insert_blob, {"file_name": ""}),
    ("blob_name_is_short", insert_blob, {"file_name": "n" * 201}),
    ("blob_type_is_short", insert_blob, {"found_type": "t" * 201}),
    ("deleting_blob_says_when", insert_blob, {"delete_at": START}),
    ("deleting_blob_says_when", insert_blob, {"status": "deleting"}),
    ("deleted_blob_says_when", insert_blob, {"deleted_at": START}),
    ("deleted_blob_says_when", insert_blob, {"status": "deleted"}),
    (
        "deleted_blob_has_no_name",
        insert_blob,
        {"status": "deleting", "delete_at": START, "file_name": "a"},
    ),
    ("upload_link_key_is_long", insert_upload_link, {"key": "k" * 63}),
    ("revoked_upload_link_says_by_whom", insert_upload_link, {"revoked_by": "bea"}),
    ("revoked_upload_link_says_by_whom", insert_upload_link, {"revoked_at": START}),
    ("version_has_one_file", insert_version_with_file, {"blob_ref": "external://vault/1"}),
    ("version_number_is_positive", insert_document_version, {"version_no": 0}),
    ("version_status_is_known", insert_document_version, {"status": "lost"}),
    ("version_has_content", insert_document_version, {"structured_data": None}),
    ("version_has_content", insert_document_version, ERASED | {"structured_data": {}}),
    ("version_has_content", insert_document_version, ERASED | {"blob_ref": "s3://documents/1"}),
    ("erased_version_says_by_whom", insert_document_version, {"erased_by": "bea"}),
    ("erased_version_says_by_whom", insert_document_version, ERASED | {"erased_by": None}),
    ("erased_version_has_no_text", insert_document_version, ERASED | {"ocr_extracted": {}}),
    ("version_content_type_is_short", insert_document_version, {"content_type": ""}),
    ("version_content_type_is_short", insert_document_version, {"content_type": "t" * 201}),
    ("version_blob_ref_is_short", insert_document_version, {"blob_ref": ""}),
    ("version_blob_ref_is_short", insert_document_version, {"blob_ref": "b" * 1_001}),
    (
        "version_is_valid_for_a_time",
        insert_document_version,
        {"valid_from": START.date(), "valid_to": START.date() - timedelta(days=1)},
    ),
    ("version_is_reviewed_by_someone", insert_document_version, {"status": "verified"}),
    ("version_is_reviewed_by_someone", insert_document_version, REVIEWED | {"verified_at": None}),
    ("version_is_reviewed_by_someone", insert_document_version, REVIEWED | {"status": "in_qa"}),
    ("version_is_not_reviewed_by_its_sender", insert_document_version, REVIEWED | {"created_by": "bea"}),
    ("version_is_not_reviewed_by_its_sender", insert_document_version, REVIEWED | {"maker_id": "bea"}),
    ("rejected_version_says_why", insert_document_version, REVIEWED | {"status": "rejected"}),
    ("rejected_version_says_why", insert_document_version, {"rejection_code": "BLURRED"}),
    ("quality_is_a_percentage", insert_document_version, {"quality_score": -1}),
    ("quality_is_a_percentage", insert_document_version, {"quality_score": 101}),
    ("confidence_is_a_percentage", insert_document_version, {"extraction_confidence": -1}),
    ("confidence_is_a_percentage", insert_document_version, {"extraction_confidence": 101}),
    ("document_event_is_about_something", insert_document_event, {"requirement_id": None}),
    ("document_event_type_is_known", insert_document_event, {"type": "forgotten"}),
    ("document_event_notes_are_short", insert_document_event, {"notes": "n" * 2_001}),
    ("rejection_code_is_a_name", insert_rejection_code, {"code": "blurred"}),
    ("rejection_code_is_a_name", insert_rejection_code, {"code": "B"}),
    ("rejection_code_is_a_name", insert_rejection_code, {"code": "B" * 64}),
    ("rejection_messages_are_short", insert_rejection_code, {"client_message": "m" * 501}),
    ("rejection_messages_are_short", insert_rejection_code, {"ops_message": "m" * 501}),
    ("rejection_messages_are_short", insert_rejection_code, {"next_action": "m" * 501}),
    ("rejection_messages_are_short", insert_rejection_code, {"category": ""}),
    ("rejection_messages_are_short", insert_rejection_code, {"category": "c" * 51}),
    ("translations_are_an_object", insert_rejection_code, {"translations": [1]}),
]


async def insert_unique_value(owner, entity_id):
    await owner.execute(
        "INSERT INTO assent.unique_values VALUES ('acme', 'invoice', 'number', 'x', $1)", entity_id
    )


FOREIGN_KEYS = [
    ("question_is_of_an_approval_request", insert_comment, QUESTION),
    ("manager_is_a_member", insert_member, {"manager_id": "nobody"}),
    ("api_key_belongs_to_a_member", insert_api_key, {"user_id": "nobody"}),
    ("session_belongs_to_a_member", insert_session, {"user_id": "nobody"}),
    ("session_was_begun_by_a_key_of_the_org", insert_session, {"key_id": NOBODY}),
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
    ("document_belongs_to_another", insert_document, {"parent_id": NOBODY}),
    ("document_is_for_a_requirement", insert_document, {"requirement_id": NOBODY}),
    ("version_is_of_a_document", insert_document_version, {"document_id": NOBODY}),
    ("attachment_is_of_an_entity", insert_blob, {"entity_id": NOBODY}),
    ("version_has_a_file", insert_document_version, {"blob_id": NOBODY}),
    ("upload_link_is_for_a_request", insert_upload_link, {"request_id": NOBODY}),
]


async def insert_stand_in(connection, **given):
    """Insert a decision for bea, each time by another approver."""
    return await insert_decision(connection, approver_id=f"bob-{token_hex(4)}", on_behalf_of="bea", **given)


UNIQUES = [
    ("session_token_is_unique", insert_session, ["token_hash"]),
    ("api_key_hash_is_unique", insert_api_key, ["key_hash"]),
    ("entity_version_id_is_unique", insert_entity, ["version_id"]),
    ("definition_version_is_unique", insert_definition, ["definition_kind", "key", "version"]),
    ("instance_idempotency_key_is_unique", insert_instance, ["idempotency_key"]),
    ("approval_chain_name_is_unique", insert_chain, ["name"]),
    ("event_source_prefix_is_unique", insert_source, ["key_prefix"]),
    ("one_decision_per_seat", insert_stand_in, ["request_id", "seat_id"]),
    ("rule_name_is_unique", insert_rule, ["entity_type", "name"]),
    ("saved_filter_name_is_unique", insert_filter, ["filter_of", "owner_id", "name"]),
    ("delivery_key_is_taken_once", insert_delivery, ["request_id", "key"]),
    ("dead_message_is_kept_once", insert_dead_message, ["transport", "stream", "position", "hash"]),
    ("cargo_is_received_once", insert_item, ["request_id", "cargo"]),
    ("document_is_required_once", insert_requirement, ["instance_id", "partition_id", "subject", "doc_type"]),
    ("version_number_is_unique", insert_document_version, ["document_id", "version_no"]),
    ("file_is_of_one_version", insert_version_with_file, ["blob_id"]),
]
"""Of each constraint, the columns beside the org that two rows must not share."""

OPTIONAL = {"idempotency_key": "k"}
"""Columns that a blank row leaves open, and two open ones are not the same."""

PARENTS = ("request_id", "seat_id", "document_id", "blob_id")
"""Columns that name a row of the same org."""

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
    foreign = {column: value for column, value in same.items() if column not in PARENTS}
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
