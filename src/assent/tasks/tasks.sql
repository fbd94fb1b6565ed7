-- name: take_keys
-- Takes the keys that are free, in order, so that no two submissions wait for each other; the rest are taken.
INSERT INTO assent.task_keys (org_id, type, partition_id, key, task_id, input_hash)
SELECT org_id, type, coalesce(partition_id, ''), key, id, assent.input_hash(input)
  FROM jsonb_to_recordset($1::jsonb) AS t (org_id text, type text, partition_id text, key text, id uuid, input jsonb)
 ORDER BY 1, 2, 3, 4
ON CONFLICT DO NOTHING
RETURNING task_id;

-- name: find_keys
-- The tasks that these keys stand for, and whether they were for the same input.
SELECT t.id, k.task_id, k.input_hash = assent.input_hash(t.input) AS same
  FROM jsonb_to_recordset($1::jsonb) AS t (org_id text, type text, partition_id text, key text, id uuid, input jsonb)
  JOIN assent.task_keys k ON k.org_id = t.org_id AND k.type = t.type AND k.partition_id = coalesce(t.partition_id, '')
   AND k.key = t.key;

-- name: submit_tasks
-- Submits tasks, and wakes the workers once when one of them is due.
WITH incoming AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset($1::jsonb) AS t (
    org_id text, id uuid, type text, input jsonb, key text, priority smallint, run_at timestamptz, attempts_max integer,
    submitted_by text, partition_id text, instance_id uuid, step_id uuid, awaited boolean, trace_id text)
), written AS (
  INSERT INTO assent.jobs (org_id, id, kind, lane, priority, run_at, attempts_max)
  SELECT org_id, id, 'task', type, priority, coalesce(run_at, assent.now()), attempts_max FROM incoming
), submitted AS (
  INSERT INTO assent.task_submissions (org_id, id, type, input, key, attempts_max, submitted_by, partition_id,
         instance_id, step_id, awaited, trace_id, created_at)
  SELECT org_id, id, type, input, key, attempts_max, submitted_by, partition_id, instance_id, step_id, awaited, trace_id,
         assent.now() FROM incoming
)
SELECT pg_notify('assent_tasks', '')
 WHERE EXISTS (SELECT FROM incoming WHERE coalesce(run_at, assent.now()) <= assent.now());

-- name: read_submissions
-- What was submitted, of claimed tasks, in their order.
SELECT s.input, s.submitted_by, s.partition_id, s.instance_id, s.step_id, s.awaited, s.trace_id
  FROM unnest($1::text[], $2::uuid[]) WITH ORDINALITY AS j (org_id, id, n)
  JOIN assent.task_submissions s ON s.org_id = j.org_id AND s.id = j.id
 ORDER BY j.n;

-- name: cancel_tasks_of_steps
-- Cancels what steps have submitted and await no more.
WITH open AS MATERIALIZED (
  SELECT t.org_id, t.id FROM unnest($1::text[], $2::uuid[], $3::uuid[]) AS step (org_id, instance_id, id)
    JOIN assent.task_submissions s
      ON s.org_id = step.org_id AND s.instance_id = step.instance_id AND s.step_id = step.id AND s.awaited
    JOIN assent.jobs t ON t.org_id = s.org_id AND t.id = s.id
   WHERE t.status NOT IN ('done', 'cancelled', 'dead')
   ORDER BY t.org_id, t.id FOR UPDATE OF t
)
UPDATE assent.jobs t SET status = 'cancelled', worker_id = NULL, ended_at = assent.now()
  FROM open o WHERE t.org_id = o.org_id AND t.id = o.id AND t.status NOT IN ('done', 'cancelled', 'dead');

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
