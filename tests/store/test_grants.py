"""What the engine's role may do at all: tried privilege by privilege, against the whole list."""

# ruff: noqa: S608 - the names of tables come from the catalogue

from assent.store.roles import CLIENT_ROLE, ENGINE_ROLE
from tests.plain_sql import PRIVILEGE, acting_for, refusal_of, refused
from tests.rows import change, insert_entity, insert_one_of_each, insert_step, update

READ = {"SELECT"}
APPEND = {"SELECT", "INSERT"}
MOVE = {"SELECT", "INSERT", "UPDATE"}
KEEP = {"SELECT", "INSERT", "UPDATE", "DELETE"}

MAY = {
    "schema_migrations": set(),
    "schema_grants": set(),
    "orgs": READ | {"UPDATE name settings"},
    "members": KEEP,
    "role_capabilities": KEEP,
    "api_keys": APPEND | {"UPDATE revoked_at"},
    "sessions": APPEND | {"UPDATE expires_at previous_hash renewed_at revoked_at token_hash", "DELETE"},
    "entities": READ,
    "entity_versions": READ,
    "unique_values": set(),
    "entity_indexes": READ,
    "indexed_values": READ,
    "saved_filters": KEEP,
    "number_series": set(),
    "audit_log": READ,
    "workflow_definitions": KEEP,
    "workflow_instances": MOVE,
    "workflow_step_executions": APPEND
    | {
        "UPDATE applied approval_request_id completed_at duration_ms error output_json resume_at"
        " started_at status waiting_for_event_key"
    },
    "workflow_step_receipts": APPEND,
    "workflow_events_outbox": MOVE,
    "workflow_kept_events": APPEND | {"DELETE"},
    "workflow_batches": set(),
    "effects": APPEND,
    "workflow_outbox_receipts": APPEND,
    "effect_secrets": set(),
    "alerted_incidents": set(),
    "alert_times": set(),
    "mail_templates": KEEP,
    "decision_link_uses": APPEND,
    "member_preferences": APPEND
    | {"UPDATE digest_hour digested_on language links_to mails time_zone updated_at"},
    "named_secrets": set(),
    "event_sources": {"SELECT key_prefix org_id"},
    "approval_chains": KEEP,
    "approval_chain_steps": KEEP,
    "approval_requests": APPEND
    | {
        "UPDATE applied_at applied_step_id claimed_at claimed_by decided_at originators questions reason status"
    },
    "comments": APPEND | {"UPDATE answer answered_at closed_at"},
    "approval_decisions": APPEND,
    "workflow_seats": APPEND | {"UPDATE closed_at note status"},
    "workflow_forms": APPEND
    | {
        "UPDATE claimed_at claimed_by draft_at draft_by draft_json draft_problems ended_at reason status",
    },
    "outside_requests": APPEND | {"UPDATE ended_at error status"},
    "outside_request_deliveries": APPEND,
    "outside_request_items": READ,
    "dead_messages": APPEND,
    "incoming_results": set(),
    "outside_request_history": APPEND,
    "document_requirements": APPEND
    | {
        "UPDATE attempt_count document_id rejection_code rejection_reason reminded_at request_id requested_at"
        " required_state revision satisfied_at status updated_at valid_to version_id waived_by"
    },
    "documents": APPEND,
    "document_versions": APPEND
    | {
        "UPDATE blob_ref erased_at erased_by extracted_at extraction_confidence ocr_extracted quality_score"
        " rejection_code rejection_reason request_id status structured_data valid_from valid_to verified_at verified_by"
    },
    "blobs": APPEND
    | {
        "DELETE",
        "UPDATE delete_at delete_error deleted_at deletions entity_id file_name found_type sha256 size_bytes status",
    },
    "upload_links": APPEND | {"UPDATE revoked_at revoked_by"},
    "document_events": APPEND,
    "rejection_codes": APPEND
    | {"UPDATE category client_message next_action ops_message retryable translations"},
    "approval_delegations": APPEND | {"UPDATE revoked_at"},
    "approval_turns": APPEND | {"UPDATE last_at"},
    "jobs": APPEND | {"UPDATE attempts_max ended_at resolved run_at status suspect worker_id"},
    "task_submissions": APPEND,
    "job_attempts": APPEND,
    "task_keys": APPEND,
    "task_progress": MOVE,
    "task_log_lines": APPEND,
    "workflow_start_keys": APPEND,
    "worker_leases": set(),
    "declared_names": set(),
    "resources": set(),
    "task_throttles": APPEND,
    "rate_starts": set(),
    "task_waiters": APPEND | {"DELETE"},
    "nodes": set(),
    "schedules": KEEP,
    "task_joins": set(),
    "workflow_rules": KEEP,
    "workflow_rule_evaluations": APPEND,
    "step_compactions": set(),
    "step_evidence": READ,
    "http_replies": APPEND
    | {"UPDATE about body created_at expires_at headers media_type request_hash status", "DELETE"},
}
"""What assent_engine may do. A set of columns stands where it may read or update only those; partitions: nothing."""

