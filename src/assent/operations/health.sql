-- name: look_at_queues
-- How much waits in every queue, since when, and what is dead; each counted up to a limit, by index.
WITH events AS (
  SELECT (SELECT count(*) FROM (
            SELECT FROM assent.workflow_events_outbox
             WHERE status IN ('pending', 'failed') AND (retry_at IS NULL OR retry_at <= $1) LIMIT $2) AS due),
         (SELECT count(*) FROM (
            SELECT FROM assent.workflow_events_outbox
             WHERE status IN ('pending', 'failed') AND retry_at > $1 LIMIT $2) AS later),
         least(
           -- Ordered as the index is: the first of those that were never put off, and of those that were.
           (SELECT created_at FROM assent.workflow_events_outbox WHERE status = 'pending' AND retry_at IS NULL
             ORDER BY status, retry_at, created_at LIMIT 1),
           (SELECT retry_at FROM assent.workflow_events_outbox WHERE status = 'pending' AND retry_at <= $1
             ORDER BY status, retry_at, created_at LIMIT 1),
           (SELECT retry_at FROM assent.workflow_events_outbox WHERE status = 'failed' AND retry_at <= $1
             ORDER BY status, retry_at, created_at LIMIT 1)),
         (SELECT count(*) FROM (
            SELECT FROM assent.workflow_events_outbox WHERE status = 'dead' LIMIT $2) AS dead)
), effects AS (
  SELECT (SELECT count(*) FROM (
            SELECT FROM assent.jobs
             WHERE kind = 'effect' AND status IN ('queued', 'retrying') AND run_at <= $1 LIMIT $2) AS due),
         (SELECT count(*) FROM (
            SELECT FROM assent.jobs
             WHERE kind = 'effect' AND status IN ('queued', 'retrying') AND run_at > $1 LIMIT $2) AS later),
         (SELECT min(run_at) FROM (
            SELECT run_at FROM assent.jobs
             WHERE kind = 'effect' AND status IN ('queued', 'retrying') AND run_at <= $1 LIMIT $2) AS due),
         (SELECT count(*) FROM (
            SELECT FROM assent.jobs WHERE kind = 'effect' AND status = 'dead' LIMIT $2) AS dead)
), results AS (
  SELECT (SELECT count(*) FROM (
            SELECT FROM assent.jobs
             WHERE kind = 'result' AND status IN ('queued', 'retrying') AND run_at <= $1 LIMIT $2) AS due),
         (SELECT count(*) FROM (
            SELECT FROM assent.jobs
             WHERE kind = 'result' AND status IN ('queued', 'retrying') AND run_at > $1 LIMIT $2) AS later),
         (SELECT min(run_at) FROM (
            SELECT run_at FROM assent.jobs
             WHERE kind = 'result' AND status IN ('queued', 'retrying') AND run_at <= $1 LIMIT $2) AS due),
         (SELECT count(*) FROM (
            SELECT FROM assent.jobs WHERE kind = 'result' AND status = 'dead' LIMIT $2) AS dead)
), tasks AS (
  SELECT (SELECT count(*) FROM (
            SELECT FROM assent.jobs
             WHERE kind = 'task' AND status IN ('queued', 'retrying') AND run_at <= $1 LIMIT $2) AS due),
         (SELECT count(*) FROM (
            SELECT FROM assent.jobs
             WHERE kind = 'task' AND status IN ('queued', 'retrying') AND run_at > $1 LIMIT $2) AS later),
         (SELECT min(run_at) FROM (
            SELECT run_at FROM assent.jobs
             WHERE kind = 'task' AND status IN ('queued', 'retrying') AND run_at <= $1 LIMIT $2) AS due),
         (SELECT count(*) FROM (
            SELECT FROM assent.jobs WHERE kind = 'task' AND status = 'dead' LIMIT $2) AS dead)
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

-- name: look_at_queues_of_partition
-- The same of one partition: what is open is found by index, and whose it is by its instance, its request or itself.
WITH open_events AS MATERIALIZED (
  SELECT q.status, q.retry_at, q.created_at FROM assent.workflow_events_outbox q
   WHERE q.status IN ('pending', 'failed', 'dead') AND $3 = coalesce(q.payload_json ->> 'partition',
         (SELECT i.partition_id FROM assent.workflow_instances i WHERE i.org_id = q.org_id AND i.id = q.instance_id),
         -- The instance of a new entity is to come.
         (SELECT e.partition_id FROM assent.entities e
           WHERE e.org_id = q.org_id AND q.event_type = 'on_create' AND e.id = (q.payload_json ->> 'entity_id')::uuid))
   LIMIT $2
), open_jobs AS MATERIALIZED (
  SELECT j.kind, j.status, j.run_at FROM assent.jobs j
   CROSS JOIN LATERAL (
     SELECT partition_id FROM assent.job_origins s WHERE s.org_id = j.org_id AND s.id = j.id AND s.kind = j.kind) AS o
   WHERE j.status IN ('queued', 'retrying', 'dead') AND o.partition_id = $3 LIMIT $2
), open_timers AS MATERIALIZED (
  SELECT q.resume_at FROM assent.workflow_step_executions q
    JOIN assent.workflow_instances i ON i.org_id = q.org_id AND i.id = q.instance_id
   WHERE q.status = 'pending' AND q.resume_at IS NOT NULL AND i.partition_id = $3 LIMIT $2
), open_seats AS MATERIALIZED (
  SELECT q.created_at FROM assent.workflow_seats q
    JOIN assent.workflow_instances i ON i.org_id = q.org_id AND i.id = q.instance_id
   WHERE q.status = 'open' AND i.partition_id = $3 LIMIT $2
)
SELECT * FROM (
  SELECT 'events', count(*) FILTER (WHERE status <> 'dead' AND coalesce(retry_at <= $1, true)),
         count(*) FILTER (WHERE status <> 'dead' AND retry_at > $1),
         min(coalesce(retry_at, created_at))
           FILTER (WHERE status <> 'dead' AND coalesce(retry_at <= $1, true)),
         count(*) FILTER (WHERE status = 'dead') FROM open_events
  UNION ALL
  SELECT k.kind || 's', count(*) FILTER (WHERE j.status <> 'dead' AND j.run_at <= $1),
         count(*) FILTER (WHERE j.status <> 'dead' AND j.run_at > $1),
         min(j.run_at) FILTER (WHERE j.status <> 'dead' AND j.run_at <= $1),
         count(*) FILTER (WHERE j.status = 'dead')
    FROM unnest(ARRAY['effect', 'result', 'task']) AS k (kind) LEFT JOIN open_jobs j ON j.kind = k.kind GROUP BY k.kind
  UNION ALL
  SELECT 'timers', count(*) FILTER (WHERE resume_at <= $1), count(*) FILTER (WHERE resume_at > $1),
         min(resume_at) FILTER (WHERE resume_at <= $1), 0 FROM open_timers
  UNION ALL
  SELECT 'people', count(*), 0, min(created_at), 0 FROM open_seats
) AS queues (name, pending, delayed, oldest_at, dead)
 ORDER BY array_position(ARRAY['events', 'effects', 'results', 'tasks', 'timers', 'people'], name);

-- name: look_at_latency
-- How long the latest events took from their transaction to the end of their processing, in seconds; of one partition,
-- where one is given.
SELECT count(*) AS events, percentile_cont(0.5) WITHIN GROUP (ORDER BY took_s) AS p50_s,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY took_s) AS p95_s
  FROM (SELECT extract(epoch FROM completed_at - created_at)::float8 AS took_s
          FROM assent.workflow_events_outbox q
         WHERE status = 'completed' AND completed_at > $1
           AND ($3::text IS NULL OR $3 = (SELECT i.partition_id FROM assent.workflow_instances i
                                           WHERE i.org_id = q.org_id AND i.id = q.instance_id))
         ORDER BY completed_at DESC LIMIT $2) AS latest;

-- name: count_dead_letters
-- Dead letters by queue and kind, and how many of them are recent; of one partition, where one is given.
SELECT queue, kind, count(*) AS number, count(*) FILTER (WHERE created_at > $1) AS recent
  FROM ((SELECT 'events' AS queue, event_type AS kind, created_at
           FROM assent.workflow_events_outbox q
          WHERE status = 'dead' AND ($3::text IS NULL OR $3 = coalesce(payload_json ->> 'partition', (
                  SELECT i.partition_id FROM assent.workflow_instances i
                   WHERE i.org_id = q.org_id AND i.id = q.instance_id))) LIMIT $2)
        UNION ALL
        (SELECT j.kind || 's', j.lane, j.ended_at
           FROM assent.jobs j
          WHERE j.status = 'dead' AND ($3::text IS NULL OR $3 = (
                  SELECT o.partition_id FROM assent.job_origins o
                   WHERE o.org_id = j.org_id AND o.id = j.id AND o.kind = j.kind)) LIMIT $2)) AS dead
 GROUP BY queue, kind ORDER BY queue, kind;

-- name: find_by_index
-- Has this transaction read the small indexes of what is open, and not the tables of all that ever was.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('jit', 'off', true);
