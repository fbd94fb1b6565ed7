-- name: skip_triggers
-- Spares rows that are made what rows that are written are checked for.
SET session_replication_role = replica;

-- name: make_finished
-- Makes so many tasks of a type that are done, one for every second up to an hour ago, with what was submitted and their attempts.
WITH made AS MATERIALIZED (
  SELECT at, (substr(stamp, 1, 8) || '-' || substr(stamp, 9, 4) || substr(assent.new_id()::text, 14))::uuid AS id
    FROM generate_series(1, $2::integer) AS n
   CROSS JOIN LATERAL (SELECT now() - interval '1 hour' - n * interval '1 second') AS of_second (at)
   CROSS JOIN LATERAL (SELECT lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0')) AS of_id (stamp)
), made_jobs AS (
  INSERT INTO assent.jobs (org_id, id, kind, lane, status, attempts, attempts_max, run_at, created_at, ended_at)
  SELECT $1, id, 'task', $3, 'done', 1, 8, at, at, at FROM made
), made_submissions AS (
  INSERT INTO assent.task_submissions (org_id, id, type, input, attempts_max, submitted_by, created_at)
  SELECT $1, id, $3, '{}', 8, 'system', at FROM made
)
INSERT INTO assent.job_attempts (org_id, job_id, attempt, kind, outcome, output, started_at, ended_at)
SELECT $1, id, 1, 'task', 'done', 'null', at, at FROM made;

-- name: has_open_tasks
-- Whether a task has not ended.
SELECT EXISTS (SELECT FROM assent.jobs WHERE kind = 'task' AND status NOT IN ('done', 'cancelled', 'dead'));
