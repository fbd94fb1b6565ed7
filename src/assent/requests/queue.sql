-- name: claim_deliveries
-- Claims bundles that are due for a worker, of every org one before anybody's second, and skips those that another worker
-- holds; suspects are not among them.
WITH RECURSIVE org AS (
  -- From org to org by the index of what is pending: each costs one look, however much waits there.
  (SELECT org_id FROM assent.outside_request_deliveries WHERE status = 'pending' ORDER BY org_id LIMIT 1)
  UNION ALL
  SELECT following.org_id FROM org CROSS JOIN LATERAL (
    SELECT d.org_id FROM assent.outside_request_deliveries d
     WHERE d.status = 'pending' AND d.org_id > org.org_id ORDER BY d.org_id LIMIT 1) AS following
), due AS (
  SELECT found.* FROM org CROSS JOIN LATERAL (
    SELECT d.org_id, d.id, row_number() OVER (ORDER BY d.next_try_at, d.position) AS turn
      FROM assent.outside_request_deliveries d
     WHERE d.org_id = org.org_id AND d.status = 'pending' AND d.next_try_at <= assent.now()
       AND d.worker_id IS NULL AND NOT d.suspect
     ORDER BY d.next_try_at, d.position LIMIT $1) AS found
), chosen AS MATERIALIZED (
  SELECT org_id, id, turn FROM due ORDER BY turn, org_id LIMIT $1
), free AS MATERIALIZED (
  SELECT d.org_id, d.id FROM chosen c JOIN assent.outside_request_deliveries d ON d.org_id = c.org_id AND d.id = c.id
   WHERE d.status = 'pending' AND d.worker_id IS NULL
     FOR UPDATE OF d SKIP LOCKED
), claimed AS (
  UPDATE assent.outside_request_deliveries d SET worker_id = $2, attempts = d.attempts + 1, claimed_at = assent.now()
    FROM free f WHERE d.org_id = f.org_id AND d.id = f.id
  RETURNING d.org_id, d.id, d.request_id, d.attempts, d.position
)
SELECT c.org_id, c.id, c.request_id, c.attempts, h.body
  FROM claimed c LEFT JOIN assent.outside_request_history h ON h.org_id = c.org_id AND h.id = c.id
 ORDER BY c.position;

-- name: claim_suspect_delivery
-- Claims the bundle that is due first of those that may have killed a worker.
WITH chosen AS MATERIALIZED (
  SELECT org_id, id FROM assent.outside_request_deliveries
   WHERE status = 'pending' AND suspect AND worker_id IS NULL AND next_try_at <= assent.now()
   ORDER BY next_try_at, position LIMIT 1
     FOR UPDATE SKIP LOCKED
), claimed AS (
  UPDATE assent.outside_request_deliveries d SET worker_id = $1, attempts = d.attempts + 1, claimed_at = assent.now()
    FROM chosen c WHERE d.org_id = c.org_id AND d.id = c.id
  RETURNING d.org_id, d.id, d.request_id, d.attempts
)
SELECT c.org_id, c.id, c.request_id, c.attempts, h.body
  FROM claimed c LEFT JOIN assent.outside_request_history h ON h.org_id = c.org_id AND h.id = c.id;

-- name: hold_if_claimed
-- Holds bundles until the transaction ends, those that this worker still has for that attempt.
SELECT d.id FROM unnest($2::text[], $3::uuid[], $4::integer[]) AS m (org_id, id, attempt)
  JOIN assent.outside_request_deliveries d ON d.org_id = m.org_id AND d.id = m.id
 WHERE d.worker_id = $1 AND d.attempts = m.attempt AND d.status = 'pending'
 ORDER BY d.org_id, d.id
   FOR NO KEY UPDATE OF d;

-- name: record_failures_if_claimed
-- Attempts that failed, each only if this worker still has the bundle: later again, or dead letters.
UPDATE assent.outside_request_deliveries d
   SET status = f.status, error = f.error, worker_id = NULL,
       next_try_at = coalesce(assent.now() + make_interval(secs => f.retry_after_s), d.next_try_at)
  FROM jsonb_to_recordset($1::jsonb) AS f (
         org_id text, id uuid, attempt integer, status text, error text, retry_after_s double precision)
 WHERE d.org_id = f.org_id AND d.id = f.id AND d.status = 'pending' AND d.worker_id = $2 AND d.attempts = f.attempt;

