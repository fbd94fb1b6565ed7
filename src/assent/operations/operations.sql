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
            SELECT FROM assent.workflow_events_outbox WHERE status = 'dead' LIMIT $2) AS dead),
         (SELECT count(*) FROM (
            SELECT FROM assent.workflow_events_outbox WHERE status = 'processing' LIMIT $2) AS claimed)
), jobs AS (
  SELECT k.name,
         (SELECT count(*) FROM (
            SELECT FROM assent.jobs_waiting
             WHERE kind = k.kind AND run_at <= $1 LIMIT $2) AS due),
         (SELECT count(*) FROM (
            SELECT FROM assent.jobs_waiting
             WHERE kind = k.kind AND run_at > $1 LIMIT $2) AS later),
         (SELECT min(run_at) FROM (
            SELECT run_at FROM assent.jobs_waiting
             WHERE kind = k.kind AND run_at <= $1 LIMIT $2) AS due),
         (SELECT count(*) FROM (
            SELECT FROM assent.jobs WHERE kind = k.kind AND status = 'dead' AND NOT resolved LIMIT $2) AS dead),
         (SELECT count(*) FROM (
            SELECT FROM assent.jobs WHERE kind = k.kind AND status = 'running' LIMIT $2) AS claimed)
    FROM (VALUES ('effects', 'effect'), ('results', 'result'), ('tasks', 'task')) AS k (name, kind)
), timers AS (
  SELECT (SELECT count(*) FROM (
            SELECT FROM assent.workflow_step_executions
             WHERE status = 'pending' AND resume_at <= $1 LIMIT $2) AS due),
         (SELECT count(*) FROM (
            SELECT FROM assent.workflow_step_executions
             WHERE status = 'pending' AND resume_at > $1 LIMIT $2) AS later),
         (SELECT resume_at FROM assent.workflow_step_executions
           WHERE status = 'pending' AND resume_at <= $1 ORDER BY resume_at LIMIT 1),
         0, 0
), people AS (
  -- Seats and not requests: these have an index of the open ones.
  SELECT count(*), 0, min(created_at), 0, 0
    FROM (SELECT created_at FROM assent.workflow_seats WHERE status = 'open' LIMIT $2) AS open
)
SELECT * FROM (
  SELECT 'events', * FROM events UNION ALL SELECT * FROM jobs UNION ALL
  SELECT 'timers', * FROM timers UNION ALL SELECT 'people', * FROM people
) AS queues (name, pending, delayed, oldest_at, dead, processing);

-- name: look_at_queues_of_partition
-- The same of one partition: what is open is found by index, and whose it is by its instance, its request or itself.
WITH open_events AS MATERIALIZED (
  SELECT q.status, q.retry_at, q.created_at FROM assent.workflow_events_outbox q
   WHERE q.status IN ('pending', 'failed', 'processing', 'dead') AND $3 = coalesce(q.payload_json ->> 'partition',
         (SELECT i.partition_id FROM assent.workflow_instances i WHERE i.org_id = q.org_id AND i.id = q.instance_id),
         -- The instance of a new entity is to come.
         (SELECT e.partition_id FROM assent.entities e
           WHERE e.org_id = q.org_id AND q.event_type = 'on_create' AND e.id = (q.payload_json ->> 'entity_id')::uuid))
   LIMIT $2
), open_jobs AS MATERIALIZED (
  SELECT j.kind, j.status, j.run_at FROM assent.jobs j
   CROSS JOIN LATERAL (
     SELECT partition_id FROM assent.job_origins s WHERE s.org_id = j.org_id AND s.id = j.id AND s.kind = j.kind) AS o
   WHERE j.status IN ('queued', 'retrying', 'running', 'dead') AND NOT j.resolved AND o.partition_id = $3 LIMIT $2
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
  SELECT 'events', count(*) FILTER (WHERE status IN ('pending', 'failed') AND coalesce(retry_at <= $1, true)),
         count(*) FILTER (WHERE status IN ('pending', 'failed') AND retry_at > $1),
         min(coalesce(retry_at, created_at))
           FILTER (WHERE status IN ('pending', 'failed') AND coalesce(retry_at <= $1, true)),
         count(*) FILTER (WHERE status = 'dead'), count(*) FILTER (WHERE status = 'processing') FROM open_events
  UNION ALL
  SELECT k.kind || 's', count(*) FILTER (WHERE j.status IN ('queued', 'retrying') AND j.run_at <= $1),
         count(*) FILTER (WHERE j.status IN ('queued', 'retrying') AND j.run_at > $1),
         min(j.run_at) FILTER (WHERE j.status IN ('queued', 'retrying') AND j.run_at <= $1),
         count(*) FILTER (WHERE j.status = 'dead'), count(*) FILTER (WHERE j.status = 'running')
    FROM unnest(ARRAY['effect', 'result', 'task']) AS k (kind) LEFT JOIN open_jobs j ON j.kind = k.kind GROUP BY k.kind
  UNION ALL
  SELECT 'timers', count(*) FILTER (WHERE resume_at <= $1), count(*) FILTER (WHERE resume_at > $1),
         min(resume_at) FILTER (WHERE resume_at <= $1), 0, 0 FROM open_timers
  UNION ALL
  SELECT 'people', count(*), 0, min(created_at), 0, 0 FROM open_seats
) AS queues (name, pending, delayed, oldest_at, dead, processing)
 ORDER BY array_position(ARRAY['events', 'effects', 'results', 'tasks', 'timers', 'people'], name);

