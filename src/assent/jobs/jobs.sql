-- name: prepare_claim
-- Has this transaction look rows up one by one, by index, and by plans that are made once. It is ended after a few seconds
-- in which its client says nothing: a worker that is stopped inside of it gives back what it has locked.
SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('idle_in_transaction_session_timeout', $1, true);

-- name: find_lanes
-- Lanes in which jobs of a kind wait, by org, lane and priority, from one on, and when the first job of each is due: each
-- costs a look into the index, however many wait there. Jobs of before $6 are not looked at; so the index is not read where
-- it holds entries of jobs that were claimed, which stay there as long as another session has a snapshot of that time. Each
-- row says also whether a suspect is due, in any lane.
WITH RECURSIVE lane AS (
  (SELECT org_id, lane, priority, run_at, 1 AS n FROM assent.jobs
    WHERE kind = $1 AND status IN ('queued', 'retrying') AND throttle IS NULL
      AND (org_id, lane, priority) > ($2, $3, $4::smallint) AND run_at >= $6
    ORDER BY org_id, lane, priority, run_at LIMIT 1)
  UNION ALL
  SELECT following.org_id, following.lane, following.priority, following.run_at, lane.n + 1
    FROM lane CROSS JOIN LATERAL (
      SELECT j.org_id, j.lane, j.priority, j.run_at FROM assent.jobs j
       WHERE j.kind = $1 AND j.status IN ('queued', 'retrying') AND j.throttle IS NULL
         AND (j.org_id, j.lane, j.priority) > (lane.org_id, lane.lane, lane.priority) AND j.run_at >= $6
       ORDER BY j.org_id, j.lane, j.priority, j.run_at LIMIT 1) AS following
   WHERE lane.n < $5
)
SELECT org_id, lane, priority, run_at, run_at <= assent.now() AS is_due,
       EXISTS (SELECT FROM assent.jobs WHERE kind = $1 AND status IN ('queued', 'retrying') AND suspect
                  AND throttle IS NULL AND run_at <= assent.now()) AS has_suspects
  FROM lane;

-- name: find_suspect_lane
-- The lane of the suspect of a kind that is due first; of some lanes, where these are given.
SELECT org_id, lane, priority FROM assent.jobs
 WHERE kind = $1 AND status IN ('queued', 'retrying') AND suspect AND throttle IS NULL AND run_at <= assent.now()
   AND ($2::text[] IS NULL OR lane = ANY ($2))
 ORDER BY run_at, org_id, id LIMIT 1;

-- name: lock_lanes
-- Locks lanes of a kind in which fewer than $3 jobs run, in the order in which they are given, until it has $4 of them. Lanes
-- in which another claim is being made are passed over. The answer says which it has, and in how many there was room.
WITH busy AS (
  SELECT lane, count(*) AS number FROM assent.jobs WHERE kind = $1 AND status = 'running' GROUP BY lane
), open AS MATERIALIZED (
  SELECT w.lane, min(w.place) AS place
    FROM unnest($2::text[]) WITH ORDINALITY AS w (lane, place) LEFT JOIN busy b USING (lane)
   WHERE coalesce(b.number, 0) < $3 GROUP BY w.lane
)
SELECT ARRAY(
         -- OFFSET 0 keeps the locks above the order: below it, every lane would be locked.
         SELECT lane FROM (SELECT lane FROM open ORDER BY place OFFSET 0) AS wanted
          WHERE pg_try_advisory_xact_lock(hashtextextended(format('assent.jobs.%s.%s', $1, lane), 3)) LIMIT $4) AS held,
       (SELECT count(*) FROM open) AS open;

