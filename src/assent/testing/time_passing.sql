-- name: find_next_moment
-- The first moment after now, and not after the one that is asked about, at which something is due.
SELECT min(moment) FROM (
  SELECT min(resume_at) AS moment FROM assent.workflow_step_executions
   WHERE status = 'pending' AND resume_at > assent.now()
  UNION ALL
  SELECT min(expires_at) FROM assent.workflow_instances
   WHERE status = 'running' AND expires_at > assent.now()
  UNION ALL
  SELECT min(retry_at) FROM assent.workflow_events_outbox
   WHERE status IN ('pending', 'failed') AND retry_at > assent.now()
  UNION ALL
  SELECT min(expires_at) FROM assent.outside_requests
   WHERE status IN ('pending', 'partial') AND expires_at > assent.now()
  UNION ALL
  SELECT min(run_at) FROM assent.jobs
   WHERE status IN ('queued', 'retrying') AND run_at > assent.now()
) AS due WHERE moment <= $1;
