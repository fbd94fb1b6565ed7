-- name: list_instances
-- Instances of an org, newest first: those of some statuses, of a workflow, of somebody, in a partition; what is about
-- entity types that the reader may not see is left out.
SELECT org_id, id, workflow_id, definition_id, definition_version, definition_hash, entity_type, entity_id,
       entity_version, partition_id, subject_id, status, current_nodes, version, incident, started_at, updated_at, completed_at, expires_at
  FROM assent.workflow_instances
 WHERE org_id = $1
   AND ($2::text[] IS NULL OR status = ANY ($2))
   AND ($3::text IS NULL OR workflow_id = $3)
   AND ($4::text IS NULL OR subject_id = $4)
   AND ($5::uuid IS NULL OR entity_id = $5)
   AND ($6::text IS NULL OR partition_id = $6)
   AND (entity_type IS NULL OR entity_type <> ALL ($7::text[]))
   AND ($8::uuid IS NULL OR id < $8)
   AND ($10::text IS NULL OR entity_type = $10)
 ORDER BY id DESC LIMIT $9;

-- name: find_instance
-- One instance as lists show it.
SELECT org_id, id, workflow_id, definition_id, definition_version, definition_hash, entity_type, entity_id,
       entity_version, partition_id, subject_id, status, current_nodes, version, incident, started_at, updated_at, completed_at, expires_at
  FROM assent.workflow_instances WHERE org_id = $1 AND id = $2;

-- name: list_steps
-- The steps of an instance, newest first.
SELECT id, created_at, node_id, node_type, token_id, entity_version, status, run_as, completed_at, duration_ms,
       output_json, error, actor_user_id, resume_at, waiting_for_event_key, approval_request_id
  FROM assent.workflow_step_executions
 WHERE org_id = $1 AND instance_id = $2
   AND ($3::timestamptz IS NULL OR (created_at, id) < ($3, $4::uuid))
 ORDER BY created_at DESC, id DESC LIMIT $5;
