-- name: declare_resources
-- Says what the code of this worker declares; a resource that changed is written, the rest is left alone.
INSERT INTO assent.resources (name, max_concurrency)
SELECT name, max_concurrency FROM unnest($1::text[], $2::integer[]) AS r (name, max_concurrency) ORDER BY name
ON CONFLICT (name) DO UPDATE SET max_concurrency = excluded.max_concurrency, declared_at = assent.now()
 WHERE assent.resources.max_concurrency IS DISTINCT FROM excluded.max_concurrency;

-- name: list_resources
-- The resources, with how many tasks run with each, of all orgs, and how many of this org, or of a partition of it, wait.
SELECT r.name, r.max_concurrency, r.running, coalesce(w.waiting, 0) AS waiting, r.declared_at
  FROM assent.list_resources() r
  LEFT JOIN (
    SELECT u.name, count(*) AS waiting
      FROM assent.jobs j JOIN assent.task_throttles t ON t.org_id = j.org_id AND t.id = j.throttle
     CROSS JOIN LATERAL unnest(t.resources) AS u (name)
     WHERE j.org_id = $1 AND j.status IN ('queued', 'retrying') AND j.throttle IS NOT NULL AND j.run_at <= assent.now()
       AND ($3::text IS NULL OR EXISTS (SELECT FROM assent.task_submissions s
             WHERE s.org_id = j.org_id AND s.id = j.id AND s.partition_id = $3))
     GROUP BY u.name) AS w USING (name)
 WHERE $2::text IS NULL OR r.name = $2
 ORDER BY r.name;

-- name: keep_throttles
-- Writes limits that are not known yet.
INSERT INTO assent.task_throttles (org_id, id, resources, rate_key, rate_max, rate_period)
SELECT org_id, id, resources, rate_key, rate_max, make_interval(secs => rate_period_s)
  FROM jsonb_to_recordset($1::jsonb) AS t (
         org_id text, id uuid, resources text[], rate_key text, rate_max integer, rate_period_s double precision)
 ORDER BY org_id, id
ON CONFLICT DO NOTHING;

-- name: find_throttled
-- Where tasks wait that a limit may hold back: by limit, org, lane and priority, from one on, with how many are due, up to a
-- number. Each costs a look into the index, however many wait there.
WITH RECURSIVE place AS (
  (SELECT throttle, org_id, lane, priority, run_at, 1 AS n FROM assent.jobs
    WHERE status IN ('queued', 'retrying') AND throttle IS NOT NULL AND (throttle, org_id, lane, priority) > ($1, $2, $3, $4::smallint)
    ORDER BY throttle, org_id, lane, priority, run_at LIMIT 1)
  UNION ALL
  SELECT following.throttle, following.org_id, following.lane, following.priority, following.run_at, place.n + 1
    FROM place CROSS JOIN LATERAL (
      SELECT j.throttle, j.org_id, j.lane, j.priority, j.run_at FROM assent.jobs j
       WHERE j.status IN ('queued', 'retrying') AND j.throttle IS NOT NULL
         AND (j.throttle, j.org_id, j.lane, j.priority) > (place.throttle, place.org_id, place.lane, place.priority)
       ORDER BY j.throttle, j.org_id, j.lane, j.priority, j.run_at LIMIT 1) AS following
   WHERE place.n < $5
)
SELECT p.throttle, p.org_id, p.lane, p.priority, p.run_at, t.resources, t.rate_key, t.rate_max, t.rate_period,
       (SELECT count(*) FROM (
          SELECT FROM assent.jobs j
           WHERE j.throttle = p.throttle AND j.org_id = p.org_id AND j.lane = p.lane AND j.priority = p.priority
             AND j.status IN ('queued', 'retrying') AND j.run_at <= assent.now() AND j.suspect = $7 LIMIT $6) AS due) AS due,
       EXISTS (SELECT FROM assent.jobs WHERE kind = 'task' AND status IN ('queued', 'retrying') AND suspect
                  AND throttle IS NOT NULL AND run_at <= assent.now()) AS has_suspects
  FROM place p JOIN assent.task_throttles t ON t.org_id = p.org_id AND t.id = p.throttle
 ORDER BY p.n;

-- name: lock_limits
-- Locks resources that have a limit, and rates, until the transaction ends; those are passed over that have no room, and those
-- for which another claim is being made. A claim holds the locks of all limits that it counts, and no other waits for it.
WITH running AS (
  SELECT u.name, count(*) AS number
    FROM assent.jobs j JOIN assent.task_throttles t ON t.org_id = j.org_id AND t.id = j.throttle
   CROSS JOIN LATERAL unnest(t.resources) AS u (name)
   WHERE j.status = 'running' AND j.throttle IS NOT NULL GROUP BY u.name
), with_room AS MATERIALIZED (
  SELECT r.name, r.max_concurrency FROM assent.resources r LEFT JOIN running USING (name)
   WHERE r.name = ANY ($1::text[]) AND (r.max_concurrency IS NULL OR coalesce(running.number, 0) < r.max_concurrency)
), rates AS MATERIALIZED (
  SELECT org_id, key FROM unnest($2::text[], $3::text[]) AS asked (org_id, key)
)
SELECT ARRAY(
         SELECT name FROM with_room
          WHERE max_concurrency IS NULL
             OR pg_try_advisory_xact_lock(hashtextextended(format('assent.resource.%s', name), 5))) AS resources,
       ARRAY(
         SELECT ARRAY[org_id, key] FROM rates
          WHERE pg_try_advisory_xact_lock(hashtextextended(format('assent.rate.%s.%s', org_id, key), 5))) AS rates,
       (SELECT count(*) FROM with_room) AS resources_with_room;