-- name: claim_jobs
-- Claims jobs of a kind that are due for a worker: of every org one before any org's second, and of each the highest
-- priority first, then the oldest; suspects, or those that are none. Where lanes have a limit, no more run in one than
-- that, and the lanes of an org take turns. Jobs that another transaction has locked are skipped: another worker claims
-- them, or they are being cancelled. Jobs of before $11 are not looked at. The worker's lease is held until the claim's transaction ends, if it lasts for at least
-- this long; each row says whether it does.
WITH busy AS MATERIALIZED (
  SELECT lane, count(*) AS number FROM assent.jobs
   WHERE $7::integer IS NOT NULL AND kind = $1 AND status = 'running' GROUP BY lane
), place AS (
  SELECT l.org_id, l.lane, l.priority, $7::integer - coalesce(b.number, 0) AS room
    FROM unnest($2::text[], $3::text[], $4::smallint[]) AS l (org_id, lane, priority) LEFT JOIN busy b USING (lane)
), due AS MATERIALIZED (
  SELECT found.*, place.room FROM place CROSS JOIN LATERAL (
    SELECT j.org_id, j.id, j.lane, j.priority, j.run_at FROM assent.jobs j
     WHERE j.kind = $1 AND j.org_id = place.org_id AND j.lane = place.lane AND j.priority = place.priority
       AND j.status IN ('queued', 'retrying') AND j.throttle IS NULL
       AND j.run_at <= assent.now() AND j.run_at >= $11 AND j.suspect = $9
     ORDER BY j.run_at, j.id LIMIT least($6::integer, CASE WHEN place.room < 0 THEN 0 ELSE place.room END)
       FOR UPDATE OF j SKIP LOCKED) AS found
), ranked AS (
  -- In two parts: where lanes have no limit, nothing is sorted that only a limit asks for.
  SELECT *, row_number() OVER (PARTITION BY org_id, lane ORDER BY run_at, id) AS rank FROM due WHERE $7::integer IS NOT NULL
  UNION ALL
  SELECT *, NULL FROM due WHERE $7::integer IS NULL
), turn AS (
  SELECT *, row_number() OVER (PARTITION BY org_id ORDER BY priority DESC, rank, run_at, id) AS turn FROM ranked
), seat AS (
  SELECT *, row_number() OVER (PARTITION BY lane ORDER BY turn, run_at, id) AS seat FROM turn WHERE $7::integer IS NOT NULL
  UNION ALL
  SELECT *, NULL FROM turn WHERE $7::integer IS NULL
), chosen AS MATERIALIZED (
  SELECT org_id, id FROM seat WHERE coalesce(seat <= room, true) ORDER BY turn, run_at, id LIMIT $5
), lease AS MATERIALIZED (
  SELECT FROM assent.worker_leases WHERE worker_id = $8 AND leased_until > assent.now() + $10::interval
     FOR KEY SHARE
)
UPDATE assent.jobs j SET status = 'running', attempts = j.attempts + 1, worker_id = $8, claimed_at = assent.now()
  FROM chosen c WHERE j.org_id = c.org_id AND j.id = c.id
   -- Said so that the index of what waits does not fit: it would be read from its beginning for each.
   AND j.status NOT IN ('running', 'blocked', 'background', 'done', 'cancelled', 'dead')
RETURNING j.org_id, j.id, j.lane, j.attempts AS attempt, j.attempts_max, j.created_at, j.repeatable,
          CASE WHEN j.suspect THEN j.losses ELSE 0 END AS losses, EXISTS (SELECT FROM lease) AS is_covered;

-- name: clear_suspects_if_claimed
-- These attempts have run for a while without harm, and are no suspects any more. One that holds its own job, to write
-- together with its completion, is skipped.
WITH free AS MATERIALIZED (
  SELECT j.org_id, j.id FROM unnest($2::text[], $3::uuid[], $4::integer[]) AS m (org_id, id, attempt)
    JOIN assent.jobs j ON j.org_id = m.org_id AND j.id = m.id
   WHERE j.attempts = m.attempt AND j.worker_id IS NOT DISTINCT FROM $1
     FOR UPDATE OF j SKIP LOCKED
)
UPDATE assent.jobs j SET suspect = false FROM free f WHERE j.org_id = f.org_id AND j.id = f.id
RETURNING j.id;

-- name: find_taken
-- Which of these attempts are not this worker's any more: cancelled, or given to another. One that its worker has settled, in
-- a transaction of its own, is none of them.
SELECT m.org_id, m.id, m.attempt FROM unnest($2::text[], $3::uuid[], $4::integer[]) AS m (org_id, id, attempt)
 WHERE NOT EXISTS (SELECT FROM assent.jobs j
                    WHERE j.org_id = m.org_id AND j.id = m.id AND j.attempts = m.attempt
                      AND (j.worker_id IS NOT DISTINCT FROM $1 OR j.status IN ('done', 'blocked', 'background')));

-- name: hold_jobs_if_claimed
-- Locks jobs until the transaction ends, those that this worker still has for that attempt.
SELECT j.id FROM unnest($2::text[], $3::uuid[], $4::integer[]) AS m (org_id, id, attempt)
  JOIN assent.jobs j ON j.org_id = m.org_id AND j.id = m.id
 WHERE j.attempts = m.attempt AND j.worker_id IS NOT DISTINCT FROM $1
 ORDER BY j.org_id, j.id
   FOR NO KEY UPDATE OF j;

