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