-- name: count_resources
-- How many more tasks may run with resources whose locks are held: it sees every claim before this one.
SELECT r.name, r.max_concurrency - (
         SELECT count(*) FROM assent.jobs j JOIN assent.task_throttles t ON t.org_id = j.org_id AND t.id = j.throttle
          WHERE j.status = 'running' AND j.throttle IS NOT NULL AND r.name = ANY (t.resources)) AS room
  FROM assent.resources r WHERE r.name = ANY ($1::text[]);

-- name: count_rates
-- How many more tasks may start now under rates whose locks are held, and in how long the next may where that is none.
SELECT asked.n, asked.rate_max - used.number AS room,
       extract(epoch FROM used.next_at - assent.now())::float8 AS again_in_s
  FROM unnest($1::text[], $2::text[], $3::integer[], $4::interval[]) WITH ORDINALITY
         AS asked (org_id, key, rate_max, rate_period, n)
 CROSS JOIN LATERAL (
   SELECT count(*) AS number, min(newest.at) + asked.rate_period AS next_at
     FROM (SELECT s.at FROM assent.rate_starts s
            WHERE s.org_id = asked.org_id AND s.key = asked.key
              AND s.at > assent.now() + (clock_timestamp() - pg_catalog.now()) - asked.rate_period
            ORDER BY s.at DESC LIMIT asked.rate_max) AS newest) AS used;

-- name: claim_throttled
-- Claims tasks of these places that are due, so many of each, under the worker's lease; suspects, or those that are none. Their start
-- is dated by the clock of this moment, not by that of the transaction: it is after the end of all that made room for them. Starts
-- that have a rate are noted, and those that do not count any more are deleted.
WITH due AS MATERIALIZED (
  SELECT found.org_id, found.id
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::smallint[], $5::integer[]) WITH ORDINALITY
           AS p (throttle, org_id, lane, priority, room, n)
   CROSS JOIN LATERAL (
     SELECT j.org_id, j.id FROM assent.jobs j
      WHERE j.throttle = p.throttle AND j.org_id = p.org_id AND j.lane = p.lane AND j.priority = p.priority
        AND j.status IN ('queued', 'retrying') AND j.run_at <= assent.now() AND j.suspect = $7
      ORDER BY j.run_at, j.id LIMIT p.room FOR UPDATE OF j SKIP LOCKED) AS found
), lease AS MATERIALIZED (
  SELECT FROM assent.worker_leases WHERE worker_id = $6 AND leased_until > assent.now() + $8::interval
     FOR KEY SHARE
), moment AS MATERIALIZED (
  SELECT assent.now() + (clock_timestamp() - pg_catalog.now()) AS at
), claimed AS (
  UPDATE assent.jobs j SET status = 'running', attempts = j.attempts + 1, worker_id = $6, claimed_at = m.at
    FROM due d, moment m WHERE j.org_id = d.org_id AND j.id = d.id
     AND j.status NOT IN ('running', 'blocked', 'background', 'done', 'cancelled', 'dead')
  RETURNING j.org_id, j.id, j.lane, j.attempts AS attempt, j.attempts_max, j.created_at, j.repeatable,
            CASE WHEN j.suspect THEN j.losses ELSE 0 END AS losses, j.throttle
), started AS (
  INSERT INTO assent.rate_starts (org_id, key, at, task_id, expires_at)
  SELECT c.org_id, t.rate_key, m.at, c.id, m.at + t.rate_period
    FROM claimed c JOIN assent.task_throttles t ON t.org_id = c.org_id AND t.id = c.throttle AND t.rate_key IS NOT NULL
   CROSS JOIN moment m
), forgotten AS (
  DELETE FROM assent.rate_starts s
   USING (SELECT DISTINCT c.org_id, t.rate_key FROM claimed c
            JOIN assent.task_throttles t ON t.org_id = c.org_id AND t.id = c.throttle AND t.rate_key IS NOT NULL) AS r, moment m
   WHERE s.org_id = r.org_id AND s.key = r.rate_key AND s.expires_at <= m.at
)
SELECT c.org_id, c.id, c.lane, c.attempt, c.attempts_max, c.created_at, c.repeatable, c.losses,
       EXISTS (SELECT FROM lease) AS is_covered, t.resources, t.rate_key, t.rate_max, t.rate_period
  FROM claimed c JOIN assent.task_throttles t ON t.org_id = c.org_id AND t.id = c.throttle;

-- name: throttle_if_claimed
-- Returns tasks to the queue that this worker has claimed in this transaction without regard to the limits of their type: they were
-- submitted by a program that does not know them. The attempt does not count.
UPDATE assent.jobs j SET status = 'queued', attempts = j.attempts - 1, worker_id = NULL, throttle = m.throttle
  FROM unnest($2::text[], $3::uuid[], $4::integer[], $5::uuid[]) AS m (org_id, id, attempt, throttle)
 WHERE j.org_id = m.org_id AND j.id = m.id AND j.attempts = m.attempt AND j.worker_id IS NOT DISTINCT FROM $1;
