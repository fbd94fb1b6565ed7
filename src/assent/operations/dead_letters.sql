-- name: page_of_dead_letters
-- Dead events, effects, results and tasks, newest first; of one kind, one partition, one type or destination, where these are
-- named.
SELECT * FROM (
  (SELECT id, created_at, 'event' AS kind, event_type AS what, instance_id, attempts, error, false AS awaited, trace_id
     FROM assent.workflow_events_outbox e
    WHERE org_id = $1 AND status = 'dead_letter' AND coalesce($2::text, 'event') = 'event'
      AND ($7::text IS NULL OR event_type = $7)
      AND ($6::text IS NULL OR $6 = coalesce(e.payload_json ->> 'partition', (
            SELECT i.partition_id FROM assent.workflow_instances i WHERE i.org_id = e.org_id AND i.id = e.instance_id)))
      AND ($3::timestamptz IS NULL OR (created_at, id) < ($3, $4::uuid))
    ORDER BY created_at DESC, id DESC LIMIT $5)
  UNION ALL
  (SELECT id, created_at, 'effect', destination, instance_id, attempts, error, awaited, trace_id
     FROM assent.workflow_side_effects_outbox e
    WHERE org_id = $1 AND status = 'dead_letter' AND coalesce($2::text, 'effect') = 'effect'
      AND ($7::text IS NULL OR destination = $7)
      AND ($6::text IS NULL OR $6 = (
            SELECT i.partition_id FROM assent.workflow_instances i WHERE i.org_id = e.org_id AND i.id = e.instance_id))
      AND ($3::timestamptz IS NULL OR (created_at, id) < ($3, $4::uuid))
    ORDER BY created_at DESC, id DESC LIMIT $5)
  UNION ALL
  (SELECT d.id, d.received_at, 'result', r.name, r.instance_id, d.attempts, d.error, false, r.trace_id
     FROM assent.outside_request_deliveries d JOIN assent.outside_requests r ON r.org_id = d.org_id AND r.id = d.request_id
    WHERE d.org_id = $1 AND d.status = 'dead_letter' AND coalesce($2::text, 'result') = 'result'
      AND ($7::text IS NULL OR r.name = $7)
      AND ($6::text IS NULL OR r.partition_id = $6)
      AND ($3::timestamptz IS NULL OR (d.received_at, d.id) < ($3, $4::uuid))
    ORDER BY d.received_at DESC, d.id DESC LIMIT $5)
  UNION ALL
  (SELECT t.id, s.created_at, 'task', t.type, s.instance_id, t.attempts, a.error, s.awaited, s.trace_id
     FROM assent.tasks t
     JOIN assent.task_submissions s ON s.org_id = t.org_id AND s.id = t.id
     LEFT JOIN assent.task_attempts a ON a.org_id = t.org_id AND a.task_id = t.id AND a.attempt = t.attempts
    WHERE t.org_id = $1 AND t.status = 'dead' AND coalesce($2::text, 'task') = 'task'
      AND ($7::text IS NULL OR t.type = $7)
      AND ($6::text IS NULL OR s.partition_id = $6)
      AND ($3::timestamptz IS NULL OR (s.created_at, s.id) < ($3, $4::uuid))
    ORDER BY s.created_at DESC, s.id DESC LIMIT $5)) AS letters
 ORDER BY created_at DESC, id DESC LIMIT $5;

-- name: is_letter_of_partition
-- Whether a dead letter is one of a partition.
SELECT EXISTS (
  SELECT FROM assent.workflow_events_outbox e LEFT JOIN assent.workflow_instances i
      ON i.org_id = e.org_id AND i.id = e.instance_id
   WHERE e.org_id = $1 AND e.id = $2 AND e.status = 'dead_letter'
     AND coalesce(e.payload_json ->> 'partition', i.partition_id) = $3
  UNION ALL
  SELECT FROM assent.workflow_side_effects_outbox e JOIN assent.workflow_instances i
      ON i.org_id = e.org_id AND i.id = e.instance_id
   WHERE e.org_id = $1 AND e.id = $2 AND e.status = 'dead_letter' AND i.partition_id = $3
  UNION ALL
  SELECT FROM assent.outside_request_deliveries d JOIN assent.outside_requests r ON r.org_id = d.org_id AND r.id = d.request_id
   WHERE d.org_id = $1 AND d.id = $2 AND d.status = 'dead_letter' AND r.partition_id = $3
  UNION ALL
  SELECT FROM assent.tasks t JOIN assent.task_submissions s ON s.org_id = t.org_id AND s.id = t.id
   WHERE t.org_id = $1 AND t.id = $2 AND t.status = 'dead' AND s.partition_id = $3);
