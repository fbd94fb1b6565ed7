-- name: find_next_moment
-- The first moment after now, and not after the one that is asked about, at which something is due.
SELECT min(moment) FROM (
  SELECT min(resume_at) AS moment FROM assent.workflow_step_executions
   WHERE status = 'pending' AND resume_at > assent.now()
  UNION ALL
  SELECT min(expires_at) FROM assent.workflow_instances
   WHERE status = 'running' AND expires_at > assent.now()
  UNION ALL
  SELECT min(next_retry_at) FROM assent.workflow_events_outbox
   WHERE status IN ('pending', 'failed') AND next_retry_at > assent.now()
  UNION ALL
  SELECT min(next_retry_at) FROM assent.workflow_side_effects_outbox
   WHERE status IN ('pending', 'failed') AND next_retry_at > assent.now()
  UNION ALL
  SELECT min(expires_at) FROM assent.outside_requests
   WHERE status IN ('pending', 'partial') AND expires_at > assent.now()
  UNION ALL
  SELECT min(next_try_at) FROM assent.outside_request_deliveries
   WHERE status = 'pending' AND next_try_at > assent.now()
  UNION ALL
  SELECT min(run_at) FROM assent.tasks
   WHERE status IN ('open', 'error') AND run_at > assent.now()
) AS due WHERE moment <= $1;
