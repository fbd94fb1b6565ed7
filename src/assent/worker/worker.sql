-- name: claim_due_steps
-- Takes the time off the steps whose time has come, earliest first, and skips those that another worker holds.
WITH due AS (
  SELECT org_id, created_at, id, resume_at FROM assent.workflow_step_executions
   WHERE status = 'pending' AND resume_at <= assent.now()
   ORDER BY resume_at LIMIT $1
   FOR UPDATE SKIP LOCKED
), claimed AS (
  UPDATE assent.workflow_step_executions s SET resume_at = NULL
    FROM due d
   WHERE s.org_id = d.org_id AND s.created_at = d.created_at AND s.id = d.id
  RETURNING s.org_id, s.instance_id, s.id, s.entity_version, d.resume_at
)
SELECT * FROM claimed ORDER BY resume_at, id;

-- name: find_expired_instances
-- Running instances whose time is over and that have no event of it yet, earliest first.
SELECT i.org_id, i.id, i.expires_at
  FROM assent.workflow_instances i
 WHERE i.status = 'running' AND i.expires_at <= assent.now()
   AND NOT EXISTS (
     SELECT FROM assent.workflow_events_outbox e
      WHERE e.org_id = i.org_id AND e.instance_id = i.id AND e.event_type = 'on_expired'
        -- CASE, because conditions are tried in any order, and others' payloads may hold anything under this name.
        AND CASE WHEN e.event_type = 'on_expired' THEN (e.payload_json ->> 'due')::timestamptz END = i.expires_at)
 ORDER BY i.expires_at, i.org_id, i.id LIMIT $1;

-- name: look_up_by_index
-- Has this transaction join by nested loops over indexes; and not compile plans that only look expensive.
SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true);

-- name: delete_ended_instances
-- Deletes instances that ended longer ago than their org keeps them, with what is theirs alone.
SELECT instances, steps, events, effects, receipts FROM assent.delete_ended_instances($1::integer);

-- name: prune_receipts
-- Deletes the receipts of instances that ended so many days ago, for some instances at once.
SELECT instances, step_receipts, outbox_receipts
  FROM assent.prune_receipts(assent.now() - make_interval(days => $1), $2::integer);

-- name: prune_events
-- Deletes events that were completed so many days ago, oldest first.
WITH old AS (
  SELECT org_id, created_at, id FROM assent.workflow_events_outbox
   WHERE status = 'completed' AND completed_at < assent.now() - make_interval(days => $1)
   ORDER BY completed_at LIMIT $2
   FOR UPDATE SKIP LOCKED
), pruned AS (
  DELETE FROM assent.workflow_events_outbox e
   USING old o WHERE e.org_id = o.org_id AND e.created_at = o.created_at AND e.id = o.id
  RETURNING 1
)
SELECT count(*) FROM pruned;

-- name: prune_effects
-- Deletes effects that were sent so many days ago, oldest first.
SELECT assent.prune_jobs('effect', assent.now() - make_interval(days => $1), $2::integer);

-- name: prune_tasks
-- Deletes tasks that ended so many days ago and are not dead, oldest first.
SELECT assent.prune_jobs('task', assent.now() - make_interval(days => $1), $2::integer);

-- name: prune_kept_events
-- Deletes events that no step has waited for in so many days, oldest first.
WITH old AS (
  SELECT org_id, id FROM assent.workflow_kept_events
   WHERE created_at < assent.now() - make_interval(days => $1)
   ORDER BY created_at LIMIT $2
   FOR UPDATE SKIP LOCKED
), pruned AS (
  DELETE FROM assent.workflow_kept_events k USING old o WHERE k.org_id = o.org_id AND k.id = o.id RETURNING 1
)
SELECT count(*) FROM pruned;

