-- name: create_number
-- Makes a UUIDv7 of a kind of row out of its org's number and its own: so ids sort by time, and rows find each other.
CREATE FUNCTION pg_temp.made_id(kind integer, org integer, number integer) RETURNS uuid
LANGUAGE sql IMMUTABLE
RETURN (lpad(to_hex(1760000000000 + number::bigint), 12, '0') || '7' || lpad(to_hex(kind), 3, '0') || '8'
        || lpad(to_hex(org), 7, '0') || lpad(to_hex(number), 8, '0'))::uuid;

-- name: create_made
-- Which instances there are: $1 in org 0 and $2 in each of $3 others. Of each hundred of an org the last is open, and of each
-- thousand one is paused and one has failed; when each was last changed, in minutes before now.
CREATE TEMPORARY TABLE made ON COMMIT DROP AS
SELECT 'o' || lpad(org::text, 5, '0') AS org_id, org, number, pg_temp.made_id(1, org, number) AS id,
       CASE WHEN number % 100 = 99 THEN 'running' WHEN number % 1000 = 500 THEN 'paused'
            WHEN number % 1000 = 501 THEN 'failed' ELSE 'completed' END AS status,
       assent.now() - make_interval(secs => 60 + (CASE org WHEN 0 THEN $1 ELSE $2 END - number) * 2) AS at
  FROM generate_series(0, $3::integer) AS org, generate_series(0, CASE org WHEN 0 THEN $1::integer ELSE $2::integer END - 1) AS number;

-- name: make_instances
-- Instances of a flow that asks one person.
INSERT INTO assent.workflow_instances (org_id, id, definition_id, definition_version, definition_hash, workflow_id, subject_id,
       status, incident, current_nodes, started_at, updated_at, completed_at)
SELECT org_id, id, pg_temp.made_id(2, 0, 0), 1, 'made', 'review', 'u' || number % 50, status,
       CASE WHEN status IN ('paused', 'failed') THEN '{"code": "EFFECT_DEAD", "message": "made", "node": "send"}'::jsonb END,
       CASE WHEN status = 'running' THEN ARRAY['ask'] ELSE '{}' END, at, at,
       CASE WHEN status IN ('completed', 'failed') THEN at END
  FROM made ORDER BY org_id, number;

-- name: make_steps
-- Three steps of each; the last of an open one waits.
INSERT INTO assent.workflow_step_executions (org_id, created_at, id, instance_id, node_id, node_type, token_id, entity_version,
       status, idempotency_key, completed_at, output_json)
SELECT org_id, at, pg_temp.made_id(10 + step, org, number), id, 'n' || step, 'approval', '0', 0,
       CASE WHEN status = 'running' AND step = 3 THEN 'pending' ELSE 'completed' END, step::text,
       CASE WHEN status = 'running' AND step = 3 THEN NULL ELSE at END, '{}'
  FROM made CROSS JOIN generate_series(1, 3) AS step ORDER BY org_id, made.at, number, step;

-- name: make_events
-- One event of each that was processed, and one dead one of each thousand.
INSERT INTO assent.workflow_events_outbox (org_id, created_at, id, instance_id, event_type, event_idempotency_key, status,
       attempts, completed_at, error)
SELECT org_id, at, pg_temp.made_id(3, org, number), id, 'on_start', pg_temp.made_id(3, org, number)::text,
       CASE number % 1000 WHEN 502 THEN 'dead' ELSE 'completed' END, 1,
       CASE number % 1000 WHEN 502 THEN NULL ELSE at + interval '20 milliseconds' END,
       CASE number % 1000 WHEN 502 THEN 'made' END
  FROM made ORDER BY org_id, made.at, number;

-- name: make_requests
-- A request for each open one, and one that was decided for the others.
INSERT INTO assent.approval_requests (org_id, id, instance_id, step_id, node_id, entity_version, approvers, requested_by, status,
       slot, created_at)
SELECT org_id, pg_temp.made_id(4, org, number), id, pg_temp.made_id(13, org, number), 'n3', 0, '[]', 'u' || number % 50,
       CASE status WHEN 'running' THEN 'pending' ELSE 'rejected' END, 'ask', at
  FROM made ORDER BY org_id, number;

-- name: make_seats
-- Its seat; a tenth of an org's open ones are of the approver u1.
INSERT INTO assent.workflow_seats (org_id, id, request_id, instance_id, user_id, group_name, position, via, status, created_at)
SELECT org_id, pg_temp.made_id(5, org, number), pg_temp.made_id(4, org, number), id,
       CASE WHEN number / 100 % 10 = 0 THEN 'u1' ELSE 'u' || 2 + number / 100 % 48 END, 'all', 1, 'user',
       CASE status WHEN 'running' THEN 'open' ELSE 'decided' END, at
  FROM made ORDER BY org_id, number;

-- name: make_audit
-- Two entries for each instance, of which one in ten thousand is of a rare action.
INSERT INTO assent.audit_log (org_id, id, at, actor_id, actor_kind, actor_roles, action, subject_kind, subject_id, details,
       changes, channel, instance_id)
SELECT org_id, pg_temp.made_id(20 + entry, org, number), at, 'u' || number % 50, 'user', '{}',
       CASE WHEN entry = 1 THEN 'start' WHEN number % 10000 = 777 THEN 'cancel' ELSE 'decide' END, 'instance', id::text, '{}',
       '{}', 'http', id
  FROM made CROSS JOIN generate_series(1, 2) AS entry ORDER BY org_id, number, entry;

-- name: learn_statistics
-- What autovacuum does in a database that grew day by day.
ANALYZE assent.workflow_instances, assent.workflow_step_executions, assent.workflow_events_outbox, assent.approval_requests,
  assent.workflow_seats, assent.audit_log;
