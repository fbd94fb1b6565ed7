-- name: delete_ended_instances
-- Deletes instances that ended longer ago than their org keeps them, with what is theirs alone.
SELECT instances, steps, events, effects, receipts FROM assent.delete_ended_instances($1::integer);
