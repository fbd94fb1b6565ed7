-- name: claim_deliveries
-- Takes bundles that are due, of every org one before anybody's second, and skips those that another worker holds.
WITH RECURSIVE org AS (
  -- From org to org by the index of what is pending: each costs one look, however much waits there.
  (SELECT org_id FROM assent.request_deliveries WHERE status = 'pending' ORDER BY org_id LIMIT 1)
  UNION ALL
  SELECT following.org_id FROM org CROSS JOIN LATERAL (
    SELECT d.org_id FROM assent.request_deliveries d
     WHERE d.status = 'pending' AND d.org_id > org.org_id ORDER BY d.org_id LIMIT 1) AS following
), due AS (
  SELECT found.* FROM org CROSS JOIN LATERAL (
    SELECT d.org_id, d.id, row_number() OVER (ORDER BY d.next_try_at, d.position) AS turn
      FROM assent.request_deliveries d
     WHERE d.org_id = org.org_id AND d.status = 'pending' AND d.next_try_at <= $2
     ORDER BY d.next_try_at, d.position LIMIT $1) AS found
), chosen AS MATERIALIZED (
  SELECT org_id, id, turn FROM due ORDER BY turn, org_id LIMIT $1
)
SELECT d.org_id, d.id, d.request_id, d.attempts, h.body
  FROM chosen c
  JOIN assent.request_deliveries d ON d.org_id = c.org_id AND d.id = c.id
  LEFT JOIN assent.request_history h ON h.org_id = c.org_id AND h.id = c.id
 WHERE d.status = 'pending'
 ORDER BY d.position
 FOR UPDATE OF d SKIP LOCKED;

-- name: claim_delivery
-- Takes one bundle, if nobody else has it.
SELECT d.org_id, d.id, d.request_id, d.attempts, h.body
  FROM assent.request_deliveries d LEFT JOIN assent.request_history h ON h.org_id = d.org_id AND h.id = d.id
 WHERE d.org_id = $1 AND d.id = $2 AND d.status = 'pending'
 FOR UPDATE OF d SKIP LOCKED;

-- name: record_failures
-- Attempts that failed: later again, or dead letters.
UPDATE assent.request_deliveries d
   SET status = f.status, attempts = d.attempts + 1, error = f.error, next_try_at = coalesce(f.next_try_at, d.next_try_at)
  FROM jsonb_to_recordset($1::jsonb) AS f (org_id text, id uuid, status text, error text, next_try_at timestamptz)
 WHERE d.org_id = f.org_id AND d.id = f.id AND d.status = 'pending';

-- name: list_open_deliveries
-- The bundles of an org that are still to be folded, the oldest first.
SELECT d.id, r.name AS what, d.status, r.instance_id, d.received_at AS created_at, d.attempts,
       CASE WHEN d.attempts > 0 THEN d.next_try_at END AS next_retry_at, d.error
  FROM assent.request_deliveries d JOIN assent.requests r ON r.org_id = d.org_id AND r.id = d.request_id
 WHERE d.org_id = $1 AND d.status = 'pending' ORDER BY d.next_try_at, d.position LIMIT $2;

-- name: list_dead_deliveries
-- The bundles that were given up, newest first.
SELECT d.org_id, d.id, d.request_id, d.key, d.source, d.attempts, d.error, d.received_at, r.name, r.instance_id, r.trace_id
  FROM assent.request_deliveries d JOIN assent.requests r ON r.org_id = d.org_id AND r.id = d.request_id
 WHERE d.org_id = $1 AND d.status = 'dead_letter'
 ORDER BY d.received_at DESC, d.id DESC LIMIT $2;

-- name: revive_deliveries
-- Puts dead letters back, one or all of the org, with all their attempts, and wakes the workers.
WITH revived AS (
  UPDATE assent.request_deliveries SET status = 'pending', attempts = 0, error = NULL, next_try_at = $3
   WHERE org_id = $1 AND status = 'dead_letter' AND ($2::uuid IS NULL OR id = $2)
  RETURNING id
)
SELECT count(*) AS revived, CASE WHEN count(*) > 0 THEN pg_notify('assent_results', '') END FROM revived;
