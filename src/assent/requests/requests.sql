-- name: open_requests
-- What steps ask of outside parties, with the arguments in the history; and a link by which documents that are asked for can be
-- handed in.
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
), linked AS (
  INSERT INTO assent.upload_links (org_id, request_id)
  SELECT org_id, id FROM asked WHERE arguments ? 'documents'
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

-- name: end_requests_of_instances
-- Closes what people have asked for instances that were cancelled or have failed: no step ends with it.
WITH open AS MATERIALIZED (
  SELECT r.org_id, r.id, e.status, e.ended_at
    FROM jsonb_to_recordset($1::jsonb) AS e (org_id text, instance_id uuid, status text, ended_at timestamptz)
    JOIN assent.outside_requests r ON r.org_id = e.org_id AND r.instance_id = e.instance_id
   WHERE r.step_id IS NULL AND r.ended_at IS NULL
   ORDER BY r.org_id, r.id
   FOR NO KEY UPDATE OF r
), closed AS (
  UPDATE assent.outside_requests r SET status = 'cancelled', error = format('its instance is %s', o.status), ended_at = o.ended_at
    FROM open o WHERE r.org_id = o.org_id AND r.id = o.id AND r.ended_at IS NULL
  RETURNING r.org_id, r.id, r.error, r.ended_at
)
INSERT INTO assent.outside_request_history (org_id, id, request_id, what, source, body, at)
SELECT org_id, gen_random_uuid(), id, 'cancelled', 'workflow', jsonb_build_object('reason', error), ended_at FROM closed;

-- name: close_requests_if_open
-- Closes requests in whose place others ask. Rows are locked in the order in which deliveries lock them.
WITH wanted AS MATERIALIZED (
  SELECT r.org_id, r.id, c.reason, c.ended_at
    FROM jsonb_to_recordset($1::jsonb) AS c (org_id text, id uuid, reason text, ended_at timestamptz)
    JOIN assent.outside_requests r ON r.org_id = c.org_id AND r.id = c.id
   WHERE r.ended_at IS NULL
   ORDER BY r.org_id, r.id
   FOR NO KEY UPDATE OF r
), closed AS (
  UPDATE assent.outside_requests r SET status = 'cancelled', ended_at = w.ended_at
    FROM wanted w WHERE r.org_id = w.org_id AND r.id = w.id AND r.ended_at IS NULL
  RETURNING r.org_id, r.id, w.reason, r.ended_at
)
INSERT INTO assent.outside_request_history (org_id, id, request_id, what, source, body, at)
SELECT org_id, gen_random_uuid(), id, 'cancelled', 'workflow', jsonb_build_object('reason', reason), ended_at FROM closed;

-- name: keep_delivery
-- Keeps a bundle that came for a request, once for its key; see the function.
SELECT assent.keep_delivery($1, $2::jsonb, $3, $4, $5::text[]);

-- name: keep_deliveries
-- Keeps bundles that came for requests, each once for its key; see the function.
SELECT number, outcome, version FROM assent.keep_deliveries($1::jsonb, $2, $3, $4, $5);

-- name: bury_messages
-- Keeps messages that could not be kept as results, each as a dead job, once however often it is read.
WITH messages AS MATERIALIZED (
  SELECT d.*, m.body, m.hash
    FROM jsonb_to_recordset($1::jsonb) AS d (
           number bigint, org_id text, id uuid, transport text, stream text, "position" text, names text, size bigint,
           lane text, code text, error text, evidence jsonb)
    JOIN unnest($2::bytea[], $3::bytea[]) WITH ORDINALITY AS m (body, hash, number) USING (number)
), buried AS (
  INSERT INTO assent.dead_messages (org_id, id, transport, stream, position, names, body, size, hash, read_at)
  SELECT org_id, id, transport, stream, position, names, body, size, hash, assent.now() FROM messages
   ORDER BY org_id, transport, stream, position, hash
  ON CONFLICT (org_id, transport, stream, position, hash) DO NOTHING
  RETURNING org_id, id
), dead AS (
  INSERT INTO assent.jobs (org_id, id, kind, lane, status, attempts, attempts_max, ended_at)
  SELECT m.org_id, m.id, 'result', m.lane, 'dead', 1, 1, assent.now() FROM messages m JOIN buried USING (org_id, id)
), explained AS (
  INSERT INTO assent.job_attempts (org_id, job_id, attempt, kind, outcome, output, code, error, worker_id, started_at, ended_at)
  SELECT m.org_id, m.id, 1, 'result', 'failed', m.evidence, m.code, m.error, $4, assent.now(), assent.now()
    FROM messages m JOIN buried USING (org_id, id)
)
SELECT id FROM buried;

-- name: read_deliveries
-- The bundles of claimed jobs, in the order in which they came; then the messages of streams that a person retries.
SELECT id, request_id, body, message, size, transport, stream, "position", names
  FROM (SELECT d.position AS came, d.id, d.request_id, h.body, NULL::bytea AS message, NULL::bigint AS size,
               NULL AS transport, NULL AS stream, NULL AS "position", NULL AS names
          FROM unnest($1::text[], $2::uuid[]) AS j (org_id, id)
          JOIN assent.outside_request_deliveries d ON d.org_id = j.org_id AND d.id = j.id
          LEFT JOIN assent.outside_request_history h ON h.org_id = d.org_id AND h.id = d.id
        UNION ALL
        SELECT NULL, m.id, NULL, NULL, m.body, m.size, m.transport, m.stream, m.position, m.names
          FROM unnest($1::text[], $2::uuid[]) AS j (org_id, id)
          JOIN assent.dead_messages m ON m.org_id = j.org_id AND m.id = j.id) AS claimed
 ORDER BY came, id;

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
-- These bundles came when their request had ended.
UPDATE assent.outside_request_deliveries d SET late = true
  FROM unnest($1::text[], $2::uuid[]) AS m (org_id, id)
 WHERE d.org_id = m.org_id AND d.id = m.id;

-- name: read_received
-- The completed items of requests, in the order in which they came.
SELECT i.org_id, i.request_id, i.cargo, i.kind, d.people
  FROM unnest($1::text[], $2::uuid[]) AS wanted (org_id, id)
  JOIN assent.outside_request_items i ON i.org_id = wanted.org_id AND i.request_id = wanted.id AND i.status = 'completed'
  JOIN assent.outside_request_deliveries d ON d.org_id = i.org_id AND d.id = i.delivery_id
 ORDER BY i.id;

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
), noted AS (
  INSERT INTO assent.outside_request_history (org_id, id, request_id, what, source, at)
  SELECT org_id, gen_random_uuid(), id, 'expired', 'clock', $2 FROM expired
)
SELECT * FROM expired;

