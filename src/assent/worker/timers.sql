-- name: claim_due_steps
-- Takes the time off the steps whose time has come, earliest first, and skips those that another worker holds.
WITH due AS (
  SELECT org_id, created_at, id, resume_at FROM assent.workflow_step_executions
   WHERE status = 'pending' AND resume_at <= assent.now()
   ORDER BY resume_at LIMIT $1
   FOR UPDATE SKIP LOCKED
), claimed AS (
  UPDATE assent.workflow_step_executions s SET resume_at = NULL
    FROM due d
   WHERE s.org_id = d.org_id AND s.created_at = d.created_at AND s.id = d.id
  RETURNING s.org_id, s.instance_id, s.id, s.entity_version, d.resume_at
)
SELECT * FROM claimed ORDER BY resume_at, id;
