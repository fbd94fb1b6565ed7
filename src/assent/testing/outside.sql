-- name: answer_awaited_effect
-- Takes what a step awaits out of the outbox, as if it had been sent and answered; a step that awaits results awaits no answer.
UPDATE assent.workflow_side_effects_outbox
   SET status = 'completed', attempts = 1, completed_at = assent.now(), response_json = $3::jsonb
 WHERE org_id = $1 AND step_id = $2 AND awaited AND status = 'pending'
   AND NOT (effect_type = 'webhook' AND payload_json ? 'request')
RETURNING org_id, id, instance_id, step_id, trace_id;

-- name: find_request_of_step
-- What a step asked of an outside party.
SELECT id FROM assent.outside_requests WHERE org_id = $1 AND step_id = $2;
