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
    submitted_by text, partition_id text, instance_id uuid, step_id uuid, awaited boolean, trace_id text, parent_id uuid,
    parent_attempt integer, depth smallint, is_callback boolean, throttle uuid, delay_s double precision, people text[])
), written AS (
  INSERT INTO assent.jobs (org_id, id, kind, lane, status, priority, run_at, attempts, attempts_max, parent_id, throttle)
  SELECT org_id, id, 'task', type, CASE WHEN is_callback THEN 'blocked' ELSE 'queued' END, priority,
         coalesce(run_at, assent.now() + make_interval(secs => coalesce(delay_s, 0))), is_callback::integer,
         attempts_max + is_callback::integer, parent_id, throttle FROM incoming
), blocked AS (
  INSERT INTO assent.job_attempts (org_id, job_id, attempt, kind, outcome, started_at, ended_at)
  SELECT org_id, id, 1, 'task', 'blocked', assent.now(), assent.now() FROM incoming WHERE is_callback
), submitted AS (
  INSERT INTO assent.task_submissions (org_id, id, type, input, key, attempts_max, submitted_by, partition_id,
         instance_id, step_id, awaited, trace_id, parent_id, parent_attempt, depth, is_callback, people, created_at)
  SELECT org_id, id, type, input, key, attempts_max, submitted_by, partition_id, instance_id, step_id, awaited, trace_id,
         parent_id, parent_attempt, depth, is_callback, people, assent.now() FROM incoming
)
SELECT pg_notify('assent_tasks', CASE WHEN bool_or(throttle IS NOT NULL) THEN 'throttled' ELSE '' END)
  FROM incoming WHERE coalesce(run_at, assent.now()) <= assent.now() AND delay_s IS NULL AND NOT is_callback
HAVING count(*) > 0;

-- name: wait_for_task
-- Notes that a process waits for the end of a task.
INSERT INTO assent.task_waiters (org_id, task_id) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: find_ended
-- Which of these tasks have ended, or are not there any more.
SELECT w.id FROM unnest($1::text[], $2::uuid[]) AS w (org_id, id)
 WHERE NOT EXISTS (SELECT FROM assent.jobs j WHERE j.org_id = w.org_id AND j.id = w.id
                      AND j.status NOT IN ('done', 'cancelled', 'dead'));

-- name: read_submissions
-- What was submitted, of claimed tasks, in their order.
SELECT s.input, s.submitted_by, s.partition_id, s.instance_id, s.step_id, s.awaited, s.trace_id, s.parent_id, s.depth,
       s.is_callback, s.people
  FROM unnest($1::text[], $2::uuid[]) WITH ORDINALITY AS j (org_id, id, n)
  JOIN assent.task_submissions s ON s.org_id = j.org_id AND s.id = j.id
 ORDER BY j.n;

-- name: read_subtasks
-- The last subtasks of tasks: those that one attempt made, in that order, with what came out of them; and whose work all of the
-- task's subtasks bring, as of the task itself.
SELECT p.org_id, p.id AS parent_id, j.id, j.lane AS type, j.status, a.output, a.code, a.error, a.error_type, a.stack_trace,
       a.retryable, p.people
  FROM (SELECT t.org_id, t.id, assent.people_of_task(t.org_id, t.id) AS people
          FROM unnest($1::text[], $2::uuid[]) AS t (org_id, id)
         WHERE EXISTS (SELECT FROM assent.task_submissions c WHERE c.org_id = t.org_id AND c.parent_id = t.id)
        OFFSET 0) AS p
 CROSS JOIN LATERAL (
    SELECT max(l.parent_attempt) AS attempt FROM assent.task_submissions l
     WHERE l.org_id = p.org_id AND l.parent_id = p.id) AS round
  JOIN assent.task_submissions s ON s.org_id = p.org_id AND s.parent_id = p.id AND s.parent_attempt = round.attempt
  JOIN assent.jobs j ON j.org_id = s.org_id AND j.id = s.id
  LEFT JOIN assent.job_attempts a ON a.org_id = j.org_id AND a.job_id = j.id AND a.attempt = j.attempts
   AND j.status IN ('done', 'dead')
 ORDER BY p.org_id, p.id, j.id;

