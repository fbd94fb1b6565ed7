-- name: take_keys
-- Takes the keys that are nobody's yet, in order, so that no two submissions wait for each other; the rest are taken.
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
  INSERT INTO assent.tasks (org_id, id, type, priority, run_at, attempts_max)
  SELECT org_id, id, type, priority, coalesce(run_at, assent.now()), attempts_max FROM incoming
), told AS (
  INSERT INTO assent.task_submissions (org_id, id, type, input, key, attempts_max, submitted_by, partition_id,
         instance_id, step_id, awaited, trace_id, created_at)
  SELECT org_id, id, type, input, key, attempts_max, submitted_by, partition_id, instance_id, step_id, awaited, trace_id,
         assent.now() FROM incoming
)
SELECT pg_notify('assent_tasks', '')
 WHERE EXISTS (SELECT FROM incoming WHERE coalesce(run_at, assent.now()) <= assent.now());

-- name: prepare_claim
-- Has this transaction look rows up one by one, by index, and by plans that are made once. It is ended after a few seconds
-- in which its client says nothing: a worker that is stopped inside of it gives back what it has locked.
SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('idle_in_transaction_session_timeout', $1, true);

-- name: find_places
-- Places where tasks wait, by org, type and priority, from a place on, and whether one of them is due: each costs a look
-- into the index, however many wait there.
WITH RECURSIVE place AS (
  (SELECT org_id, type, priority, run_at, 1 AS n FROM assent.tasks
    WHERE status IN ('open', 'error') AND (org_id, type, priority) > ($1, $2, $3::smallint)
    ORDER BY org_id, type, priority, run_at LIMIT 1)
  UNION ALL
  SELECT following.org_id, following.type, following.priority, following.run_at, place.n + 1
    FROM place CROSS JOIN LATERAL (
      SELECT t.org_id, t.type, t.priority, t.run_at FROM assent.tasks t
       WHERE t.status IN ('open', 'error')
         AND (t.org_id, t.type, t.priority) > (place.org_id, place.type, place.priority)
       ORDER BY t.org_id, t.type, t.priority, t.run_at LIMIT 1) AS following
   WHERE place.n < $4
)
SELECT org_id, type, priority, run_at <= assent.now() AS is_due FROM place;

-- name: find_suspect_place
-- The place of the suspect that is due first, of these types.
SELECT org_id, type, priority FROM assent.tasks
 WHERE status IN ('open', 'error') AND suspect AND run_at <= assent.now() AND type = ANY ($1::text[])
 ORDER BY run_at, org_id, id LIMIT 1;

-- name: claim_tasks
-- Claims tasks that are due for a worker, of every org one before anybody's second, and of each the highest priority first,
-- then the oldest; suspects, or those that are none. Tasks that another transaction has locked are skipped: another worker
-- claims them, or they are being cancelled.
WITH due AS MATERIALIZED (
  SELECT found.* FROM unnest($1::text[], $2::text[], $3::smallint[]) AS place (org_id, type, priority)
   CROSS JOIN LATERAL (
    SELECT t.org_id, t.id, t.priority, t.run_at FROM assent.tasks t
     WHERE t.org_id = place.org_id AND t.type = place.type AND t.priority = place.priority
       AND t.status IN ('open', 'error') AND t.run_at <= assent.now() AND t.suspect = $7
     ORDER BY t.run_at, t.id LIMIT $5
       FOR UPDATE OF t SKIP LOCKED) AS found
), turn AS (
  SELECT *, row_number() OVER (PARTITION BY org_id ORDER BY priority DESC, run_at, id) AS turn FROM due
), chosen AS MATERIALIZED (
  SELECT org_id, id FROM turn ORDER BY turn, run_at, id LIMIT $4
), claimed AS (
  UPDATE assent.tasks t
     SET status = 'in_progress', attempts = t.attempts + 1, worker_id = $6, claimed_at = assent.now()
    FROM chosen c WHERE t.org_id = c.org_id AND t.id = c.id
     -- Said so that the index of what waits does not fit: it would be read from its beginning for each.
     AND t.status NOT IN ('in_progress', 'blocked', 'background', 'complete', 'cancelled', 'dead')
  RETURNING t.org_id, t.id, t.type, t.attempts, t.attempts_max, CASE WHEN t.suspect THEN t.losses ELSE 0 END AS losses
)
SELECT c.org_id, c.id, c.type, c.attempts AS attempt, c.attempts_max, s.input, s.submitted_by, s.partition_id,
       s.instance_id, s.step_id, s.awaited, s.trace_id, s.created_at, c.losses
  FROM claimed c JOIN assent.task_submissions s ON s.org_id = c.org_id AND s.id = c.id;

