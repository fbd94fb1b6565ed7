-- name: create_seconds
-- Answers the seconds of a range, the oldest first: how long ago, and how a UUIDv7 of that second begins.
CREATE FUNCTION pg_temp.seconds(first integer, last integer) RETURNS TABLE (second integer, ago interval, stamp text)
LANGUAGE sql STABLE AS $$
  SELECT s, make_interval(secs => s),
         overlay(lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - s * 1000), 12, '0') PLACING '-' FROM 9 FOR 0)
    FROM generate_series(last, first, -1) AS s
  OFFSET 0 -- or the stamp would be worked out anew for every row that bears it
$$;

-- name: create_stamped
-- Takes a UUIDv7 to another second.
CREATE FUNCTION pg_temp.stamped(id uuid, stamp text) RETURNS uuid
LANGUAGE sql IMMUTABLE
RETURN overlay(id::text PLACING stamp FROM 1 FOR 13)::uuid;

-- name: create_other
-- Makes another key out of a key.
CREATE FUNCTION pg_temp.other(key text, second integer) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN encode(sha256((key || second::text)::bytea), 'hex');

-- name: skip_triggers
-- Spares the copies what the originals have been checked for.
SET session_replication_role = replica;

-- name: keep_originals
-- Remembers which instances are originals: those that ended.
CREATE TEMPORARY TABLE original AS
SELECT org_id, id FROM assent.workflow_instances WHERE status = 'completed';

-- name: copy_instances
-- Copies the originals to each second of a range.
INSERT INTO assent.workflow_instances (org_id, id, definition_id, definition_version, definition_hash, workflow_id,
       entity_version, subject_id, status, active_tokens, current_nodes, context_json, version,
       last_step_id, started_at, updated_at, completed_at)
SELECT i.org_id, pg_temp.stamped(i.id, stamp), definition_id, definition_version, definition_hash, workflow_id,
       entity_version, subject_id, status, active_tokens, current_nodes, context_json, version,
       pg_temp.stamped(last_step_id, stamp), started_at - ago, updated_at - ago, completed_at - ago
  FROM pg_temp.seconds($1::integer, $2::integer)
 CROSS JOIN (SELECT i.* FROM original JOIN assent.workflow_instances i USING (org_id, id) ORDER BY id) i;

-- name: copy_steps
-- Copies the originals' steps to each second of a range.
INSERT INTO assent.workflow_step_executions (org_id, created_at, id, instance_id, node_id, node_type, token_id,
       entity_version, status, run_as, idempotency_key, started_at, completed_at, duration_ms, input_json,
       output_json, actor_user_id)
SELECT org_id, created_at - ago, pg_temp.stamped(id, stamp), pg_temp.stamped(instance_id, stamp), node_id, node_type,
       token_id, entity_version, status, run_as, pg_temp.other(idempotency_key, second), started_at - ago,
       completed_at - ago, duration_ms, input_json, output_json, actor_user_id
  FROM pg_temp.seconds($1::integer, $2::integer)
 CROSS JOIN (SELECT t.* FROM original o JOIN assent.workflow_step_executions t
              ON t.org_id = o.org_id AND t.instance_id = o.id ORDER BY instance_id, t.id) t;

-- name: copy_step_receipts
-- Copies the originals' receipts to each second of a range.
INSERT INTO assent.workflow_step_receipts (org_id, instance_id, idempotency_key, step_id, created_at)
SELECT org_id, pg_temp.stamped(instance_id, stamp), pg_temp.other(idempotency_key, second),
       pg_temp.stamped(step_id, stamp), created_at - ago
  FROM pg_temp.seconds($1::integer, $2::integer)
 CROSS JOIN (SELECT r.* FROM original o JOIN assent.workflow_step_receipts r
              ON r.org_id = o.org_id AND r.instance_id = o.id ORDER BY instance_id) r;

-- name: copy_events
-- Copies the originals' events to each second of a range.
INSERT INTO assent.workflow_events_outbox (org_id, created_at, id, instance_id, entity_version, definition_version,
       event_type, payload_json, event_idempotency_key, trace_id, status, attempts, max_attempts, completed_at)
SELECT org_id, created_at - ago, pg_temp.stamped(id, stamp), pg_temp.stamped(instance_id, stamp),
       entity_version, definition_version, event_type, payload_json, pg_temp.other(event_idempotency_key, second), trace_id,
       status, attempts, max_attempts, completed_at - ago
  FROM pg_temp.seconds($1::integer, $2::integer)
 CROSS JOIN (SELECT e.* FROM original o JOIN assent.workflow_events_outbox e
              ON e.org_id = o.org_id AND e.instance_id = o.id ORDER BY instance_id, e.id) e;

-- name: copy_event_receipts
-- Copies the receipts of the originals' events to each second of a range.
INSERT INTO assent.workflow_outbox_receipts (org_id, instance_id, source_table, event_idempotency_key, created_at)
SELECT org_id, pg_temp.stamped(instance_id, stamp), source_table, pg_temp.other(event_idempotency_key, second),
       created_at - ago
  FROM pg_temp.seconds($1::integer, $2::integer)
 CROSS JOIN (SELECT r.* FROM original o JOIN assent.workflow_outbox_receipts r
              ON r.org_id = o.org_id AND r.instance_id = o.id ORDER BY instance_id) r;