-- name: resume_parents
-- Returns tasks to the queue whose subtasks have all ended, and wakes the workers. It sees what was committed before it began: of
-- two transactions that end the last subtasks of a task, the one that is followed by this later sees both.
WITH resumed AS (
  UPDATE assent.jobs p SET status = 'queued', run_at = assent.now()
    FROM unnest($1::text[], $2::uuid[]) AS w (org_id, id)
   WHERE p.org_id = w.org_id AND p.id = w.id AND p.status = 'blocked'
     AND NOT EXISTS (SELECT FROM assent.jobs c WHERE c.org_id = p.org_id AND c.parent_id = p.id
                        AND c.status NOT IN ('done', 'cancelled', 'dead'))
  RETURNING p.id
)
SELECT count(*) AS resumed, CASE WHEN count(*) > 0 THEN pg_notify('assent_tasks', '') END FROM resumed;

-- name: resume_any_parents
-- The same for all blocked tasks, a number at once: of those whose worker did not come to it.
WITH ready AS MATERIALIZED (
  SELECT p.org_id, p.id FROM assent.jobs p
   WHERE p.status = 'blocked'
     AND NOT EXISTS (SELECT FROM assent.jobs c WHERE c.org_id = p.org_id AND c.parent_id = p.id
                        AND c.status NOT IN ('done', 'cancelled', 'dead'))
   ORDER BY p.org_id, p.id LIMIT $1 FOR UPDATE OF p SKIP LOCKED
), resumed AS (
  UPDATE assent.jobs p SET status = 'queued', run_at = assent.now()
    FROM ready r WHERE p.org_id = r.org_id AND p.id = r.id AND p.status = 'blocked'
  RETURNING p.id
)
SELECT count(*) AS resumed, CASE WHEN count(*) > 0 THEN pg_notify('assent_tasks', '') END FROM resumed;

-- name: write_notes_if_claimed
-- Writes how far attempts are and the lines of their logs, of those that this worker still has. A line is written once. Streams of
-- changes are notified.
WITH notes AS MATERIALIZED (
  SELECT n.* FROM jsonb_to_recordset($1::jsonb) AS n (
           org_id text, id uuid, attempt integer, fraction double precision, message text, at timestamptz, lines jsonb)
    JOIN assent.jobs j ON j.org_id = n.org_id AND j.id = n.id
   WHERE j.attempts = n.attempt AND j.worker_id IS NOT DISTINCT FROM $2::uuid
), progress AS (
  INSERT INTO assent.task_progress (org_id, task_id, attempt, fraction, message, at)
  SELECT org_id, id, attempt, fraction, message, at FROM notes WHERE at IS NOT NULL ORDER BY org_id, id
  ON CONFLICT (org_id, task_id) DO UPDATE
     SET attempt = excluded.attempt, fraction = excluded.fraction, message = excluded.message, at = excluded.at
), lines AS (
  INSERT INTO assent.task_log_lines (org_id, task_id, attempt, position, level, message, at)
  SELECT n.org_id, n.id, n.attempt, l.position, l.level, l.message, l.at
    FROM notes n CROSS JOIN LATERAL jsonb_to_recordset(n.lines) AS l (position integer, level text, message text, at timestamptz)
  ON CONFLICT DO NOTHING
)
SELECT pg_notify('assent_task_notes', '') WHERE EXISTS (SELECT FROM notes);

-- name: list_log_lines
-- The log of a task, attempt by attempt, from a line on.
SELECT attempt, position, level, message, at FROM assent.task_log_lines
 WHERE org_id = $1 AND task_id = $2 AND (attempt, position) > ($3, $4)
 ORDER BY attempt, position LIMIT $5;

