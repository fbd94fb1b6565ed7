-- name: page_of_requests
-- Requests of an org, newest first; of one status, instance, name and partition, where these are given. What the reader may
-- not see is left out: an entity's by its type, a flow's as its instance.
SELECT id, name, instance_id, step_id, node_id, partition_id, entity_type, entity_id, status, expected,
       received, failed, error, created_at, expires_at, ended_at
  FROM assent.outside_requests r
 WHERE org_id = $1 AND ($2::text IS NULL OR status = $2) AND ($3::uuid IS NULL OR instance_id = $3)
   AND ($4::text IS NULL OR name = $4) AND ($5::text IS NULL OR partition_id = $5)
   AND ($6::timestamptz IS NULL OR (created_at, id) < ($6, $7::uuid))
   AND (NOT $9::boolean OR CASE WHEN entity_type IS NOT NULL THEN entity_type <> ALL ($10::text[]) ELSE EXISTS (
         SELECT FROM assent.workflow_instances i
          WHERE i.org_id = r.org_id AND i.id = r.instance_id
            AND assent.is_readable(i, $10, $11::boolean, $12::uuid[], $13::text, $14::timestamptz)) END)
 ORDER BY created_at DESC, id DESC LIMIT $8;

-- name: find_request
-- One request as it stands.
SELECT id, name, instance_id, step_id, node_id, partition_id, entity_type, entity_id, status, expected,
       received, failed, error, created_at, expires_at, ended_at
  FROM assent.outside_requests WHERE org_id = $1 AND id = $2;

-- name: list_deliveries
-- The bundles that came for a request, the latest first.
SELECT id, key, source, pushed_by, status, late, attempts, error, received_at, processed_at
  FROM assent.outside_request_deliveries WHERE org_id = $1 AND request_id = $2 ORDER BY position DESC LIMIT $3;

-- name: list_items
-- The items that came for a request, the latest first.
SELECT cargo, kind, status, error, delivery_id, received_at
  FROM assent.outside_request_items WHERE org_id = $1 AND request_id = $2 ORDER BY id DESC LIMIT $3;

-- name: read_asked
-- What was asked, as it was.
SELECT body FROM assent.outside_request_history WHERE org_id = $1 AND request_id = $2 AND what = 'asked';
