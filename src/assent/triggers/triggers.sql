-- name: find_trigger_names
-- The triggers that the code of workers declares.
SELECT name FROM assent.declared_names WHERE starts_with(name, 'trigger:') AND declared_until > assent.now();

-- name: join_completed
-- Notes completed tasks of joins, and returns the joins. A row is locked by the first who writes it, and the second sees what the
-- first has written: who completes it starts its task, under the id that was offered here.
INSERT INTO assent.task_joins AS j (org_id, name, partition_id, key, types, completed, task_id, started)
SELECT org_id, name, partition_id, key, types, completed, task_id, completed ?& types
  FROM jsonb_to_recordset($1::jsonb) AS d (
         org_id text, name text, partition_id text, key text, types text[], completed jsonb, task_id uuid)
 ORDER BY org_id, name, partition_id, key
ON CONFLICT (org_id, name, partition_id, key) DO UPDATE
   SET types = excluded.types, completed = excluded.completed || j.completed,
       task_id = CASE WHEN j.started THEN j.task_id ELSE excluded.task_id END,
       started = j.started OR (excluded.completed || j.completed) ?& excluded.types
RETURNING org_id, name, partition_id, key, completed, task_id, started;
