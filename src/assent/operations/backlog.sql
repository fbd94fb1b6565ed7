-- name: list_open_events
-- The events of an org that are still to be processed, the oldest first. Two parts, because each has its own index.
SELECT * FROM (
  (SELECT id, event_type AS what, payload_json ->> 'key' AS event_key, status, instance_id, created_at, attempts,
          retry_at, error
     FROM assent.workflow_events_outbox
    WHERE org_id = $1 AND status IN ('pending', 'failed') ORDER BY created_at, id LIMIT $2)
  UNION ALL
  (SELECT id, event_type, payload_json ->> 'key', status, instance_id, created_at, attempts, retry_at, error
     FROM assent.workflow_events_outbox
    WHERE org_id = $1 AND status = 'processing' ORDER BY created_at, id LIMIT $2)) AS open
 ORDER BY created_at, id LIMIT $2;

-- name: list_kept_events
-- Events that came before anybody waited for them, the oldest first.
SELECT id, 'on_event' AS what, event_key, 'kept' AS status, created_at
  FROM assent.workflow_kept_events WHERE org_id = $1 ORDER BY id LIMIT $2;