RELATIONS = """
SELECT c.relname, c.relispartition, array_agg(a.attname::text ORDER BY a.attname) AS columns
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
 WHERE c.relnamespace = 'assent'::regnamespace AND c.relkind IN ('r', 'p')
 GROUP BY c.oid
"""

FUNCTIONS = """
SELECT p.proname
  FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) acl
 WHERE p.pronamespace = 'assent'::regnamespace AND acl.grantee = coalesce(to_regrole($1)::oid, 0)
 ORDER BY 1
"""


async def is_permitted(connection, sql):
    """Try a statement that touches no row: what it may not do at all, PostgreSQL refuses all the same."""
    error = await refusal_of(connection, connection.execute(sql))
    assert error is None or (error.sqlstate == PRIVILEGE and "permission denied" in str(error)), error
    return error is None


async def rights(connection, table, columns):
    tries = {
        "INSERT": f"INSERT INTO assent.{table} SELECT * FROM assent.{table} WHERE false",
        "DELETE": f"DELETE FROM assent.{table} WHERE false",
        "TRUNCATE": f"TRUNCATE assent.{table}",
    }
    may = {right for right, sql in tries.items() if await is_permitted(connection, sql)}
    by_column = {
        "SELECT": f"SELECT {{0}} FROM assent.{table} WHERE false",
        "UPDATE": f"UPDATE assent.{table} SET {{0}} = NULL WHERE false",
    }
    for right, sql in by_column.items():
        permitted = [name for name in columns if await is_permitted(connection, sql.format(name))]
        if permitted:
            may.add(right if permitted == columns else f"{right} {' '.join(permitted)}")
    return may


async def test_application_can_do_to_each_table_what_the_list_says_and_nothing_else(owner):
    relations = await owner.fetch(RELATIONS)
    async with acting_for(owner, "acme"):
        found = {name: await rights(owner, name, columns) for name, _, columns in relations}
    partitions = {name for name, is_partition, _ in relations if is_partition}
    assert {name: rights for name, rights in found.items() if name not in partitions} == MAY
    assert {name for name in partitions if found[name]} == set()


async def test_plain_writes_to_entities_as_the_application_fail(owner):
    entity = await insert_entity(owner)
    async with acting_for(owner, "acme"):
        for sql in (
            "UPDATE assent.entities SET state = 'paid'",
            "INSERT INTO assent.entities SELECT * FROM assent.entities",
            "DELETE FROM assent.entities",
            "TRUNCATE assent.entities CASCADE",
        ):
            async with refused(owner, PRIVILEGE, saying="permission denied"):
                await owner.execute(sql)
    state = await owner.fetchval("SELECT state FROM assent.entities WHERE id = $1", entity["id"])
    assert state == "draft"


async def test_view_of_current_entities_is_read_with_the_rights_of_the_reader_and_not_written(owner):
    options = "SELECT reloptions FROM pg_class WHERE oid = 'assent.current_entities'::regclass"
    assert await owner.fetchval(options) == ["security_invoker=true"]
    async with acting_for(owner, "acme"), refused(owner, "55000", saying="cannot update view"):
        await owner.execute("UPDATE assent.current_entities SET state = 'paid'")


