-- name: answer_awaited_effect
-- Takes what a step awaits out of the outbox, as if it had been sent and answered.
UPDATE assent.workflow_side_effects_outbox
   SET status = 'completed', attempts = 1, completed_at = assent.now(), response_json = $3::jsonb
 WHERE org_id = $1 AND step_execution_id = $2 AND awaited AND status = 'pending'
RETURNING org_id, id, instance_id, step_execution_id AS step_id, trace_id;
