-- name: list_instances
-- Instances of an org, newest first: those of some statuses, of a workflow, of a subject, in a partition; what the reader
-- may not see is left out.
SELECT org_id, id, workflow_id, definition_id, definition_version, definition_hash, entity_type, entity_id,
       entity_version, partition_id, subject_id, status, current_nodes, version, incident, started_at, updated_at, completed_at, expires_at
  FROM assent.workflow_instances i
 WHERE org_id = $1
   AND ($2::text[] IS NULL OR status = ANY ($2))
   AND ($3::text IS NULL OR workflow_id = $3)
   AND ($4::text IS NULL OR subject_id = $4)
   AND ($5::uuid IS NULL OR entity_id = $5)
   AND ($6::text IS NULL OR partition_id = $6)
   AND ($7::uuid IS NULL OR id < $7)
   AND ($9::text IS NULL OR entity_type = $9)
   AND (NOT $10::boolean OR assent.is_readable(i, $11::text[], $12::boolean, $13::uuid[], $14::text, $15::timestamptz))
 ORDER BY id DESC LIMIT $8;

-- name: find_flows
-- The flows of an org and everybody's, with the roles that their authors let read them.
SELECT id, key, compiled_json #> '{permissions,read}' AS readers FROM assent.workflow_definitions
 WHERE org_id IN ($1, '*') AND definition_kind = 'flow' AND status <> 'draft';

-- name: takes_part
-- Whether a user takes part in an instance, has answered a step of it, or has a role that its flow lets read it. Who only
-- operated it, as by a pause or a retry, has answered nothing.
SELECT assent.takes_part(i, $3, $5) OR EXISTS (
         SELECT FROM assent.workflow_step_executions s
          WHERE s.org_id = i.org_id AND s.instance_id = i.id AND s.output_json -> 'principal' ->> 'id' = $3) OR EXISTS (
         SELECT FROM assent.workflow_definitions d
          WHERE d.org_id IN (i.org_id, '*') AND d.id = i.definition_id
            AND d.compiled_json #> '{permissions,read}' ?| $4::text[])
  FROM assent.workflow_instances i WHERE i.org_id = $1 AND i.id = $2;

-- name: was_asked
-- Whether a user is or was asked at an approval request or a form, or stands in for one who is.
SELECT EXISTS (SELECT FROM assent.workflow_seats s
                WHERE s.org_id = $1 AND s.request_id = $2 AND s.user_id = $3 AND s.status <> 'later')
    OR EXISTS (SELECT FROM assent.workflow_seats s
                 JOIN assent.workflow_instances i ON i.org_id = s.org_id AND i.id = s.instance_id
                 JOIN assent.approval_delegations d ON d.org_id = s.org_id AND d.from_user = s.user_id
                WHERE s.org_id = $1 AND s.request_id = $2 AND s.status = 'open' AND d.to_user = $3
                  AND d.revoked_at IS NULL AND d.starts_at <= $4 AND (d.ends_at IS NULL OR d.ends_at > $4)
                  AND (d.entity_types = '{}' OR i.entity_type = ANY (d.entity_types))
                  AND (d.workflows = '{}' OR i.workflow_id = ANY (d.workflows)));

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
