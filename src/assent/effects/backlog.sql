-- name: list_open_effects
-- The effects of an org that are still to be sent or under way, the oldest first. Two parts, because each has its own
-- small index.
SELECT * FROM (
  (SELECT id, destination AS what, status, instance_id, created_at, attempts, next_retry_at, error
     FROM assent.workflow_side_effects_outbox
    WHERE org_id = $1 AND status IN ('pending', 'failed') ORDER BY created_at, id LIMIT $2)
  UNION ALL
  (SELECT id, destination, status, instance_id, created_at, attempts, next_retry_at, error
     FROM assent.workflow_side_effects_outbox
    WHERE org_id = $1 AND status = 'processing' ORDER BY created_at, id LIMIT $2)) AS open
 ORDER BY created_at, id LIMIT $2;
