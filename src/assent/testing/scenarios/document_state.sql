-- name: find_instances_of
-- The instances of an entity, the newest first.
SELECT id FROM assent.workflow_instances WHERE org_id = $1 AND entity_id = $2 ORDER BY started_at DESC, id DESC;

-- name: find_requests_of
-- What an instance has asked people, the newest first.
SELECT id, node_id, status FROM assent.approval_requests
 WHERE org_id = $1 AND instance_id = $2 ORDER BY created_at DESC, id DESC;

-- name: find_open_seats_of
-- Who can answer what an instance asks now: of approvals by their request, of forms by their step.
SELECT request_id, array_agg(DISTINCT user_id ORDER BY user_id) AS people FROM assent.workflow_seats
 WHERE org_id = $1 AND instance_id = $2 AND status = 'open' GROUP BY request_id;

-- name: find_effects_of
-- What instances have put into the outbox, in order.
SELECT type AS effect_type, payload AS payload_json FROM assent.effects
 WHERE org_id = $1 AND instance_id = ANY ($2::uuid[]) ORDER BY created_at, id;

-- name: find_steps_of
-- What instances did last, the newest first.
SELECT coalesce(completed_at, created_at) AS at, node_id, node_type, status, actor_user_id, output_json, error
  FROM assent.workflow_step_executions
 WHERE org_id = $1 AND instance_id = ANY ($2::uuid[])
 ORDER BY coalesce(completed_at, created_at) DESC, (output_json ->> 'n')::integer DESC NULLS FIRST, id DESC LIMIT $3;

-- name: find_failures_of
-- Events of instances that could not be taken, with their errors.
SELECT event_type, status, attempts, retry_at, error FROM assent.workflow_events_outbox
 WHERE org_id = $1 AND instance_id = ANY ($2::uuid[]) AND status IN ('failed', 'dead') ORDER BY created_at, id;