-- name: fail_requests
-- Ends open requests whose call is dead. Rows are locked in the order in which deliveries lock them.
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
), noted AS (
  INSERT INTO assent.outside_request_history (org_id, id, request_id, what, source, body, at)
  SELECT org_id, gen_random_uuid(), id, 'failed', 'call', jsonb_build_object('error', error), $4 FROM failed
)
SELECT * FROM failed;

-- name: page_of_requests
-- Requests of an org, newest first; of one status, instance, name and partition, and only open ones, where these are given. What the reader may
-- not see is left out: an entity's by its type, a flow's as its instance, each looked up by itself (OFFSET 0).
SELECT id, name, instance_id, step_id, node_id, partition_id, entity_type, entity_id, status, expected,
       received, failed, error, created_at, expires_at, ended_at
  FROM assent.outside_requests r
 WHERE org_id = $1 AND ($2::text IS NULL OR status = $2) AND ($3::uuid IS NULL OR instance_id = $3)
   AND ($4::text IS NULL OR name = $4) AND ($5::text IS NULL OR partition_id = $5)
   AND ($6::timestamptz IS NULL OR (created_at, id) < ($6, $7::uuid))
   AND (NOT $9::boolean OR CASE WHEN entity_type IS NOT NULL THEN entity_type <> ALL ($10::text[])
        WHEN instance_id IS NULL THEN $16::boolean ELSE EXISTS (
         SELECT FROM assent.workflow_instances i
          WHERE i.org_id = r.org_id AND i.id = r.instance_id
            AND assent.is_readable(i, $10, $11::boolean, $12::uuid[], $13::text, $14::timestamptz) OFFSET 0) END)
   AND (NOT $15::boolean OR ended_at IS NULL)
 ORDER BY created_at DESC, id DESC LIMIT $8;

-- name: find_request
-- One request as it stands.
SELECT id, name, instance_id, step_id, node_id, partition_id, entity_type, entity_id, status, expected,
       received, failed, error, created_at, expires_at, ended_at
  FROM assent.outside_requests WHERE org_id = $1 AND id = $2;

-- name: list_deliveries
-- The bundles that came for a request, the latest first.
SELECT d.id, d.key, d.source, d.pushed_by, j.status, d.late, j.attempts, a.error, d.received_at,
       CASE WHEN j.status = 'done' THEN j.ended_at END AS processed_at
  FROM assent.outside_request_deliveries d
  JOIN assent.jobs j ON j.org_id = d.org_id AND j.id = d.id
  LEFT JOIN LATERAL (
    SELECT t.error FROM assent.job_attempts t
     WHERE t.org_id = d.org_id AND t.job_id = d.id ORDER BY t.attempt DESC LIMIT 1) AS a ON true
 WHERE d.org_id = $1 AND d.request_id = $2 ORDER BY d.position DESC LIMIT $3;

-- name: list_items
-- The items that came for a request, the latest first.
SELECT cargo, kind, status, error, delivery_id, received_at
  FROM assent.outside_request_items WHERE org_id = $1 AND request_id = $2 ORDER BY id DESC LIMIT $3;

-- name: read_asked
-- What was asked, as it was.
SELECT body FROM assent.outside_request_history WHERE org_id = $1 AND request_id = $2 AND what = 'asked';
