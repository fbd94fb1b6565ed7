-- name: read_deliveries
-- The bundles of claimed jobs, in the order in which they came.
SELECT d.id, d.request_id, h.body
  FROM unnest($1::text[], $2::uuid[]) AS j (org_id, id)
  JOIN assent.outside_request_deliveries d ON d.org_id = j.org_id AND d.id = j.id
  LEFT JOIN assent.outside_request_history h ON h.org_id = d.org_id AND h.id = d.id
 ORDER BY d.position;

-- name: lock_requests
-- Locks the requests of a batch in the order that every transaction uses: one that ends a request locks it before us or
-- after us.
SELECT r.org_id, r.id, r.instance_id, r.step_id, r.expected, r.received, r.failed, r.status, r.error,
       r.trace_id
  FROM unnest($1::text[], $2::uuid[]) AS wanted (org_id, id)
  JOIN assent.outside_requests r ON r.org_id = wanted.org_id AND r.id = wanted.id
 ORDER BY r.org_id, r.id
 FOR NO KEY UPDATE OF r;

-- name: find_known_cargo
-- What requests have of the cargo that comes now.
SELECT i.org_id, i.request_id, i.cargo
  FROM unnest($1::text[], $2::uuid[], $3::text[]) AS wanted (org_id, request_id, cargo)
  JOIN assent.outside_request_items i
    ON i.org_id = wanted.org_id AND i.request_id = wanted.request_id AND i.cargo = wanted.cargo;

-- name: insert_items
-- What is new, item by item.
INSERT INTO assent.outside_request_items (org_id, id, request_id, delivery_id, cargo, kind, status, error, received_at)
SELECT org_id, id, request_id, delivery_id, cargo, kind, status, error, received_at
  FROM jsonb_to_recordset($1::jsonb) AS i (
    org_id text, id uuid, request_id uuid, delivery_id uuid, cargo text, kind text, status text, error text,
    received_at timestamptz);

-- name: write_folded_requests
-- Where requests stand now; those that are decided say so in their history.
WITH folded AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset($1::jsonb) AS f (
    org_id text, id uuid, status text, received integer, failed integer, error text, ended_at timestamptz)
), written AS (
  UPDATE assent.outside_requests r
     SET status = f.status, received = f.received, failed = f.failed, error = f.error, ended_at = f.ended_at
    FROM folded f WHERE r.org_id = f.org_id AND r.id = f.id AND r.ended_at IS NULL
  RETURNING r.*
)
INSERT INTO assent.outside_request_history (org_id, id, request_id, what, source, body, at)
SELECT org_id, gen_random_uuid(), id, status, 'results', jsonb_build_object('error', error), ended_at
  FROM written WHERE ended_at IS NOT NULL;

-- name: mark_late
-- These bundles came when their request had ended, and count for nothing.
UPDATE assent.outside_request_deliveries d SET late = true
  FROM unnest($1::text[], $2::uuid[]) AS m (org_id, id)
 WHERE d.org_id = m.org_id AND d.id = m.id;