-- name: settle_jobs_if_claimed
-- Writes the outcomes of attempts, each only if its worker still has the job. What did not kill its worker is no suspect
-- any more. An attempt that waits for subtasks does not count. A subtask that is dead is no dead letter: its parent goes on with
-- its error. Processes that wait for the end of one of them are notified.
WITH results AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset($1::jsonb) AS r (
    org_id text, id uuid, attempt integer, status text, retry_after_s double precision, outcome text, output jsonb,
    code text, error text, ambiguous boolean, error_type text, stack_trace text, retryable boolean)
), settled AS (
  UPDATE assent.jobs j
     SET status = r.status, run_at = coalesce(assent.now() + make_interval(secs => r.retry_after_s), j.run_at),
         worker_id = NULL, suspect = false, resolved = r.status = 'dead' AND j.parent_id IS NOT NULL,
         attempts_max = j.attempts_max + (r.status = 'blocked')::integer,
         ended_at = CASE WHEN r.status IN ('done', 'dead') THEN assent.now() END
    FROM results r
   -- Said so that the index of what is running does not fit: it would be read whole for each.
   WHERE j.org_id = r.org_id AND j.id = r.id AND j.attempts = r.attempt AND j.worker_id IS NOT DISTINCT FROM $2
  RETURNING j.org_id, j.id, j.attempts, j.kind, j.status, j.claimed_at, r.outcome, r.output, r.code, r.error, r.ambiguous,
            r.error_type, r.stack_trace, r.retryable
), kept AS (
  INSERT INTO assent.job_attempts (org_id, job_id, attempt, kind, outcome, output, code, error, ambiguous, error_type,
         stack_trace, retryable, worker_id, started_at, ended_at)
  SELECT org_id, id, attempts, kind, outcome, output, code, error, coalesce(ambiguous, false), error_type,
         stack_trace, retryable, $2, claimed_at, assent.now() FROM settled
), notified AS (
  DELETE FROM assent.task_waiters w USING settled s
   WHERE EXISTS (SELECT FROM assent.task_waiters) AND s.status IN ('done', 'dead')
     AND w.org_id = s.org_id AND w.task_id = s.id
  RETURNING pg_notify('assent_task_ends', w.task_id::text)
)
SELECT id, attempts AS attempt, assent.now() AS now FROM settled;

-- name: settle_jobs_if_open
-- Writes that attempts succeeded whose job was taken from the worker meanwhile: what was sent was sent. The job is done, if it
-- has not ended otherwise, and the success counts as an attempt of its own.
WITH results AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset($1::jsonb) AS r (org_id text, id uuid, output jsonb)
), settled AS (
  UPDATE assent.jobs j
     SET status = 'done', attempts = j.attempts + 1, attempts_max = greatest(j.attempts_max, j.attempts + 1),
         worker_id = NULL, suspect = false, ended_at = assent.now()
    FROM results r
   WHERE j.org_id = r.org_id AND j.id = r.id AND j.status NOT IN ('blocked', 'background', 'done', 'cancelled', 'dead')
  RETURNING j.org_id, j.id, j.attempts, j.kind, j.claimed_at, r.output
), kept AS (
  INSERT INTO assent.job_attempts (org_id, job_id, attempt, kind, outcome, output, worker_id, started_at, ended_at)
  SELECT org_id, id, attempts, kind, 'done', output, $2, claimed_at, assent.now() FROM settled
)
SELECT id, assent.now() AS now FROM settled;

-- name: give_back_unknown
-- Returns jobs of a kind to the queue that are recorded as claimed by this worker and that it does not know to be under way:
-- the reply to its claim was lost, or the worker ends. They did not run, or were broken off, and the attempt does not count.
WITH given AS (
  UPDATE assent.jobs j SET status = 'queued', attempts = j.attempts - 1, worker_id = NULL
   WHERE j.kind = $1 AND j.status = 'running' AND j.worker_id = $2
     AND NOT EXISTS (SELECT FROM unnest($3::text[], $4::uuid[], $5::integer[]) AS known (org_id, id, attempt)
                      WHERE known.org_id = j.org_id AND known.id = j.id AND known.attempt = j.attempts)
  RETURNING j.id
)
SELECT count(*) AS given, CASE WHEN count(*) > 0 THEN pg_notify('assent_' || $1 || 's', '') END FROM given;

-- name: leave_jobs_if_claimed
-- Returns jobs that this worker has claimed and cannot run to the queue, for others, after a wait; the attempt does not count.
UPDATE assent.jobs j SET status = 'queued', attempts = j.attempts - 1, worker_id = NULL, run_at = assent.now() + $5::interval
  FROM unnest($2::text[], $3::uuid[], $4::integer[]) AS m (org_id, id, attempt)
 WHERE j.org_id = m.org_id AND j.id = m.id AND j.attempts = m.attempt AND j.worker_id IS NOT DISTINCT FROM $1;

