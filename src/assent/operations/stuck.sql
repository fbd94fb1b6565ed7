-- name: find_stuck_instances
-- Running instances, of one org or of all, without a waiting step or an event to come, and untouched for a while; of one
-- partition, where one is given.
WITH RECURSIVE orgs (org_id) AS (
  -- From org to org by the primary key: a DISTINCT would read every instance.
  SELECT coalesce($1::text, (SELECT min(org_id) FROM assent.workflow_instances))
  UNION ALL
  SELECT (SELECT min(i.org_id) FROM assent.workflow_instances i WHERE i.org_id > o.org_id)
    FROM orgs o WHERE $1::text IS NULL AND o.org_id IS NOT NULL
)
SELECT i.org_id, i.id AS instance_id, i.workflow_id, i.entity_type, i.entity_id, i.current_nodes,
       i.updated_at AS still_since
  FROM orgs o
  JOIN assent.workflow_instances i ON i.org_id = o.org_id AND i.status = 'running'
   AND i.updated_at <= assent.now() - $2::interval AND ($4::text IS NULL OR i.partition_id = $4)
 WHERE NOT EXISTS (SELECT FROM assent.workflow_step_executions s
                    WHERE s.org_id = i.org_id AND s.instance_id = i.id AND s.status = 'pending')
   -- Two conditions for three statuses, because each has its own small index.
   AND NOT EXISTS (SELECT FROM assent.workflow_events_outbox e
                    WHERE e.org_id = i.org_id AND e.instance_id = i.id AND e.status IN ('pending', 'failed'))
   AND NOT EXISTS (SELECT FROM assent.workflow_events_outbox e
                    WHERE e.org_id = i.org_id AND e.instance_id = i.id AND e.status = 'processing')
 ORDER BY i.updated_at, i.org_id, i.id LIMIT $3;
