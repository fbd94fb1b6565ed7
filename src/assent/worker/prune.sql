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
-- Deletes effects that were completed so many days ago, oldest first.
WITH old AS (
  SELECT org_id, created_at, id FROM assent.workflow_side_effects_outbox
   WHERE status = 'completed' AND completed_at < assent.now() - make_interval(days => $1)
   ORDER BY completed_at LIMIT $2
   FOR UPDATE SKIP LOCKED
), pruned AS (
  DELETE FROM assent.workflow_side_effects_outbox e
   USING old o WHERE e.org_id = o.org_id AND e.created_at = o.created_at AND e.id = o.id
  RETURNING 1
)
SELECT count(*) FROM pruned;

-- name: prune_tasks
-- Deletes tasks that ended so many days ago and are not dead, oldest first.
SELECT assent.prune_tasks(assent.now() - make_interval(days => $1), $2::integer);
