-- name: count_open_effects
-- What waits to be sent for an org, by destination and status: how much, since when, and when it is tried again.
SELECT destination AS what, status, count(*) AS number, min(created_at) AS oldest_at, max(attempts) AS attempts,
       min(next_retry_at) AS next_retry_at, max(left(error, 500)) AS error
  FROM assent.workflow_side_effects_outbox
 WHERE org_id = $1 AND status IN ('pending', 'failed', 'processing')
 GROUP BY destination, status ORDER BY min(created_at), destination, status;
