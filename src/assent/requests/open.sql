-- name: open_requests
-- What steps ask of outside parties, with the arguments in the history.
WITH asked AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset($1::jsonb) AS r (
    org_id text, id uuid, partition_id text, instance_id uuid, step_id uuid, node_id text, token_id text, entity_type text,
    entity_id uuid, name text, expected integer, arguments jsonb, trace_id text, expires_at timestamptz,
    created_at timestamptz)
), opened AS (
  INSERT INTO assent.outside_requests (org_id, id, partition_id, instance_id, step_id, node_id, token_id, entity_type,
         entity_id, name, expected, trace_id, expires_at, created_at)
  SELECT org_id, id, partition_id, instance_id, step_id, node_id, token_id, entity_type, entity_id, name, expected,
         trace_id, expires_at, created_at FROM asked
)
INSERT INTO assent.outside_request_history (org_id, id, request_id, what, source, body, at)
SELECT org_id, gen_random_uuid(), id, 'asked', 'workflow', arguments, created_at FROM asked;

-- name: end_requests_of_steps
-- Closes what is still open of steps that ended. Rows are locked in the order in which deliveries lock them.
WITH ended AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset($1::jsonb) AS e (
    org_id text, step_id uuid, status text, reason text, ended_at timestamptz)
), open AS MATERIALIZED (
  SELECT r.org_id, r.id, e.status, e.reason, e.ended_at
    FROM ended e JOIN assent.outside_requests r ON r.org_id = e.org_id AND r.step_id = e.step_id
   WHERE r.ended_at IS NULL
   ORDER BY r.org_id, r.id
   FOR NO KEY UPDATE OF r
), closed AS (
  UPDATE assent.outside_requests r SET status = o.status, error = coalesce(o.reason, r.error), ended_at = o.ended_at
    FROM open o WHERE r.org_id = o.org_id AND r.id = o.id AND r.ended_at IS NULL
  RETURNING r.org_id, r.id, r.status, o.reason, r.ended_at
)
INSERT INTO assent.outside_request_history (org_id, id, request_id, what, source, body, at)
SELECT org_id, gen_random_uuid(), id, status, 'workflow', jsonb_build_object('reason', reason), ended_at FROM closed;