-- name: rescue_jobs
-- Returns jobs to the queue whose worker's lease is over. It is not known whether they ran: one that must not run twice is
-- dead. One that its worker had by itself, or as a suspect, has used an attempt, and without attempts left it is dead too.
-- Of the others one may have killed the worker, and it is not known which: they are suspects, due at once, and the attempt
-- does not count.
WITH lost AS MATERIALIZED (
  SELECT j.org_id, j.id, j.worker_id, j.suspect OR w.jobs = 1 AS charged
    FROM unnest($1::uuid[], $2::integer[]) AS w (worker_id, jobs)
    JOIN assent.jobs j ON j.worker_id = w.worker_id AND j.status = 'running' AND j.kind IN ('task', 'effect', 'result')
   LIMIT $3 FOR UPDATE OF j SKIP LOCKED
), fate AS MATERIALIZED (
  SELECT l.*, j.attempts >= j.attempts_max AND l.charged OR NOT j.repeatable AS is_dead
    FROM lost l JOIN assent.jobs j ON j.org_id = l.org_id AND j.id = l.id
), rescued AS (
  UPDATE assent.jobs j
     SET status = CASE WHEN f.is_dead THEN 'dead' ELSE 'queued' END, worker_id = NULL,
         attempts_max = CASE WHEN f.charged THEN j.attempts_max ELSE j.attempts_max + 1 END,
         losses = j.losses + 1, suspect = true, resolved = f.is_dead AND j.parent_id IS NOT NULL,
         run_at = CASE WHEN f.charged THEN assent.now() + least(300, 2 ^ j.losses - 1) * interval '1 second'
                       ELSE assent.now() END,
         ended_at = CASE WHEN f.is_dead THEN assent.now() END
    FROM fate f WHERE j.org_id = f.org_id AND j.id = f.id
  RETURNING j.org_id, j.id, j.kind, j.lane, j.status, j.attempts, j.claimed_at, f.worker_id, upper(j.kind) || '_LOST' AS code,
            format('its worker took it at %s and did not finish', j.claimed_at) AS error
), kept AS (
  INSERT INTO assent.job_attempts (org_id, job_id, attempt, kind, outcome, code, error, ambiguous, worker_id, started_at,
         ended_at)
  SELECT org_id, id, attempts, kind, 'lost', code, error, true, worker_id, claimed_at, assent.now() FROM rescued
), awaited AS (
  DELETE FROM assent.task_waiters w USING rescued r
   WHERE r.status = 'dead' AND w.org_id = r.org_id AND w.task_id = r.id
  RETURNING pg_notify('assent_task_ends', w.task_id::text)
), notified AS (
  SELECT pg_notify('assent_' || kind || 's', '') FROM (SELECT DISTINCT kind FROM rescued WHERE status = 'queued') AS woken
)
SELECT r.org_id, r.id, r.kind, r.lane, r.status, r.attempts, r.code, r.error, o.instance_id, o.step_id, o.awaited, o.trace_id,
       assent.now() AS now, (SELECT count(*) FROM notified) AS notifications
  FROM rescued r CROSS JOIN LATERAL (
    SELECT * FROM assent.job_origins j WHERE j.org_id = r.org_id AND j.id = r.id AND j.kind = r.kind) AS o;

-- name: find_dead_job
-- The kind of a dead job, and whether a step waited for it; of one kind, where that is given.
SELECT j.kind, o.awaited
  FROM assent.jobs j CROSS JOIN LATERAL (
    SELECT awaited FROM assent.job_origins s WHERE s.org_id = j.org_id AND s.id = j.id AND s.kind = j.kind) AS o
 WHERE j.org_id = $1 AND j.id = $2 AND j.status = 'dead' AND NOT j.resolved AND ($3::text IS NULL OR j.kind = $3);

