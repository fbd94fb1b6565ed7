-- name: page_of_dead_letters
-- Dead events and jobs, newest first; of one kind, one partition, one type or lane, where these are named.
SELECT * FROM (
  (SELECT id, created_at, 'event' AS kind, event_type AS what, instance_id, attempts, error, false AS awaited, trace_id
     FROM assent.workflow_events_outbox e
    WHERE org_id = $1 AND status = 'dead' AND coalesce($2::text, 'event') = 'event'
      AND ($7::text IS NULL OR event_type = $7)
      AND ($6::text IS NULL OR $6 = coalesce(e.payload_json ->> 'partition', (
            SELECT i.partition_id FROM assent.workflow_instances i WHERE i.org_id = e.org_id AND i.id = e.instance_id)))
      AND ($3::timestamptz IS NULL OR (created_at, id) < ($3, $4::uuid))
    ORDER BY created_at DESC, id DESC LIMIT $5)
  UNION ALL
  (SELECT j.id, j.created_at, j.kind, j.lane, o.instance_id, j.attempts, a.error, o.awaited, o.trace_id
     FROM assent.jobs j
    CROSS JOIN LATERAL (
      SELECT * FROM assent.job_origins s WHERE s.org_id = j.org_id AND s.id = j.id AND s.kind = j.kind) AS o
     LEFT JOIN assent.job_attempts a ON a.org_id = j.org_id AND a.job_id = j.id AND a.attempt = j.attempts
    WHERE j.org_id = $1 AND j.status = 'dead' AND j.kind = coalesce($2::text, j.kind)
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
   WHERE j.org_id = $1 AND j.id = $2 AND j.status = 'dead' AND o.partition_id = $3);