-- name: look_at_latency
-- How long the latest events took from their transaction to the end of their processing, in seconds; of one partition and
-- one org, where these are given. The org is named although the transaction is confined to it: the planner does not know its
-- value otherwise, and reads the latest events of all orgs.
SELECT count(*) AS events, percentile_cont(0.5) WITHIN GROUP (ORDER BY took_s) AS p50_s,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY took_s) AS p95_s
  FROM (SELECT extract(epoch FROM completed_at - created_at)::float8 AS took_s
          FROM assent.workflow_events_outbox q
         WHERE status = 'completed' AND completed_at > $1 AND ($4::text IS NULL OR org_id = $4)
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
          WHERE j.status = 'dead' AND NOT j.resolved AND ($3::text IS NULL OR $3 = (
                  SELECT o.partition_id FROM assent.job_origins o
                   WHERE o.org_id = j.org_id AND o.id = j.id AND o.kind = j.kind)) LIMIT $2)) AS dead
 GROUP BY queue, kind ORDER BY queue, kind;

-- name: count_incidents
-- Paused instances of all orgs, by the code of their incident and by workflow; counted up to a limit, by index.
SELECT coalesce(incident ->> 'code', 'PAUSED') AS code, workflow_id AS definition, count(*) AS number
  FROM (SELECT incident, workflow_id FROM assent.workflow_instances WHERE status = 'paused' LIMIT $1) AS paused
 GROUP BY 1, 2 ORDER BY 1, 2;

-- name: count_open_incidents
-- Instances that an error paused, by code and workflow, and since when: of all orgs or the one of the transaction, and of
-- one partition, where one is given.
SELECT incident ->> 'code' AS code, workflow_id AS definition, count(*) AS number, min(updated_at) AS oldest_at
  FROM (SELECT incident, workflow_id, updated_at FROM assent.workflow_instances
         WHERE status = 'paused' AND coalesce(incident ->> 'code', 'PAUSED') <> 'PAUSED'
           AND ($2::text IS NULL OR partition_id = $2) LIMIT $1) AS paused
 GROUP BY 1, 2 ORDER BY 1, 2;

-- name: group_incidents
-- Incidents of an org by kind, code, definition and node: how many, since when, and the newest of each; of one partition, where
-- one is given. Counted up to a limit.
SELECT kind, code, definition, definition_id, definition_version, definition_hash, node, count(*) AS number,
       min(since) AS first_at, max(since) AS last_at, (array_agg(id ORDER BY since DESC, id DESC))[1:$3] AS examples,
       (array_agg(message ORDER BY since DESC, id DESC))[1] AS message
  FROM (SELECT * FROM assent.incidents WHERE org_id = $1 AND ($2::text IS NULL OR partition_id = $2) LIMIT $4) AS open
 GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 10 DESC, 8 DESC, 1, 2, 3, 7;