-- name: expire_background_tasks
-- Tasks whose time in the background is over: their attempt is used up, and they are tried again or dead.
WITH over AS MATERIALIZED (
  SELECT org_id, id, run_at, attempts >= attempts_max AS is_dead FROM assent.jobs
   WHERE status = 'background' AND run_at <= assent.now()
   ORDER BY run_at, org_id, id LIMIT $1 FOR UPDATE SKIP LOCKED
), expired AS (
  UPDATE assent.jobs j
     SET status = CASE WHEN o.is_dead THEN 'dead' ELSE 'queued' END, attempts = j.attempts + 1,
         attempts_max = j.attempts_max + 1, resolved = o.is_dead AND j.parent_id IS NOT NULL,
         ended_at = CASE WHEN o.is_dead THEN assent.now() END
    FROM over o WHERE j.org_id = o.org_id AND j.id = o.id
  RETURNING j.org_id, j.id, j.lane, j.status, j.attempts, j.claimed_at, NOT o.is_dead AS retryable,
            format('it was in the background until %s, and nothing has ended it', o.run_at) AS error
), kept AS (
  INSERT INTO assent.job_attempts (org_id, job_id, attempt, kind, outcome, code, error, retryable, started_at, ended_at)
  SELECT org_id, id, attempts, 'task', 'failed', 'TASK_EXPIRED', error, retryable, claimed_at, assent.now() FROM expired
), awaited AS (
  DELETE FROM assent.task_waiters w USING expired x
   WHERE x.status = 'dead' AND w.org_id = x.org_id AND w.task_id = x.id
  RETURNING pg_notify('assent_task_ends', w.task_id::text)
), notified AS (
  SELECT pg_notify('assent_tasks', '') WHERE EXISTS (SELECT FROM expired WHERE status = 'queued')
)
SELECT e.org_id, e.id, e.lane, e.status, 'TASK_EXPIRED' AS code, e.error, s.instance_id, s.step_id, s.awaited, s.trace_id,
       assent.now() AS now, (SELECT count(*) FROM notified) AS notifications
  FROM expired e JOIN assent.task_submissions s ON s.org_id = e.org_id AND s.id = e.id;

-- name: complete_task
-- Completes a task from outside.
SELECT assent.complete_task_by($1::uuid, $2::jsonb, $3::text[]);

-- name: fail_task
-- Fails a task from outside.
SELECT assent.fail_task($1::uuid, $2::text, $3::text, $4::boolean);

-- name: cancel_task_if_open
-- Cancels a task that has not ended, with its subtasks, also those that run: their outcomes are not written then.
SELECT c.org_id, c.id, s.instance_id, s.step_id, s.awaited, s.trace_id, s.parent_id, assent.now() AS now
  FROM assent.cancel_tasks(ARRAY[$1::text], ARRAY[$2::uuid]) c
  JOIN assent.task_submissions s ON s.org_id = c.org_id AND s.id = c.id
 WHERE c.id = $2;

-- name: cancel_tasks_of_steps
-- Cancels what steps have submitted and await no more, with its subtasks.
SELECT count(*)
  FROM (SELECT array_agg(s.org_id) AS orgs, array_agg(s.id) AS ids
          FROM unnest($1::text[], $2::uuid[], $3::uuid[]) AS step (org_id, instance_id, id)
          JOIN assent.task_submissions s
            ON s.org_id = step.org_id AND s.instance_id = step.instance_id AND s.step_id = step.id AND s.awaited) AS awaited
 CROSS JOIN LATERAL assent.cancel_tasks(awaited.orgs, awaited.ids) AS cancelled;

