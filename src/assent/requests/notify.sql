-- name: read_received
-- The completed items of requests, in the order in which they came.
SELECT i.org_id, i.request_id, i.cargo, i.kind
  FROM unnest($1::text[], $2::uuid[]) AS wanted (org_id, id)
  JOIN assent.outside_request_items i ON i.org_id = wanted.org_id AND i.request_id = wanted.id AND i.status = 'completed'
 ORDER BY i.id;
