-- name: list_entities
-- Entities of a type as they stand, newest first.
SELECT e.org_id, e.id, e.entity_type, e.contract_version, e.partition_id, e.state, e.version, e.edit_window,
       e.instance_id, e.amended_from_id, e.created_at, e.updated_at, v.id AS version_id, v.data, v.data_hash,
       e.content_hash
  FROM (SELECT * FROM assent.entities
         WHERE org_id = $1 AND entity_type = $2
           AND ($3::text[] IS NULL OR state = ANY ($3))
           AND ($4::text IS NULL OR partition_id = $4)
           AND ($5::uuid IS NULL OR id < $5)
         ORDER BY id DESC LIMIT $6) AS e
  JOIN assent.entity_versions v ON v.org_id = e.org_id AND v.entity_id = e.id AND v.version = e.version
 ORDER BY e.id DESC;

-- name: list_versions
-- Versions of an entity, newest first.
SELECT id, version, state, data, created_at, created_by FROM assent.entity_versions
 WHERE org_id = $1 AND entity_id = $2 AND ($3::integer IS NULL OR version < $3)
 ORDER BY version DESC LIMIT $4;

-- name: read_two_versions
-- Two versions of an entity, to be compared.
SELECT version, state, data, created_at, created_by FROM assent.entity_versions
 WHERE org_id = $1 AND entity_id = $2 AND version IN ($3, $4);

-- name: list_audit
-- Who changed what of an entity, newest first; commands to its instance are not among it.
SELECT id, at, actor_id, actor_kind, actor_roles, action, from_version, to_version, from_state, to_state, changes, place,
       reason, channel, instance_id, trace_id
  FROM assent.audit_log
 WHERE org_id = $1 AND entity_id = $2 AND to_version IS NOT NULL AND ($3::uuid IS NULL OR id < $3)
 ORDER BY id DESC LIMIT $4;