-- name: clear_suspects_if_claimed
-- These attempts have run for a while without harm, and are no suspects any more. One that holds its own task, to write
-- together with its completion, is skipped.
WITH free AS MATERIALIZED (
  SELECT t.org_id, t.id FROM unnest($2::text[], $3::uuid[], $4::integer[]) AS m (org_id, id, attempt)
    JOIN assent.tasks t ON t.org_id = m.org_id AND t.id = m.id
   WHERE t.attempts = m.attempt AND t.worker_id IS NOT DISTINCT FROM $1
     FOR UPDATE OF t SKIP LOCKED
)
UPDATE assent.tasks t SET suspect = false FROM free f WHERE t.org_id = f.org_id AND t.id = f.id
RETURNING t.id;

-- name: find_taken
-- Which of these attempts are not in this worker's hands any more: cancelled, or given to another.
SELECT m.id FROM unnest($2::text[], $3::uuid[], $4::integer[]) AS m (org_id, id, attempt)
 WHERE NOT EXISTS (SELECT FROM assent.tasks t WHERE t.org_id = m.org_id AND t.id = m.id AND t.attempts = m.attempt
                      AND t.worker_id IS NOT DISTINCT FROM $1);

-- name: hold_if_claimed
-- Holds a task until the transaction ends, if this attempt is still the one that has it.
SELECT true FROM assent.tasks
 WHERE org_id = $1 AND id = $2 AND attempts = $3 AND worker_id IS NOT DISTINCT FROM $4
   FOR NO KEY UPDATE;

-- name: settle_tasks_if_claimed
-- Writes down what became of attempts, each only if its worker still has the task. What did not kill its worker is no
-- suspect any more.
WITH marks AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset($1::jsonb) AS m (
    org_id text, id uuid, attempt integer, status text, retry_after_s double precision, outcome text, output jsonb,
    code text, error text)
), settled AS (
  UPDATE assent.tasks t
     SET status = m.status, run_at = coalesce(assent.now() + make_interval(secs => m.retry_after_s), t.run_at),
         worker_id = NULL, suspect = false,
         ended_at = CASE WHEN m.status IN ('complete', 'dead') THEN assent.now() END
    FROM marks m
   -- Said so that the index of what is in somebody's hands does not fit: it would be read whole for each.
   WHERE t.org_id = m.org_id AND t.id = m.id AND t.attempts = m.attempt AND t.worker_id IS NOT DISTINCT FROM $2
  RETURNING t.org_id, t.id, t.attempts, t.claimed_at, m.outcome, m.output, m.code, m.error
), kept AS (
  INSERT INTO assent.task_attempts (org_id, task_id, attempt, outcome, output, code, error, worker_id, started_at,
         ended_at)
  SELECT org_id, id, attempts, outcome, output, code, error, $2, claimed_at, assent.now() FROM settled
)
SELECT id, assent.now() AS now FROM settled;

-- name: give_back_unknown
-- Gives back the tasks that are recorded as claimed by this worker and that it does not know to be under way: the answer to
-- its claim was lost, or the worker ends. They did not run, or were broken off, and the attempt does not count.
WITH given AS (
  UPDATE assent.tasks t SET status = 'open', attempts = t.attempts - 1, worker_id = NULL
   WHERE t.status = 'in_progress' AND t.worker_id = $1
     AND NOT EXISTS (SELECT FROM unnest($2::text[], $3::uuid[], $4::integer[]) AS known (org_id, id, attempt)
                      WHERE known.org_id = t.org_id AND known.id = t.id AND known.attempt = t.attempts)
  RETURNING t.id
)
SELECT count(*) AS given, CASE WHEN count(*) > 0 THEN pg_notify('assent_tasks', '') END FROM given;

