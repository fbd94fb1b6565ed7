"""What the schema must have: every trigger with a test that shows it at work, and the indexes of the seed."""

from pathlib import Path

AUDITED = "test_audit_guards.test_whatever_is_administered_leaves_a_row_in_the_same_transaction"

TRIGGERS = {
    "orgs_are_audited": AUDITED,
    "members_are_audited": AUDITED,
    "roles_are_audited": AUDITED,
    "api_keys_are_audited": AUDITED,
    "sessions_are_audited": AUDITED,
    "event_sources_are_audited": AUDITED,
    "schedules_are_audited": AUDITED,
    "versions_emit_events": "test_completions.test_version_of_a_document_emits_one_event_where_it_is_watched",
    "completed_tasks_emit_events": "test_completions.test_task_that_is_watched_emits_one_event_when_it_has_completed",
    "effect_secrets_are_audited": AUDITED,
    "named_secrets_are_audited": AUDITED,
    "definitions_are_audited": AUDITED,
    "rules_are_audited": AUDITED,
    "saved_filters_are_audited": AUDITED,
    "delegations_are_audited": AUDITED,
    "chains_are_audited": AUDITED,
    "mail_templates_are_audited": AUDITED,
    "preferences_are_audited": AUDITED,
    "decision_link_uses_are_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "decision_link_uses_are_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "chain_steps_are_audited": AUDITED,
    "audit_is_dated_by_the_database": (
        "test_engine_role.test_audit_entries_are_dated_by_the_database_and_name_the_login_that_wrote_them"
    ),
    "changed_entities_are_guarded": (
        "test_engine_role.test_content_is_not_swapped_under_the_hash_that_approvers_approve"
    ),
    "definitions_say_their_walls": "test_engine_role.test_walls_of_a_definition_are_the_databases_own",
    "ended_steps_only_gain_evidence": (
        "test_engine_role.test_what_came_of_an_ended_step_only_gains_evidence"
    ),
    "new_entities_begin_at_the_beginning": (
        "test_engine_role.test_entity_does_not_begin_in_another_state_than_its_contract_says"
    ),
    "approval_requests_begin_unconsumed": "test_engine_role.test_transaction_that_consumes_is_the_databases_own_word",
    "approval_requests_note_who_consumed_them": (
        "test_engine_role.test_transaction_that_consumes_is_the_databases_own_word"
    ),
    "approval_requests_show_what_they_are_about": "test_engine_role.test_request_shows_the_content_that_it_is_about",
    "states_are_reached_through_their_gates": (
        "test_engine_role.test_state_behind_a_gate_is_not_reached_while_the_request_is_pending"
    ),
    "audit_is_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "audit_is_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "comments_stay_as_written": "test_comments.test_what_was_written_stays",
    "comments_are_never_deleted": "test_comments.test_what_was_written_stays",
    "comments_are_never_emptied": "test_comments.test_what_was_written_stays",
    "approval_requests_close_their_questions": "test_comments.test_request_that_ends_closes_its_questions",
    "decisions_are_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "decisions_are_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "dead_messages_are_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "dead_messages_are_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "incoming_results_are_taken": (
        "test_incoming_results.test_inserted_rows_are_taken_as_results_and_none_stays"
    ),
    "incoming_results_have_an_org": "test_incoming_results.test_result_of_no_org_is_refused_with_what_to_do",
    "default_definitions_do_not_change": "test_definition_guards.test_envelope_does_not_change_at_all",
    "definition_status_moves_forward": "test_status_moves.test_status_moves_exactly_as_the_table_says",
    "deliveries_are_never_deleted": "test_outside_requests.test_a_delivery_is_never_deleted",
    "deliveries_are_never_emptied": "test_outside_requests.test_a_delivery_is_never_deleted",
    "deliveries_keep_their_key": "test_outside_requests.test_what_a_delivery_is_never_changes",
    "document_events_are_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "document_events_are_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "document_versions_are_never_deleted": "test_documents.test_a_version_is_never_deleted",
    "document_versions_are_never_emptied": "test_documents.test_a_version_is_never_deleted",
    "versions_have_their_bytes": "test_documents.test_a_version_has_bytes_and_bytes_that_a_version_has_are_kept",
    "blobs_of_versions_are_kept": "test_documents.test_a_version_has_bytes_and_bytes_that_a_version_has_are_kept",
    "blobs_are_never_emptied": "test_documents.test_a_version_has_bytes_and_bytes_that_a_version_has_are_kept",
    "blob_status_moves_forward": "test_status_moves.test_status_moves_exactly_as_the_table_says",
    "versions_stay_as_they_were_handed_in": ("test_documents.test_what_was_handed_in_never_changes"),
    "documents_are_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "documents_are_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "requirement_status_moves_forward": "test_status_moves.test_status_moves_exactly_as_the_table_says",
    "requirements_keep_what_they_require": "test_documents.test_what_is_required_never_changes",
    "version_status_moves_forward": "test_status_moves.test_status_moves_exactly_as_the_table_says",
    "edits_void_approvals": "test_edits_void_approvals.test_edit_voids_what_is_open_and_what_is_approved_but_unapplied",
    "decisions_are_of_those_who_are_asked": "test_decision_guards.test_a_decision_by_hand_is_refused",
    "entities_change_only_in_mutate": "test_truth_wall.test_plain_writes_of_the_owner_are_refused",
    "entity_rows_are_guarded": "test_truth_wall.test_content_of_a_locked_entity_is_not_edited",
    "event_claim_is_dated": "test_claims.test_claim_is_dated_by_the_database_whoever_claims",
    "event_status_moves_forward": "test_status_moves.test_status_moves_exactly_as_the_table_says",
    "form_status_moves_forward": "test_status_moves.test_status_moves_exactly_as_the_table_says",
    "forms_keep_what_they_ask": "test_form_guards.test_what_a_form_asks_never_changes",
    "instance_status_moves_forward": "test_status_moves.test_status_moves_exactly_as_the_table_says",
    "items_are_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "items_are_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "outbox_receipts_are_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "outbox_receipts_are_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "outside_request_status_moves_forward": "test_status_moves.test_status_moves_exactly_as_the_table_says",
    "outside_requests_keep_what_they_ask": "test_outside_requests.test_what_a_request_asks_never_changes",
    "published_definitions_do_not_change": (
        "test_definition_guards.test_content_does_not_change_once_it_was_published"
    ),
    "outside_request_history_is_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "outside_request_history_is_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "approval_request_status_moves_forward": "test_status_moves.test_status_moves_exactly_as_the_table_says",
    "approval_requests_are_approved_by_those_who_are_asked": (
        "test_approval_guards.test_application_cannot_approve_what_too_few_have"
    ),
    "approval_requests_begin_unapproved": "test_approval_guards.test_request_does_not_begin_approved",
    "approval_requests_keep_what_they_ask": "test_request_guards.test_what_a_request_asks_never_changes",
    "rule_evaluations_are_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "rule_evaluations_are_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "seat_status_moves_forward": "test_status_moves.test_status_moves_exactly_as_the_table_says",
    "seats_keep_their_identity": "test_seat_guards.test_identity_of_a_seat_never_changes",
    "step_receipts_are_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "step_receipts_are_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "step_status_moves_forward": "test_status_moves.test_status_moves_exactly_as_the_table_says",
    "steps_keep_their_identity": "test_step_guards.test_identity_of_a_step_never_changes",
    "effects_are_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "effects_are_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "job_attempts_are_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "job_attempts_are_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "step_evidence_is_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "step_evidence_is_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "start_keys_are_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "start_keys_are_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "task_throttles_are_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "task_throttles_are_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "task_keys_are_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "task_keys_are_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "job_status_moves_forward": "test_status_moves.test_status_moves_exactly_as_the_table_says",
    "task_submissions_are_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "task_submissions_are_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
    "versions_are_append_only": "test_append_only.test_history_is_not_updated_by_any_door",
    "versions_are_made_only_in_mutate": "test_append_only.test_versions_are_made_only_through_the_door",
    "versions_are_never_emptied": "test_append_only.test_history_is_not_emptied_by_any_door",
}
"""Of every trigger, the test that goes red without it."""