-- name: prune_surplus_events
-- Deletes the newest of the events that are kept under one key in one partition beyond so many: a step that waits takes
-- the oldest first.
WITH surplus AS (
  SELECT k.org_id, k.id
    FROM (SELECT org_id, event_key, partition_id FROM assent.workflow_kept_events
           GROUP BY 1, 2, 3 HAVING count(*) > $1) AS full_key
   CROSS JOIN LATERAL (
      SELECT o.org_id, o.id FROM assent.workflow_kept_events o
       WHERE o.org_id = full_key.org_id AND o.event_key = full_key.event_key
         AND o.partition_id IS NOT DISTINCT FROM full_key.partition_id
       ORDER BY o.id OFFSET $1) AS k
   LIMIT $2
), pruned AS (
  DELETE FROM assent.workflow_kept_events k USING surplus s WHERE k.org_id = s.org_id AND k.id = s.id RETURNING 1
)
SELECT count(*) FROM pruned;

-- name: try_lock_compaction
-- Lets one worker at a time compact, until its transaction ends; false when another does.
SELECT pg_try_advisory_xact_lock(hashtextextended('assent.compact', 0));

-- name: compact_steps
-- Reduces the output of one org's next steps of so many months ago to the keys that are kept, and notes how far it is.
WITH RECURSIVE orgs (org_id) AS (
  -- From org to org by the primary key: a DISTINCT would read every instance.
  SELECT min(org_id) FROM assent.workflow_instances
  UNION ALL
  SELECT (SELECT min(i.org_id) FROM assent.workflow_instances i WHERE i.org_id > o.org_id)
    FROM orgs o WHERE o.org_id IS NOT NULL
), turn AS MATERIALIZED (
  SELECT o.org_id, done.created_at, done.id
    FROM orgs o
    LEFT JOIN assent.step_compactions c ON c.org_id = o.org_id
   CROSS JOIN LATERAL (SELECT coalesce(c.step_created_at, '-infinity') AS created_at,
                              coalesce(c.step_id, '00000000-0000-0000-0000-000000000000') AS id) done
   WHERE EXISTS (SELECT FROM assent.workflow_step_executions s
                  WHERE s.org_id = o.org_id AND s.created_at >= done.created_at
                    AND (s.created_at, s.id) > (done.created_at, done.id)
                    AND s.created_at < assent.now() - make_interval(months => $1))
   LIMIT 1
), batch AS MATERIALIZED (
  SELECT s.org_id, s.created_at, s.id, s.status, s.output_json
    FROM turn t
   CROSS JOIN LATERAL (
     SELECT * FROM assent.workflow_step_executions s
      WHERE s.org_id = t.org_id AND s.created_at >= t.created_at AND (s.created_at, s.id) > (t.created_at, t.id)
        AND s.created_at < assent.now() - make_interval(months => $1)
      ORDER BY s.created_at, s.id LIMIT $2) s
), compacted AS (
  UPDATE assent.workflow_step_executions s
     SET output_json = coalesce((SELECT jsonb_object_agg(key, value) FROM jsonb_each(b.output_json)
                                  WHERE key = ANY ($3::text[])), '{}')
                       || jsonb_build_object('compacted', true)
    FROM batch b
   WHERE s.org_id = b.org_id AND s.created_at = b.created_at AND s.id = b.id
     AND b.status IN ('completed', 'failed', 'skipped', 'cancelled')
     AND jsonb_typeof(b.output_json) = 'object' AND b.output_json - $3::text[] - 'compacted' <> '{}'
  RETURNING 1
), noted AS (
  INSERT INTO assent.step_compactions AS c (org_id, step_created_at, step_id)
  SELECT org_id, created_at, id FROM batch ORDER BY created_at DESC, id DESC LIMIT 1
  ON CONFLICT (org_id) DO UPDATE SET step_created_at = excluded.step_created_at, step_id = excluded.step_id
)
SELECT (SELECT count(*) FROM batch) AS examined, (SELECT count(*) FROM compacted) AS compacted;
