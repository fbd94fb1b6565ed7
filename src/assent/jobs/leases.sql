-- name: renew_lease
-- Says that a worker is alive for another length of time.
INSERT INTO assent.worker_leases (worker_id, leased_until) VALUES ($1, assent.now() + $2::interval)
ON CONFLICT (worker_id) DO UPDATE SET leased_until = excluded.leased_until, lost_jobs = NULL;

-- name: lock_lease
-- Waits for the claims that are being made under a lease, and lets no other begin before the transaction ends.
SELECT true FROM assent.worker_leases WHERE worker_id = $1 FOR UPDATE;

-- name: end_leases_if_unused
-- Deletes the leases of workers that have no job any more. Their rows are locked: no claim is made meanwhile.
DELETE FROM assent.worker_leases l WHERE l.worker_id = ANY ($1::uuid[])
   AND NOT EXISTS (SELECT FROM assent.jobs j WHERE j.status = 'running' AND j.kind IN ('task', 'effect', 'result')
                      AND j.worker_id = l.worker_id);

-- name: lock_expired_leases
-- Workers whose lease is over, locked so that they cannot come back meanwhile, and how many jobs they had when that was
-- found. The number stays when their jobs are rescued in several batches.
WITH expired AS MATERIALIZED (
  SELECT worker_id FROM assent.worker_leases WHERE leased_until <= assent.now()
   ORDER BY worker_id LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE assent.worker_leases l
   SET lost_jobs = coalesce(l.lost_jobs,
         (SELECT count(*) FROM assent.jobs j
           WHERE j.status = 'running' AND j.kind IN ('task', 'effect', 'result') AND j.worker_id = l.worker_id))
  FROM expired e WHERE l.worker_id = e.worker_id
RETURNING l.worker_id, l.lost_jobs;
