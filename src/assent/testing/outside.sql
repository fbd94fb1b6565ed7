-- name: answer_awaited_effect
-- Ends the effect that a step awaits as if it had been sent and answered; a step that awaits results awaits no answer.
WITH awaited AS MATERIALIZED (
  SELECT e.org_id, e.id, e.instance_id, e.step_id, e.trace_id FROM assent.effects e
    JOIN assent.jobs j ON j.org_id = e.org_id AND j.id = e.id
   WHERE e.org_id = $1 AND e.step_id = $2 AND e.awaited AND j.status = 'queued'
     AND NOT (e.type = 'webhook' AND e.payload ? 'request')
), kept AS (
  INSERT INTO assent.job_attempts (org_id, job_id, attempt, kind, outcome, output, worker_id, started_at, ended_at)
  SELECT org_id, id, 1, 'effect', 'done', $3::jsonb, gen_random_uuid(), assent.now(), assent.now() FROM awaited
)
UPDATE assent.jobs j SET status = 'done', attempts = 1, ended_at = assent.now()
  FROM awaited a WHERE j.org_id = a.org_id AND j.id = a.id
RETURNING a.org_id, a.id, a.instance_id, a.step_id, a.trace_id;

-- name: find_request_of_step
-- What a step asked of an outside party.
SELECT id FROM assent.outside_requests WHERE org_id = $1 AND step_id = $2;
