-- name: read_task
-- One task, with what was submitted; of one partition, where the reader sees only that.
SELECT t.id, s.type, t.status, t.priority, t.attempts, t.attempts_max, t.run_at, t.claimed_at, t.ended_at, s.key,
       s.submitted_by, s.partition_id, s.instance_id, s.step_id, s.awaited, s.created_at, s.input
  FROM assent.jobs t JOIN assent.task_submissions s ON s.org_id = t.org_id AND s.id = t.id
 WHERE t.org_id = $1 AND t.id = $2 AND ($3::text IS NULL OR s.partition_id = $3);

-- name: list_attempts
-- The outcomes of the attempts at a task, in order.
SELECT attempt, outcome, output, code, error, started_at, ended_at
  FROM assent.job_attempts WHERE org_id = $1 AND job_id = $2 ORDER BY attempt;

-- name: list_tasks
-- Tasks of an org, newest first; of a status, a type, an instance, a partition, where one is given. Those of instances
-- that the reader may not see are left out.
SELECT t.id, s.type, t.status, t.priority, t.attempts, t.attempts_max, t.run_at, t.claimed_at, t.ended_at, s.key,
       s.submitted_by, s.partition_id, s.instance_id, s.step_id, s.awaited, s.created_at
  FROM assent.task_submissions s JOIN assent.jobs t ON t.org_id = s.org_id AND t.id = s.id
 WHERE s.org_id = $1 AND ($2::text IS NULL OR t.status = $2) AND ($3::text IS NULL OR s.type = $3)
   AND ($4::uuid IS NULL OR s.instance_id = $4) AND ($5::text IS NULL OR s.partition_id = $5)
   AND ($6::uuid IS NULL OR s.id < $6)
   AND (NOT $8::boolean OR s.instance_id IS NULL OR EXISTS (
         SELECT FROM assent.workflow_instances i
          WHERE i.org_id = s.org_id AND i.id = s.instance_id
            AND assent.is_readable(i, $9::text[], $10::boolean, $11::uuid[], $12::text, $13::timestamptz)))
 ORDER BY s.id DESC LIMIT $7;
