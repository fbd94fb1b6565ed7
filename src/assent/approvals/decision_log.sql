-- name: read_evidence
-- Every decision about an entity, or on one request, with the version that was decided on and what became of it.
SELECT d.id AS decision_id, d.approver_id, d.on_behalf_of, d.decision AS answer, d.outcome, d.reason, d.decided_at,
       s.group_name, s.via, r.id AS request_id, r.instance_id, r.step_id, r.node_id,
       coalesce(r.node_name, r.node_id) AS node_name, r.requested_by, r.created_at AS asked_at, r.status,
       r.reason AS status_reason, r.entity_type, r.entity_id, r.entity_version, r.content_hash, v.data AS snapshot,
       v.data_hash AS snapshot_hash, v.state, v.created_by AS written_by, r.applied_at, r.applied_step_id
  FROM (SELECT * FROM assent.approval_requests WHERE org_id = $1 AND entity_id = $2
        UNION ALL
        SELECT * FROM assent.approval_requests WHERE org_id = $1 AND id = $3) AS r
  JOIN assent.approval_decisions d ON d.org_id = r.org_id AND d.request_id = r.id
  LEFT JOIN assent.workflow_seats s ON s.org_id = d.org_id AND s.id = d.seat_id
  LEFT JOIN assent.entity_versions v ON v.org_id = r.org_id AND v.id = r.snapshot_version_id
 WHERE $4::timestamptz IS NULL OR (d.decided_at, d.id) > ($4, $5::uuid)
 ORDER BY d.decided_at, d.id LIMIT $6::bigint;
