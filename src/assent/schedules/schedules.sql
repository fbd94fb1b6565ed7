-- name: list_schedules
-- The schedules of an org by name, or one of them; of one partition, where the reader sees only that.
SELECT s.name, s.task_type, s.input, s.cron, s.zone, s.missed, s.partition_id, s.declared, s.paused, s.problem, s.next_at,
       s.last_at, s.last_task_id, s.created_by, s.created_at, s.updated_at, s.people
  FROM assent.schedules s
 WHERE s.org_id = $1 AND ($2::text IS NULL OR s.name = $2) AND ($3::text IS NULL OR s.partition_id = $3)
   AND ($4::text IS NULL OR s.name > $4)
 ORDER BY s.name LIMIT $5;

-- name: lock_schedule
-- A schedule, locked until the transaction ends: no worker starts its task meanwhile.
SELECT s.name, s.task_type, s.input, s.cron, s.zone, s.missed, s.partition_id, s.declared, s.paused, s.problem, s.next_at,
       s.last_at, s.last_task_id, s.created_by, s.created_at, s.updated_at, s.people
  FROM assent.schedules s WHERE s.org_id = $1 AND s.name = $2 FOR UPDATE;

-- name: insert_schedule
-- Makes a schedule; no row where there is one of this name already.
INSERT INTO assent.schedules (org_id, name, task_type, input, cron, zone, missed, partition_id, next_at, created_by, people)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (org_id, name) DO NOTHING
RETURNING name, task_type, input, cron, zone, missed, partition_id, declared, paused, problem, next_at, last_at, last_task_id,
          created_by, created_at, updated_at, people;

-- name: change_schedule
-- Changes a schedule that is locked.
UPDATE assent.schedules
   SET task_type = $3, input = $4, cron = $5, zone = $6, missed = $7, next_at = $8, updated_at = assent.now(),
       people = ARRAY(SELECT DISTINCT p FROM unnest(people || $9::text[]) AS p ORDER BY p)
 WHERE org_id = $1 AND name = $2
RETURNING name, task_type, input, cron, zone, missed, partition_id, declared, paused, problem, next_at, last_at, last_task_id,
          created_by, created_at, updated_at, people;

-- name: pause_schedule
-- Pauses a schedule that is locked, or lets it go on from its next time.
UPDATE assent.schedules
   SET paused = $3, problem = NULL, next_at = coalesce($4, next_at), updated_at = assent.now()
 WHERE org_id = $1 AND name = $2
RETURNING name, task_type, input, cron, zone, missed, partition_id, declared, paused, problem, next_at, last_at, last_task_id,
          created_by, created_at, updated_at, people;

-- name: delete_schedule
-- Deletes a schedule that is locked.
DELETE FROM assent.schedules WHERE org_id = $1 AND name = $2
RETURNING name, task_type, input, cron, zone, missed, partition_id, declared, paused, problem, next_at, last_at, last_task_id,
          created_by, created_at, updated_at, people;

-- name: claim_due_schedules
-- The schedules whose time has come, earliest first, locked; without those that another worker holds, and those whose task, or
-- declaration for the org, this one does not know.
SELECT s.org_id, s.name, s.task_type, s.input, s.cron, s.zone, s.missed, s.partition_id, s.next_at, s.people
  FROM assent.schedules s
 WHERE NOT s.paused AND s.next_at <= assent.now() AND s.task_type = ANY ($1::text[])
   AND (NOT s.declared OR EXISTS (
         SELECT FROM jsonb_to_recordset($2::jsonb) AS d (name text, orgs jsonb)
          WHERE d.name = s.name AND (d.orgs IS NULL OR d.orgs ? s.org_id)))
 ORDER BY s.next_at, s.org_id, s.name LIMIT $3
   FOR UPDATE SKIP LOCKED;

-- name: move_schedules
-- Moves schedules that are locked to their next times.
UPDATE assent.schedules s
   SET next_at = coalesce(m.next_at, s.next_at), last_at = coalesce(m.last_at, s.last_at),
       last_task_id = coalesce(m.last_task_id, s.last_task_id)
  FROM jsonb_to_recordset($1::jsonb) AS m (org_id text, name text, next_at timestamptz, last_at timestamptz, last_task_id uuid)
 WHERE s.org_id = m.org_id AND s.name = m.name;

-- name: pause_broken_schedules
-- Pauses schedules that are locked and whose next time is not known, and says why.
UPDATE assent.schedules s SET paused = true, problem = m.problem, updated_at = assent.now()
  FROM jsonb_to_recordset($1::jsonb) AS m (org_id text, name text, problem text)
 WHERE s.org_id = m.org_id AND s.name = m.name;

-- name: find_next_schedule
-- In how many seconds the next schedule is due, if that is within so many; in index order, so it reads one entry.
SELECT extract(epoch FROM next_at - assent.now())::float8
  FROM assent.schedules
 WHERE NOT paused AND next_at > assent.now() AND next_at <= assent.now() + make_interval(secs => $1)
 ORDER BY next_at LIMIT 1;

-- name: declare_schedules
-- Makes the schedules that an application declares, in the orgs that each is for or in all; where $2, changes those that the
-- code has changed, and deletes those of orgs that a schedule is not for any more. One that an org has made itself under such a
-- name stays as it is.
WITH declared AS MATERIALIZED (
  SELECT d.*, o.org_id
    FROM jsonb_to_recordset($1::jsonb) AS d (
           name text, task_type text, input jsonb, cron text, zone text, missed text, next_at timestamptz, orgs jsonb)
   CROSS JOIN LATERAL (
      SELECT g.org_id FROM assent.orgs g WHERE d.orgs IS NULL AND g.org_id <> '*'
      UNION SELECT m.org_id FROM assent.members m WHERE d.orgs IS NULL
      UNION SELECT jsonb_array_elements_text(d.orgs)) AS o
), narrowed AS (
  DELETE FROM assent.schedules s
   WHERE $2 AND s.declared AND s.name IN (SELECT name FROM declared)
     AND NOT EXISTS (SELECT FROM declared d WHERE d.org_id = s.org_id AND d.name = s.name)
), written AS (
  INSERT INTO assent.schedules AS s (org_id, name, task_type, input, cron, zone, missed, declared, next_at, created_by)
  SELECT d.org_id, d.name, d.task_type, d.input, d.cron, d.zone, d.missed, true, d.next_at, 'system'
    FROM declared d LEFT JOIN assent.schedules k ON k.org_id = d.org_id AND k.name = d.name
   -- What is there and the same is not even locked.
   WHERE k.name IS NULL OR ($2 AND k.declared AND (k.task_type, k.input, k.cron, k.zone, k.missed)
         IS DISTINCT FROM (d.task_type, d.input, d.cron, d.zone, d.missed))
   ORDER BY 1, 2
  ON CONFLICT (org_id, name) DO UPDATE
     SET task_type = excluded.task_type, input = excluded.input, cron = excluded.cron, zone = excluded.zone,
         missed = excluded.missed, updated_at = assent.now(),
         next_at = CASE WHEN (s.cron, s.zone) = (excluded.cron, excluded.zone) THEN s.next_at ELSE excluded.next_at END
   WHERE $2 AND s.declared
  RETURNING 1
)
SELECT count(*) FROM written;

-- name: is_declared_now
-- Whether the code of a worker declares one of these names.
SELECT assent.is_declared($1::text[]);
