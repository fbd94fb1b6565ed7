-- name: read_request
-- One request with its seats and decisions, and the version of the entity that it is about.
SELECT r.*, v.data AS snapshot, v.state AS snapshot_state,
       (SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.id), '[]') FROM assent.workflow_seats s
         WHERE s.org_id = r.org_id AND s.request_id = r.id) AS seats,
       (SELECT coalesce(jsonb_agg(to_jsonb(d) ORDER BY d.id), '[]') FROM assent.approval_decisions d
         WHERE d.org_id = r.org_id AND d.request_id = r.id) AS decisions
  FROM assent.approval_requests r
  LEFT JOIN assent.entity_versions v ON v.org_id = r.org_id AND v.id = r.snapshot_version_id
 WHERE r.org_id = $1 AND r.id = $2;