-- name: rescue_tasks
-- Puts tasks back whose worker's lease is over. One that its worker had by itself, or as a suspect, has used an attempt, and
-- without attempts left it is dead. Of the others one may have killed the worker, and nobody knows which: they are suspects,
-- due at once, and the attempt does not count.
WITH lost AS MATERIALIZED (
  SELECT t.org_id, t.id, t.worker_id, t.suspect OR w.jobs = 1 AS charged
    FROM unnest($1::uuid[], $2::integer[]) AS w (worker_id, jobs)
    JOIN assent.tasks t ON t.worker_id = w.worker_id AND t.status = 'in_progress'
   LIMIT $3 FOR UPDATE OF t SKIP LOCKED
), rescued AS (
  UPDATE assent.tasks t
     SET status = CASE WHEN l.charged AND t.attempts >= t.attempts_max THEN 'dead' ELSE 'open' END, worker_id = NULL,
         attempts_max = CASE WHEN l.charged THEN t.attempts_max ELSE t.attempts_max + 1 END,
         losses = t.losses + 1, suspect = true,
         run_at = CASE WHEN l.charged THEN assent.now() + least(300, 2 ^ t.losses - 1) * interval '1 second'
                       ELSE assent.now() END,
         ended_at = CASE WHEN l.charged AND t.attempts >= t.attempts_max THEN assent.now() END
    FROM lost l WHERE t.org_id = l.org_id AND t.id = l.id
  RETURNING t.org_id, t.id, t.status, t.attempts, t.claimed_at, l.worker_id
), kept AS (
  INSERT INTO assent.task_attempts (org_id, task_id, attempt, outcome, code, error, worker_id, started_at, ended_at)
  SELECT org_id, id, attempts, 'lost', 'TASK_LOST', format('its worker took it at %s and did not finish', claimed_at),
         worker_id, claimed_at, assent.now() FROM rescued
), notified AS (
  SELECT pg_notify('assent_tasks', '') FROM rescued WHERE status = 'open' LIMIT 1
)
SELECT r.org_id, r.id, r.status, format('its worker took it at %s and did not finish', r.claimed_at) AS error,
       s.instance_id, s.step_id, s.awaited, s.trace_id, assent.now() AS now, (SELECT count(*) FROM notified) AS notifications
  FROM rescued r JOIN assent.task_submissions s ON s.org_id = r.org_id AND s.id = r.id;

-- name: cancel_task_if_open
-- Cancels a task that has not ended, also one that runs: what it comes to is nobody's then.
WITH cancelled AS (
  UPDATE assent.tasks SET status = 'cancelled', worker_id = NULL, ended_at = assent.now()
   WHERE org_id = $1 AND id = $2 AND status NOT IN ('complete', 'cancelled', 'dead')
  RETURNING org_id, id
)
SELECT c.org_id, c.id, s.instance_id, s.step_id, s.awaited, s.trace_id, assent.now() AS now
  FROM cancelled c JOIN assent.task_submissions s ON s.org_id = c.org_id AND s.id = c.id;

-- name: cancel_tasks_of_steps
-- Cancels what steps have submitted and await no more (D24).
WITH open AS MATERIALIZED (
  SELECT t.org_id, t.id FROM unnest($1::text[], $2::uuid[], $3::uuid[]) AS step (org_id, instance_id, id)
    JOIN assent.task_submissions s
      ON s.org_id = step.org_id AND s.instance_id = step.instance_id AND s.step_id = step.id AND s.awaited
    JOIN assent.tasks t ON t.org_id = s.org_id AND t.id = s.id
   WHERE t.status NOT IN ('complete', 'cancelled', 'dead')
   ORDER BY t.org_id, t.id FOR UPDATE OF t
)
UPDATE assent.tasks t SET status = 'cancelled', worker_id = NULL, ended_at = assent.now()
  FROM open o WHERE t.org_id = o.org_id AND t.id = o.id AND t.status NOT IN ('complete', 'cancelled', 'dead');

-- name: find_dead_task
-- Whether this dead task is there, and was awaited.
SELECT s.awaited FROM assent.tasks t JOIN assent.task_submissions s ON s.org_id = t.org_id AND s.id = t.id
 WHERE t.org_id = $1 AND t.id = $2 AND t.status = 'dead';

-- name: revive_tasks
-- Opens dead tasks again, one or all of a type or of the org, with as many attempts as they had, and wakes the workers.
-- For one that was awaited nobody waits any more; its step is what is tried again.
WITH revived AS (
  UPDATE assent.tasks t
     SET status = 'open', attempts_max = t.attempts + s.attempts_max, run_at = assent.now(), ended_at = NULL
    FROM assent.task_submissions s
   WHERE t.org_id = $1 AND t.status = 'dead' AND ($2::uuid IS NULL OR t.id = $2) AND ($3::text IS NULL OR t.type = $3)
     AND s.org_id = t.org_id AND s.id = t.id AND NOT s.awaited
  RETURNING t.id
)
SELECT count(*) AS revived, CASE WHEN count(*) > 0 THEN pg_notify('assent_tasks', '') END FROM revived;