async def test_application_that_opens_the_door_for_itself_still_has_no_right_to_go_through(owner):
    await insert_one_of_each(owner, "acme")
    async with acting_for(owner, "acme"):
        for door, sql in (
            ("mutate", "UPDATE assent.entities SET state = 'paid'"),
            ("advance", "UPDATE assent.entities SET edit_window = 'editable'"),
            ("prune", "DELETE FROM assent.workflow_step_receipts"),
            ("prune", "DELETE FROM assent.workflow_outbox_receipts"),
        ):
            await owner.execute("SELECT set_config('assent.door', $1, true)", door)
            async with refused(owner, PRIVILEGE, saying="permission denied for table"):
                await owner.execute(sql)


async def test_application_cannot_give_a_step_another_actor(owner):
    step = await insert_step(owner)
    async with acting_for(owner, "acme"):
        async with refused(owner, PRIVILEGE, saying="permission denied"):
            await update(owner, "workflow_step_executions", step, actor_user_id="mallory")
        assert await update(owner, "workflow_step_executions", step, output_json={"ok": True}) == 1


async def test_no_function_can_be_executed_by_everybody(owner):
    assert await owner.fetch(FUNCTIONS, "nobody-of-this-name") == []


async def test_application_can_execute_the_functions_of_this_list_only(owner):
    assert [found["proname"] for found in await owner.fetch(FUNCTIONS, ENGINE_ROLE)] == [
        "agreed_groups",
        "bundle_problem",
        "cancel_tasks",
        "complete_task",
        "complete_task_by",
        "draw_numbers",
        "emit_event",
        "fail",
        "fail_task",
        "input_hash",
        "is_blank",
        "is_cargo",
        "is_declared",
        "is_enough",
        "is_readable",
        "item_problem",
        "keep_deliveries",
        "keep_delivery",
        "list_nodes",
        "list_resources",
        "lock_entities",
        "new_id",
        "newest_contract",
        "note_commands",
        "note_refusals",
        "notify_waiters",
        "now",
        "open_targets",
        "open_targets_of_orgs",
        "org_id",
        "people_of_task",
        "push_result",
        "questions_to",
        "set_edit_windows",
        "skeleton_of_id",
        "status_may_move",
        "submit_task",
        "takes_part",
        "waiting_for",
        "whole_output",
        "write_entities",
    ]


async def test_application_cannot_run_maintenance(owner):
    async with acting_for(owner, "acme"), refused(owner, PRIVILEGE, saying="ensure_partitions"):
        await owner.execute("SELECT assent.ensure_partitions()")


async def test_functions_that_run_as_the_owner_look_names_up_nowhere_else(owner):
    found = await owner.fetch(
        "SELECT proname, proconfig FROM pg_proc WHERE pronamespace = 'assent'::regnamespace AND prosecdef"
    )
    assert {name for name, _ in found} == {
        "lock_entities",
        "write_entities",
        "set_edit_windows",
        "note_commands",
        "note_refusals",
        "note_administration",
        "draw_numbers",
        "emit_event",
        "list_resources",
        "submit_task",
        "complete_task",
        "complete_task_by",
        "fail_task",
        "push_result",
        "keep_deliveries",
        "take_incoming_results",
        "is_declared",
        "list_nodes",
        "emit_completions",
        "emit_versions",
        "read_walls",
        "guard_asked_content",
        "guard_gate",
    }
    assert all("search_path=pg_catalog, pg_temp" in config for _, config in found)


async def test_only_the_two_roles_may_use_the_schema_and_nobody_may_create_in_it(owner):
    found = await owner.fetch(
        "SELECT coalesce(r.rolname, 'everybody'), acl.privilege_type"
        " FROM pg_namespace n CROSS JOIN aclexplode(n.nspacl) acl LEFT JOIN pg_roles r ON r.oid = acl.grantee"
        " WHERE n.nspname = 'assent' AND acl.grantee <> n.nspowner"
    )
    assert {tuple(right) for right in found} == {(ENGINE_ROLE, "USAGE"), (CLIENT_ROLE, "USAGE")}


async def test_application_writes_entities_through_the_function(owner):
    created = change()
    async with acting_for(owner, "acme"):
        await owner.execute("SELECT assent.write_entities($1::jsonb, 1)", [created])
        data = await owner.fetchval(
            "SELECT data FROM assent.current_entities WHERE id = $1", created["entity_id"]
        )
    assert data == created["data"]