-- name: give_back_unknown
-- Gives back the bundles that are recorded as claimed by this worker and that it does not know to be under way: the answer
-- to its claim was lost. The attempt does not count.
WITH given AS (
  UPDATE assent.outside_request_deliveries d SET attempts = d.attempts - 1, worker_id = NULL
   WHERE d.worker_id = $1
     AND NOT EXISTS (SELECT FROM unnest($2::text[], $3::uuid[], $4::integer[]) AS known (org_id, id, attempt)
                      WHERE known.org_id = d.org_id AND known.id = d.id AND known.attempt = d.attempts)
  RETURNING d.id
)
SELECT count(*) AS given, CASE WHEN count(*) > 0 THEN pg_notify('assent_results', '') END FROM given;

-- name: rescue_deliveries
-- Puts bundles back whose worker's lease is over. One that its worker had by itself, or as a suspect, has used an attempt, and
-- without attempts left it is a dead letter. The others are suspects, due at once, and the attempt does not count.
WITH lost AS MATERIALIZED (
  SELECT d.org_id, d.id, d.suspect OR w.jobs = 1 AS charged
    FROM unnest($1::uuid[], $2::integer[]) AS w (worker_id, jobs)
    JOIN assent.outside_request_deliveries d ON d.worker_id = w.worker_id
   LIMIT $3 FOR UPDATE OF d SKIP LOCKED
), rescued AS (
  UPDATE assent.outside_request_deliveries d
     SET status = CASE WHEN l.charged AND d.attempts >= $4 THEN 'dead_letter' ELSE 'pending' END,
         attempts = CASE WHEN l.charged THEN d.attempts ELSE d.attempts - 1 END, worker_id = NULL,
         error = format('its worker took it at %s and did not finish', d.claimed_at), losses = d.losses + 1, suspect = true,
         next_try_at = CASE WHEN l.charged THEN assent.now() + least(300, 2 ^ d.losses - 1) * interval '1 second'
                            ELSE d.next_try_at END
    FROM lost l WHERE d.org_id = l.org_id AND d.id = l.id
  RETURNING d.status
), notified AS (
  SELECT pg_notify('assent_results', '') FROM rescued WHERE status = 'pending' LIMIT 1
)
SELECT r.status, (SELECT count(*) FROM notified) AS notifications FROM rescued r;

-- name: list_open_deliveries
-- The bundles of an org that are still to be folded, the oldest first.
SELECT d.id, r.name AS what, d.status, r.instance_id, d.received_at AS created_at, d.attempts,
       CASE WHEN d.attempts > 0 THEN d.next_try_at END AS next_retry_at, d.error
  FROM assent.outside_request_deliveries d JOIN assent.outside_requests r ON r.org_id = d.org_id AND r.id = d.request_id
 WHERE d.org_id = $1 AND d.status = 'pending' ORDER BY d.next_try_at, d.position LIMIT $2;

-- name: list_dead_deliveries
-- The bundles that were given up, newest first.
SELECT d.org_id, d.id, d.request_id, d.key, d.source, d.attempts, d.error, d.received_at, r.name, r.instance_id, r.trace_id
  FROM assent.outside_request_deliveries d JOIN assent.outside_requests r ON r.org_id = d.org_id AND r.id = d.request_id
 WHERE d.org_id = $1 AND d.status = 'dead_letter'
 ORDER BY d.received_at DESC, d.id DESC LIMIT $2;

-- name: revive_deliveries
-- Puts dead letters back, one or all of the org, with all their attempts, and wakes the workers.
WITH revived AS (
  UPDATE assent.outside_request_deliveries SET status = 'pending', attempts = 0, error = NULL, next_try_at = assent.now()
   WHERE org_id = $1 AND status = 'dead_letter' AND ($2::uuid IS NULL OR id = $2)
  RETURNING id
)
SELECT count(*) AS revived, CASE WHEN count(*) > 0 THEN pg_notify('assent_results', '') END FROM revived;