-- name: page_of_incidents
-- Incidents of an org, newest first; of one kind, code, definition, node and partition, where these are given. A node has one
-- id in each definition.
SELECT * FROM assent.incidents
 WHERE org_id = $1 AND ($2::text IS NULL OR partition_id = $2) AND ($3::text IS NULL OR kind = $3)
   AND ($4::text IS NULL OR code = $4) AND ($5::text IS NULL OR definition = $5)
   AND ($6::text[] IS NULL OR node = ANY ($6)) AND ($7::timestamptz IS NULL OR (since, id) < ($7, $8::uuid))
 ORDER BY since DESC, id DESC LIMIT $9;

-- name: find_by_index
-- Has this transaction read the small indexes of what is open, and not the tables of all that ever was.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('jit', 'off', true);

-- name: page_of_dead_letters
-- Dead events and jobs, newest first; of one kind, one partition, one type or lane, where these are named.
SELECT * FROM (
  (SELECT id, created_at, 'event' AS kind, event_type AS what, instance_id, attempts, error, false AS awaited, trace_id,
          'EVENT_FAILED' AS code, false AS ambiguous, NULL::jsonb AS evidence
     FROM assent.workflow_events_outbox e
    WHERE org_id = $1 AND status = 'dead' AND coalesce($2::text, 'event') = 'event'
      AND ($7::text IS NULL OR event_type = $7)
      AND ($6::text IS NULL OR $6 = coalesce(e.payload_json ->> 'partition', (
            SELECT i.partition_id FROM assent.workflow_instances i WHERE i.org_id = e.org_id AND i.id = e.instance_id)))
      AND ($3::timestamptz IS NULL OR (created_at, id) < ($3, $4::uuid))
    ORDER BY created_at DESC, id DESC LIMIT $5)
  UNION ALL
  (SELECT j.id, j.created_at, j.kind, j.lane, o.instance_id, j.attempts, a.error, o.awaited, o.trace_id,
          a.code, coalesce(a.ambiguous, false), a.output
     FROM assent.jobs j
    CROSS JOIN LATERAL (
      SELECT * FROM assent.job_origins s WHERE s.org_id = j.org_id AND s.id = j.id AND s.kind = j.kind) AS o
     LEFT JOIN assent.job_attempts a ON a.org_id = j.org_id AND a.job_id = j.id AND a.attempt = j.attempts
    WHERE j.org_id = $1 AND j.status = 'dead' AND NOT j.resolved AND j.kind = coalesce($2::text, j.kind)
      AND ($7::text IS NULL OR j.lane = $7) AND ($6::text IS NULL OR o.partition_id = $6)
      AND ($3::timestamptz IS NULL OR (j.created_at, j.id) < ($3, $4::uuid))
    ORDER BY j.created_at DESC, j.id DESC LIMIT $5)) AS letters
 ORDER BY created_at DESC, id DESC LIMIT $5;

-- name: is_letter_of_partition
-- Whether a dead letter is one of a partition.
SELECT EXISTS (
  SELECT FROM assent.workflow_events_outbox e LEFT JOIN assent.workflow_instances i
      ON i.org_id = e.org_id AND i.id = e.instance_id
   WHERE e.org_id = $1 AND e.id = $2 AND e.status = 'dead'
     AND coalesce(e.payload_json ->> 'partition', i.partition_id) = $3
  UNION ALL
  SELECT FROM assent.jobs j
   CROSS JOIN LATERAL (
     SELECT partition_id FROM assent.job_origins s WHERE s.org_id = j.org_id AND s.id = j.id AND s.kind = j.kind) AS o
   WHERE j.org_id = $1 AND j.id = $2 AND j.status = 'dead' AND NOT j.resolved AND o.partition_id = $3);