-- name: read_tree
-- A task and all that is below it, each below its parent in the order in which they were made, up to a number; with how many there
-- are of each status.
WITH RECURSIVE tree AS (
  SELECT s.org_id, s.id, ARRAY[s.id] AS path FROM assent.task_submissions s WHERE s.org_id = $1 AND s.id = $2
  UNION ALL
  SELECT s.org_id, s.id, tree.path || s.id
    FROM tree JOIN assent.task_submissions s ON s.org_id = tree.org_id AND s.parent_id = tree.id
), counted AS (
  SELECT jsonb_object_agg(status, number) AS counts
    FROM (SELECT j.status, count(*) AS number FROM tree t JOIN assent.jobs j ON j.org_id = t.org_id AND j.id = t.id
           GROUP BY j.status) AS of_status
)
SELECT t.id, s.type, t.status, t.priority, t.attempts, t.attempts_max, t.run_at, t.claimed_at, t.ended_at, s.key,
       s.submitted_by, s.partition_id, s.instance_id, s.step_id, s.awaited, s.parent_id, s.created_at, l.resources, l.rate_key,
       cardinality(tree.path) - 1 AS depth, counted.counts
  FROM counted, tree JOIN assent.jobs t ON t.org_id = tree.org_id AND t.id = tree.id
  JOIN assent.task_submissions s ON s.org_id = t.org_id AND s.id = t.id
  LEFT JOIN assent.task_throttles l ON l.org_id = t.org_id AND l.id = t.throttle
 ORDER BY tree.path LIMIT $3;

-- name: read_task
-- One task, with what was submitted; of one partition, where the reader sees only that.
SELECT t.id, s.type, t.status, t.priority, t.attempts, t.attempts_max, t.run_at, t.claimed_at, t.ended_at, s.key,
       s.submitted_by, s.partition_id, s.instance_id, s.step_id, s.awaited, s.parent_id, s.created_at, s.input,
       l.resources, l.rate_key, p.fraction, p.message, p.attempt AS progress_attempt, p.at AS progress_at
  FROM assent.jobs t JOIN assent.task_submissions s ON s.org_id = t.org_id AND s.id = t.id
  LEFT JOIN assent.task_throttles l ON l.org_id = t.org_id AND l.id = t.throttle
  LEFT JOIN assent.task_progress p ON p.org_id = t.org_id AND p.task_id = t.id
 WHERE t.org_id = $1 AND t.id = $2 AND ($3::text IS NULL OR s.partition_id = $3);

-- name: list_attempts
-- The outcomes of the attempts at a task, in order.
SELECT attempt, outcome, output, code, error, started_at, ended_at, error_type, stack_trace, retryable, worker_id
  FROM assent.job_attempts WHERE org_id = $1 AND job_id = $2 ORDER BY attempt;

-- name: list_tasks
-- Tasks of an org, newest first; of a status, a type, an instance, a partition, where one is given. Those of instances
-- that the reader may not see are left out; each is looked up by itself (OFFSET 0).
SELECT t.id, s.type, t.status, t.priority, t.attempts, t.attempts_max, t.run_at, t.claimed_at, t.ended_at, s.key,
       s.submitted_by, s.partition_id, s.instance_id, s.step_id, s.awaited, s.parent_id, s.created_at, l.resources, l.rate_key
  FROM assent.task_submissions s JOIN assent.jobs t ON t.org_id = s.org_id AND t.id = s.id
  LEFT JOIN assent.task_throttles l ON l.org_id = t.org_id AND l.id = t.throttle
 WHERE s.org_id = $1 AND ($2::text IS NULL OR t.status = $2) AND ($3::text IS NULL OR s.type = $3)
   AND ($4::uuid IS NULL OR s.instance_id = $4) AND ($5::text IS NULL OR s.partition_id = $5)
   AND ($6::uuid IS NULL OR s.id < $6)
   AND (NOT $8::boolean OR s.instance_id IS NULL OR EXISTS (
         SELECT FROM assent.workflow_instances i
          WHERE i.org_id = s.org_id AND i.id = s.instance_id
            AND assent.is_readable(i, $9::text[], $10::boolean, $11::uuid[], $12::text, $13::timestamptz) OFFSET 0))
 ORDER BY s.id DESC LIMIT $7;
