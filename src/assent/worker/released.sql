-- name: release_events
-- Puts events back whose worker had them for longer than a lease; without attempts left they are dead letters.
WITH gone AS (
  SELECT org_id, created_at, id FROM assent.workflow_events_outbox
   WHERE status = 'processing' AND claimed_at <= assent.now() - $2::interval
   ORDER BY claimed_at LIMIT $1
   FOR UPDATE SKIP LOCKED
), released AS (
  UPDATE assent.workflow_events_outbox e
     SET status = CASE WHEN e.attempts < e.max_attempts THEN 'pending' ELSE 'dead_letter' END,
         error = format('its worker took it at %s and did not finish', e.claimed_at), next_retry_at = NULL
    FROM gone g
   WHERE e.org_id = g.org_id AND e.created_at = g.created_at AND e.id = g.id
  RETURNING e.status
), counted AS (
  SELECT count(*) FILTER (WHERE status = 'pending') AS released, count(*) FILTER (WHERE status = 'dead_letter') AS dead
    FROM released
)
SELECT released, dead, CASE WHEN released > 0 THEN pg_notify('assent_events', '') END FROM counted;

-- name: release_effects
-- Puts effects back whose worker had them for longer than a lease. Nobody knows whether they were sent: what must not be
-- sent twice is a dead letter, and so is what has no attempts left; its step shows that as evidence.
WITH gone AS (
  SELECT org_id, created_at, id FROM assent.workflow_side_effects_outbox
   WHERE status = 'processing' AND claimed_at <= assent.now() - $2::interval
   ORDER BY claimed_at LIMIT $1
   FOR UPDATE SKIP LOCKED
), released AS (
  UPDATE assent.workflow_side_effects_outbox e
     SET status = CASE WHEN e.attempts < e.max_attempts AND e.retry_ambiguous THEN 'pending' ELSE 'dead_letter' END,
         error = format('its worker took it at %s and did not finish', e.claimed_at), next_retry_at = NULL,
         ambiguous = true
    FROM gone g
   WHERE e.org_id = g.org_id AND e.created_at = g.created_at AND e.id = g.id
  RETURNING e.org_id, e.id, e.instance_id, e.step_execution_id AS step_id, e.step_created_at, e.status, e.awaited, e.error,
            e.attempts, e.trace_id,
            CASE WHEN e.effect_type = 'webhook' THEN (e.payload_json ->> 'request')::uuid END AS request_id
), given_up AS (
  SELECT org_id, step_created_at, step_id, jsonb_object_agg(id::text, jsonb_build_object('outcome', status,
           'attempt', attempts, 'at', assent.now(), 'error', error, 'ambiguous', true)) AS evidence
    FROM released WHERE status = 'dead_letter' GROUP BY 1, 2, 3
), shown AS (
  UPDATE assent.workflow_step_executions s
     SET output_json = coalesce(s.output_json, '{}')
                       || jsonb_build_object('evidence', coalesce(s.output_json -> 'evidence', '{}') || d.evidence)
    FROM given_up d
   WHERE s.org_id = d.org_id AND s.created_at = d.step_created_at AND s.id = d.step_id
), notified AS (
  SELECT pg_notify('assent_effects', '') FROM released WHERE status = 'pending' LIMIT 1
)
SELECT r.*, (SELECT count(*) FROM notified) AS notifications FROM released r;
