-- name: count_open
-- How many of these instances have not ended yet.
SELECT count(*) FROM unnest($1::uuid[]) AS wanted (id)
  LEFT JOIN assent.workflow_instances i ON i.org_id = $2 AND i.id = wanted.id AND i.status = 'completed'
 WHERE i.id IS NULL;

-- name: read_latencies_ms
-- How long after each instance's event its step was committed. The event's own row is updated later, but its receipt
-- is written once, in the same transaction.
SELECT extract(epoch FROM pg_xact_commit_timestamp(s.xmin) - pg_xact_commit_timestamp(r.xmin)) * 1000 AS latency_ms
  FROM assent.workflow_step_executions s
  JOIN assent.workflow_outbox_receipts r ON r.org_id = s.org_id AND r.instance_id = s.instance_id
 WHERE s.org_id = $2 AND s.instance_id = ANY ($1::uuid[]) AND s.node_type = 'script';