-- name: list_open_events
-- The events of an org that are still to be processed, the oldest first; of one partition, where one is named. Two parts,
-- because each has its own index.
SELECT * FROM (
  (SELECT id, event_type AS what, payload_json ->> 'key' AS event_key, status, instance_id, created_at, attempts,
          retry_at, error
     FROM assent.workflow_events_outbox q
    WHERE org_id = $1 AND status NOT IN ('completed', 'dead', 'processing')
      AND ($3::text IS NULL OR $3 = coalesce(q.payload_json ->> 'partition', (
            SELECT i.partition_id FROM assent.workflow_instances i WHERE i.org_id = q.org_id AND i.id = q.instance_id)))
    ORDER BY created_at, id LIMIT $2)
  UNION ALL
  (SELECT id, event_type, payload_json ->> 'key', status, instance_id, created_at, attempts, retry_at, error
     FROM assent.workflow_events_outbox q
    WHERE org_id = $1 AND status = 'processing'
      AND ($3::text IS NULL OR $3 = coalesce(q.payload_json ->> 'partition', (
            SELECT i.partition_id FROM assent.workflow_instances i WHERE i.org_id = q.org_id AND i.id = q.instance_id)))
    ORDER BY created_at, id LIMIT $2)) AS open
 ORDER BY created_at, id LIMIT $2;

-- name: list_kept_events
-- Events that came before a step waited for them, the oldest first; of one partition, where one is named.
SELECT id, 'on_event' AS what, event_key, 'kept' AS status, created_at
  FROM assent.workflow_kept_events WHERE org_id = $1 AND ($3::text IS NULL OR partition_id = $3) ORDER BY id LIMIT $2;

-- name: find_stuck_instances
-- Running instances, of one org or of all, without a waiting step or an event to come, and untouched for a while; of one
-- partition, where one is given.
WITH RECURSIVE orgs (org_id) AS (
  -- From org to org by the primary key: a DISTINCT would read every instance.
  SELECT coalesce($1::text, (SELECT min(org_id) FROM assent.workflow_instances))
  UNION ALL
  SELECT (SELECT min(i.org_id) FROM assent.workflow_instances i WHERE i.org_id > o.org_id)
    FROM orgs o WHERE $1::text IS NULL AND o.org_id IS NOT NULL
), moving AS MATERIALIZED (
  -- All that waits is read once, from small indexes, and hashed. A look-up in every partition for each running instance
  -- took 2.8 s for 50,000 of them.
  SELECT org_id, instance_id FROM assent.workflow_step_executions
   WHERE status = 'pending' AND ($1::text IS NULL OR org_id = $1)
  UNION ALL
  SELECT org_id, instance_id FROM assent.workflow_events_outbox
   WHERE status NOT IN ('completed', 'dead', 'processing') AND instance_id IS NOT NULL AND ($1::text IS NULL OR org_id = $1)
  UNION ALL
  SELECT org_id, instance_id FROM assent.workflow_events_outbox
   WHERE status = 'processing' AND instance_id IS NOT NULL AND ($1::text IS NULL OR org_id = $1)
)
SELECT i.org_id, i.id AS instance_id, i.workflow_id, i.entity_type, i.entity_id, i.current_nodes,
       i.updated_at AS still_since
  FROM orgs o
  JOIN assent.workflow_instances i ON i.org_id = o.org_id AND i.status = 'running'
   AND i.updated_at <= assent.now() - $2::interval AND ($4::text IS NULL OR i.partition_id = $4)
 WHERE NOT EXISTS (SELECT FROM moving m WHERE m.org_id = i.org_id AND m.instance_id = i.id)
 ORDER BY i.updated_at, i.org_id, i.id LIMIT $3;

-- name: record_node
-- Says that a process runs, for another length of time, and forgets those that were lost long ago; true for one that is new.
WITH forgotten AS (
  DELETE FROM assent.nodes WHERE expected_until < assent.now() - $9::interval AND node_id <> $1
)
INSERT INTO assent.nodes (node_id, host, pid, version, serves, duties, task_types, expected_until)
VALUES ($1, $2, $3, $4, $5, $6, $7, assent.now() + $8::interval)
ON CONFLICT (node_id) DO UPDATE SET seen_at = assent.now(), expected_until = excluded.expected_until
RETURNING xmax = 0 AS is_new;

-- name: remove_node
-- A process ends, and says so.
DELETE FROM assent.nodes WHERE node_id = $1;

-- name: list_nodes
-- The processes of the fleet, by host and id.
SELECT * FROM assent.list_nodes($1::text, $2::uuid, $3::integer);
