-- name: find_expired_instances
-- Running instances whose time is over and that have no event of it yet, earliest first.
SELECT i.org_id, i.id, i.expires_at
  FROM assent.workflow_instances i
 WHERE i.status = 'running' AND i.expires_at <= assent.now()
   AND NOT EXISTS (
     SELECT FROM assent.workflow_events_outbox e
      WHERE e.org_id = i.org_id AND e.instance_id = i.id AND e.event_type = 'on_expired'
        -- CASE, because conditions are tried in any order, and others' payloads may hold anything under this name.
        AND CASE WHEN e.event_type = 'on_expired' THEN (e.payload_json ->> 'due')::timestamptz END = i.expires_at)
 ORDER BY i.expires_at, i.org_id, i.id LIMIT $1;