TRIGGERS_OF_TABLES = """
SELECT t.tgname, t.tgenabled::text
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE c.relnamespace = 'assent'::regnamespace AND NOT t.tgisinternal AND t.tgparentid = 0
"""

UNUSED_TRIGGER_FUNCTIONS = """
SELECT p.proname
  FROM pg_proc p
 WHERE p.pronamespace = 'assent'::regnamespace AND p.prorettype = 'trigger'::regtype
   AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgfoid = p.oid)
"""

INDEXES = """
SELECT i.relname, c.relname || ' ' || regexp_replace(pg_get_indexdef(i.oid), '^.* USING btree ', '')
  FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class c ON c.oid = x.indrelid
 WHERE c.relnamespace = 'assent'::regnamespace AND NOT c.relispartition
"""

TO_PROCESS = "(status, retry_at, created_at) WHERE (status = ANY (ARRAY['pending'::text, 'failed'::text]))"

SEED_INDEXES = {
    "workflow_definitions_pkey": "workflow_definitions (org_id, id)",
    "definition_version_is_unique": "workflow_definitions (org_id, definition_kind, key, version)",
    "definitions_by_entity_type": "workflow_definitions (org_id, entity_type, status)",
    "one_active_instance_per_entity": (
        "workflow_instances (org_id, entity_type, entity_id)"
        " WHERE (status = ANY (ARRAY['running'::text, 'paused'::text]))"
    ),
    "instances_by_entity": "workflow_instances (org_id, entity_type, entity_id)",
    "instances_by_status": "workflow_instances (org_id, status, updated_at)",
    "instances_by_definition": "workflow_instances (org_id, definition_id)",
    "workflow_step_executions_pkey": "workflow_step_executions (org_id, created_at, id)",
    "steps_by_instance": "workflow_step_executions (org_id, instance_id, created_at)",
    "steps_by_snapshot": (
        "workflow_step_executions (org_id, snapshot_version_id) WHERE (snapshot_version_id IS NOT NULL)"
    ),
    "steps_to_resume": (
        "workflow_step_executions (org_id, resume_at)"
        " WHERE ((resume_at IS NOT NULL) AND (status = 'pending'::text))"
    ),
    "steps_waiting_for_event": (
        "workflow_step_executions (org_id, waiting_for_event_key)"
        " WHERE ((status = 'pending'::text) AND (waiting_for_event_key IS NOT NULL))"
    ),
    "workflow_step_receipts_pkey": "workflow_step_receipts (org_id, instance_id, idempotency_key)",
    "workflow_events_outbox_pkey": "workflow_events_outbox (org_id, created_at, id)",
    "events_to_process": f"workflow_events_outbox {TO_PROCESS}",
    "events_by_instance": "workflow_events_outbox (org_id, instance_id)",
    "effects_by_instance": "effects (org_id, instance_id)",
    "effects_by_step": "effects (org_id, step_id)",
    "workflow_outbox_receipts_pkey": (
        "workflow_outbox_receipts (org_id, instance_id, source_table, event_idempotency_key)"
    ),
    "instance_idempotency_key_is_unique": "workflow_instances (org_id, idempotency_key)",
}
"""The indexes of seed 004, with the org in front of the partitioned primary keys (D12) and kinds (D31)."""


async def test_every_trigger_is_enabled_and_has_a_test(owner):
    found = dict(await owner.fetch(TRIGGERS_OF_TABLES))
    assert set(found) == set(TRIGGERS)
    assert set(found.values()) == {"O"}


def test_tests_of_triggers_exist():
    folder = Path(__file__).parent
    for claim in set(TRIGGERS.values()):
        module, test = claim.split(".")
        assert f"async def {test}(" in (folder / f"{module}.py").read_text(), claim


async def test_every_trigger_function_is_used(owner):
    assert await owner.fetch(UNUSED_TRIGGER_FUNCTIONS) == []


async def test_indexes_of_the_seed_are_there(owner):
    found = dict(await owner.fetch(INDEXES))
    assert {name: found.get(name) for name in SEED_INDEXES} == SEED_INDEXES


async def test_no_index_is_invalid(owner):
    assert await owner.fetch("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid") == []


async def test_everything_is_in_the_one_schema(owner):
    elsewhere = await owner.fetch(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname NOT IN ('assent', 'pg_catalog', 'information_schema', 'pg_toast')"
        " AND n.nspname NOT LIKE 'pg_temp%'"
    )
    assert elsewhere == []
