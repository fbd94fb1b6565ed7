-- name: expire_requests
-- Ends requests whose time is over, earliest first, and skips those that another worker holds.
WITH due AS (
  SELECT org_id, id FROM assent.outside_requests
   WHERE status IN ('pending', 'partial') AND expires_at <= $2
   ORDER BY expires_at LIMIT $1
   FOR NO KEY UPDATE SKIP LOCKED
), expired AS (
  UPDATE assent.outside_requests r SET status = 'expired', ended_at = $2
    FROM due d WHERE r.org_id = d.org_id AND r.id = d.id
  RETURNING r.org_id, r.id, r.instance_id, r.step_id, r.expected, r.received, r.failed, r.status,
            r.error, r.trace_id
), told AS (
  INSERT INTO assent.outside_request_history (org_id, id, request_id, what, source, at)
  SELECT org_id, gen_random_uuid(), id, 'expired', 'clock', $2 FROM expired
)
SELECT * FROM expired;

-- name: fail_requests
-- Ends open requests whose call was given up. Rows are locked in the order in which deliveries lock them.
WITH lost AS MATERIALIZED (
  SELECT r.org_id, r.id, l.error
    FROM unnest($1::text[], $2::uuid[], $3::text[]) AS l (org_id, id, error)
    JOIN assent.outside_requests r ON r.org_id = l.org_id AND r.id = l.id
   WHERE r.ended_at IS NULL
   ORDER BY r.org_id, r.id
   FOR NO KEY UPDATE OF r
), failed AS (
  UPDATE assent.outside_requests r SET status = 'failed', error = l.error, ended_at = $4
    FROM lost l WHERE r.org_id = l.org_id AND r.id = l.id AND r.ended_at IS NULL
  RETURNING r.org_id, r.id, r.instance_id, r.step_id, r.expected, r.received, r.failed, r.status,
            r.error, r.trace_id
), told AS (
  INSERT INTO assent.outside_request_history (org_id, id, request_id, what, source, body, at)
  SELECT org_id, gen_random_uuid(), id, 'failed', 'call', jsonb_build_object('error', error), $4 FROM failed
)
SELECT * FROM failed;