-- name: revive_jobs
-- Returns dead jobs of a kind to the queue, one or all of a lane, of a partition or of the org, with as many attempts as they
-- were given, and wakes the workers. For one that was awaited no step waits any more; the step is retried instead. With a task go
-- those of its last subtasks that are dead: it waits for them once more.
WITH RECURSIVE dead AS MATERIALIZED (
  SELECT j.org_id, j.id, o.attempts_max
    FROM assent.jobs j CROSS JOIN LATERAL (
      SELECT s.attempts_max, s.awaited, s.partition_id FROM assent.job_origins s
       WHERE s.org_id = j.org_id AND s.id = j.id AND s.kind = j.kind) AS o
   WHERE j.org_id = $1 AND j.status = 'dead' AND NOT j.resolved AND j.kind = $2 AND ($3::uuid IS NULL OR j.id = $3)
     AND ($4::text IS NULL OR j.lane = $4) AND ($5::text IS NULL OR o.partition_id = $5) AND NOT o.awaited
), beneath AS (
  SELECT org_id, id, attempts_max FROM dead WHERE $2 = 'task'
  UNION ALL
  SELECT j.org_id, j.id, s.attempts_max
    FROM beneath b
   CROSS JOIN LATERAL (
      SELECT max(l.parent_attempt) AS attempt FROM assent.task_submissions l
       WHERE l.org_id = b.org_id AND l.parent_id = b.id) AS round
    JOIN assent.task_submissions s ON s.org_id = b.org_id AND s.parent_id = b.id AND s.parent_attempt = round.attempt
    JOIN assent.jobs j ON j.org_id = s.org_id AND j.id = s.id AND j.status = 'dead'
), revived AS (
  UPDATE assent.jobs j
     SET status = 'queued', attempts_max = j.attempts + d.attempts_max, run_at = assent.now(), ended_at = NULL, resolved = false
    FROM (SELECT * FROM dead UNION SELECT * FROM beneath) AS d
   WHERE j.org_id = d.org_id AND j.id = d.id AND j.status = 'dead'
  RETURNING j.id, j.parent_id
)
SELECT count(*) FILTER (WHERE parent_id IS NULL) AS revived,
       CASE WHEN count(*) > 0 THEN pg_notify('assent_' || $2 || 's', '') END
  FROM revived;

-- name: discard_job_if_dead
-- A person decides that nothing is left to do about a dead job.
UPDATE assent.jobs SET resolved = true WHERE org_id = $1 AND id = $2 AND status = 'dead' AND NOT resolved
RETURNING kind;

-- name: resolve_awaited_jobs
-- Dead jobs of these instances that a step awaited: the step has ended, and its instance has gone on without them.
WITH dead AS MATERIALIZED (
  SELECT j.org_id, j.id FROM unnest($1::text[], $2::uuid[]) AS i (org_id, id)
   CROSS JOIN LATERAL (
      SELECT * FROM assent.job_origins s WHERE s.org_id = i.org_id AND s.instance_id = i.id AND s.awaited) AS o
    JOIN assent.jobs j ON j.org_id = o.org_id AND j.id = o.id AND j.kind = o.kind
   WHERE j.status = 'dead' AND NOT j.resolved
     AND NOT EXISTS (SELECT FROM assent.workflow_step_executions s
                      WHERE s.org_id = o.org_id AND s.instance_id = o.instance_id AND s.id = o.step_id
                        AND s.status = 'pending')
   ORDER BY j.org_id, j.id FOR UPDATE OF j
)
UPDATE assent.jobs j SET resolved = true FROM dead d WHERE j.org_id = d.org_id AND j.id = d.id;

-- name: list_open_jobs
-- The jobs of a kind that have not ended, the oldest first; of one partition, where one is named. Two parts, because each
-- has its own small index.
SELECT open.id, open.what, open.status, open.created_at, open.attempts, open.retry_at, o.instance_id, a.error
  FROM ((SELECT org_id, id, kind, lane AS what, status, created_at, attempts, CASE WHEN attempts > 0 THEN run_at END AS retry_at
           FROM assent.jobs_waiting j WHERE kind = $1 AND org_id = $2
            AND ($4::text IS NULL OR EXISTS (SELECT FROM assent.job_origins p
                  WHERE p.org_id = j.org_id AND p.id = j.id AND p.kind = j.kind AND p.partition_id = $4))
          ORDER BY created_at, id LIMIT $3)
        UNION ALL
        (SELECT org_id, id, kind, lane, status, created_at, attempts, NULL
           FROM assent.jobs j WHERE kind = $1 AND org_id = $2 AND status = 'running'
            AND ($4::text IS NULL OR EXISTS (SELECT FROM assent.job_origins p
                  WHERE p.org_id = j.org_id AND p.id = j.id AND p.kind = j.kind AND p.partition_id = $4))
          ORDER BY created_at, id LIMIT $3)) AS open
 CROSS JOIN LATERAL (
    SELECT s.instance_id FROM assent.job_origins s WHERE s.org_id = open.org_id AND s.id = open.id AND s.kind = open.kind) AS o
  LEFT JOIN LATERAL (
    SELECT t.error FROM assent.job_attempts t
     WHERE t.org_id = open.org_id AND t.job_id = open.id ORDER BY t.attempt DESC LIMIT 1) AS a ON true
 ORDER BY open.created_at, open.id LIMIT $3;
