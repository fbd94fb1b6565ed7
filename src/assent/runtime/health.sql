-- name: look_at_queues
-- How much waits in every queue, since when, and what was given up; each counted up to a limit, by index.
WITH events AS (
  SELECT (SELECT count(*) FROM (
            SELECT FROM assent.workflow_events_outbox
             WHERE status IN ('pending', 'failed') AND (next_retry_at IS NULL OR next_retry_at <= $1) LIMIT $2) AS due),
         (SELECT count(*) FROM (
            SELECT FROM assent.workflow_events_outbox
             WHERE status IN ('pending', 'failed') AND next_retry_at > $1 LIMIT $2) AS later),
         least(
           -- Ordered as the index is: the first of those that were never put off, and of those that were.
           (SELECT created_at FROM assent.workflow_events_outbox WHERE status = 'pending' AND next_retry_at IS NULL
             ORDER BY status, next_retry_at, created_at LIMIT 1),
           (SELECT next_retry_at FROM assent.workflow_events_outbox WHERE status = 'pending' AND next_retry_at <= $1
             ORDER BY status, next_retry_at, created_at LIMIT 1),
           (SELECT next_retry_at FROM assent.workflow_events_outbox WHERE status = 'failed' AND next_retry_at <= $1
             ORDER BY status, next_retry_at, created_at LIMIT 1)),
         (SELECT count(*) FROM (
            SELECT FROM assent.workflow_events_outbox WHERE status = 'dead_letter' LIMIT $2) AS dead)
), effects AS (
  SELECT (SELECT count(*) FROM (
            SELECT FROM assent.workflow_side_effects_outbox
             WHERE status IN ('pending', 'failed') AND (next_retry_at IS NULL OR next_retry_at <= $1) LIMIT $2) AS due),
         (SELECT count(*) FROM (
            SELECT FROM assent.workflow_side_effects_outbox
             WHERE status IN ('pending', 'failed') AND next_retry_at > $1 LIMIT $2) AS later),
         least(
           (SELECT created_at FROM assent.workflow_side_effects_outbox
             WHERE status = 'pending' AND next_retry_at IS NULL ORDER BY status, next_retry_at, created_at LIMIT 1),
           (SELECT next_retry_at FROM assent.workflow_side_effects_outbox
             WHERE status = 'pending' AND next_retry_at <= $1 ORDER BY status, next_retry_at, created_at LIMIT 1),
           (SELECT next_retry_at FROM assent.workflow_side_effects_outbox
             WHERE status = 'failed' AND next_retry_at <= $1 ORDER BY status, next_retry_at, created_at LIMIT 1)),
         (SELECT count(*) FROM (
            SELECT FROM assent.workflow_side_effects_outbox WHERE status = 'dead_letter' LIMIT $2) AS dead)
), results AS (
  SELECT (SELECT count(*) FROM (
            SELECT FROM assent.request_deliveries WHERE status = 'pending' AND next_try_at <= $1 LIMIT $2) AS due),
         (SELECT count(*) FROM (
            SELECT FROM assent.request_deliveries WHERE status = 'pending' AND next_try_at > $1 LIMIT $2) AS later),
         (SELECT min(next_try_at) FROM (
            SELECT next_try_at FROM assent.request_deliveries WHERE status = 'pending' AND next_try_at <= $1 LIMIT $2)
            AS due),
         (SELECT count(*) FROM (
            SELECT FROM assent.request_deliveries WHERE status = 'dead_letter' LIMIT $2) AS dead)
), tasks AS (
  SELECT (SELECT count(*) FROM (
            SELECT FROM assent.tasks WHERE status IN ('open', 'error') AND run_at <= $1 LIMIT $2) AS due),
         (SELECT count(*) FROM (
            SELECT FROM assent.tasks WHERE status IN ('open', 'error') AND run_at > $1 LIMIT $2) AS later),
         (SELECT min(run_at) FROM (
            SELECT run_at FROM assent.tasks WHERE status IN ('open', 'error') AND run_at <= $1 LIMIT $2) AS due),
         (SELECT count(*) FROM (SELECT FROM assent.tasks WHERE status = 'dead' LIMIT $2) AS dead)
), timers AS (
  SELECT (SELECT count(*) FROM (
            SELECT FROM assent.workflow_step_executions
             WHERE status = 'pending' AND resume_at <= $1 LIMIT $2) AS due),
         (SELECT count(*) FROM (
            SELECT FROM assent.workflow_step_executions
             WHERE status = 'pending' AND resume_at > $1 LIMIT $2) AS later),
         (SELECT resume_at FROM assent.workflow_step_executions
           WHERE status = 'pending' AND resume_at <= $1 ORDER BY resume_at LIMIT 1),
         0
), people AS (
  -- Seats and not requests: these have an index of the open ones.
  SELECT count(*), 0, min(created_at), 0
    FROM (SELECT created_at FROM assent.workflow_seats WHERE status = 'open' LIMIT $2) AS open
)
SELECT * FROM (
  SELECT 'events', * FROM events UNION ALL SELECT 'effects', * FROM effects UNION ALL
  SELECT 'results', * FROM results UNION ALL
  SELECT 'tasks', * FROM tasks UNION ALL
  SELECT 'timers', * FROM timers UNION ALL SELECT 'people', * FROM people
) AS queues (name, pending, delayed, oldest_at, dead);

-- name: look_at_latency
-- How long the latest events took from their transaction to the end of their processing, in seconds.
SELECT count(*) AS events, percentile_cont(0.5) WITHIN GROUP (ORDER BY took_s) AS p50_s,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY took_s) AS p95_s
  FROM (SELECT extract(epoch FROM completed_at - created_at)::float8 AS took_s
          FROM assent.workflow_events_outbox
         WHERE status = 'completed' AND completed_at > $1 ORDER BY completed_at DESC LIMIT $2) AS latest;

-- name: count_dead_letters
-- What was given up, by queue and kind, and how many of them are recent.
SELECT queue, kind, count(*) AS number, count(*) FILTER (WHERE created_at > $1) AS recent
  FROM ((SELECT 'events' AS queue, event_type AS kind, created_at
           FROM assent.workflow_events_outbox WHERE status = 'dead_letter' LIMIT $2)
        UNION ALL
        (SELECT 'effects', effect_type, created_at
           FROM assent.workflow_side_effects_outbox WHERE status = 'dead_letter' LIMIT $2)
        UNION ALL
        (SELECT 'results', source, received_at
           FROM assent.request_deliveries WHERE status = 'dead_letter' LIMIT $2)
        UNION ALL
        (SELECT 'tasks', type, ended_at FROM assent.tasks WHERE status = 'dead' LIMIT $2)) AS dead
 GROUP BY queue, kind ORDER BY queue, kind;

-- name: find_by_index
-- Has this transaction read the small indexes of what is open, and not the tables of all that ever was.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('jit', 'off', true);
