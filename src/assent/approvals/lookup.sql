-- name: find_requests_between
-- The requests of an org whose id lies in a range, a few at most.
SELECT id FROM assent.approval_requests WHERE org_id = $1 AND id BETWEEN $2 AND $3 ORDER BY id LIMIT $4;

-- name: list_requests_of_instance
-- The newest requests of an instance, whatever became of them, with seats and decisions.
SELECT r.*,
       (SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.id), '[]') FROM assent.workflow_seats s
         WHERE s.org_id = r.org_id AND s.request_id = r.id) AS seats,
       (SELECT coalesce(jsonb_agg(to_jsonb(d) ORDER BY d.id), '[]') FROM assent.approval_decisions d
         WHERE d.org_id = r.org_id AND d.request_id = r.id) AS decisions
  FROM assent.approval_requests r
 WHERE r.org_id = $1 AND r.instance_id = $2 ORDER BY r.id DESC LIMIT $3;
