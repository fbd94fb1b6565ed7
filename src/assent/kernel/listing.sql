-- name: list_entities
-- Entities of a type as they stand, newest first; none after those whose content comes to $7 bytes.
SELECT * FROM (
SELECT e.org_id, e.id, e.entity_type, e.contract_version, e.partition_id, e.state, e.version, e.edit_window,
       e.instance_id, e.amended_from_id, e.created_at, e.updated_at, v.id AS version_id, v.data, v.data_hash,
       e.content_hash, coalesce(sum(octet_length(v.data::text)) OVER (ORDER BY e.id DESC
         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before
  FROM (SELECT * FROM assent.entities
         WHERE org_id = $1 AND entity_type = $2
           AND ($3::text[] IS NULL OR state = ANY ($3))
           AND ($4::text IS NULL OR partition_id = $4)
           AND ($5::uuid IS NULL OR id < $5)
         ORDER BY id DESC LIMIT $6) AS e
  JOIN assent.entity_versions v ON v.org_id = e.org_id AND v.entity_id = e.id AND v.version = e.version
) AS listed WHERE bytes_before < $7::bigint ORDER BY id DESC;

-- name: list_versions
-- Versions of an entity, newest first; none after those whose content comes to $5 bytes.
SELECT id, version, state, data, created_at, created_by FROM (
SELECT *, coalesce(sum(octet_length(data::text)) OVER (ORDER BY version DESC
         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before
  FROM (SELECT id, version, state, data, created_at, created_by FROM assent.entity_versions
         WHERE org_id = $1 AND entity_id = $2 AND ($3::integer IS NULL OR version < $3)
         ORDER BY version DESC LIMIT $4) AS newest
) AS listed WHERE bytes_before < $5::bigint ORDER BY version DESC;

-- name: read_two_versions
-- Two versions of an entity, to be compared.
SELECT version, state, data, created_at, created_by FROM assent.entity_versions
 WHERE org_id = $1 AND entity_id = $2 AND version IN ($3, $4);

-- name: list_audit
-- Who changed what of an entity, newest first; commands to its instance are not among it.
SELECT id, at, actor_id, actor_kind, actor_roles, action, from_version, to_version, from_state, to_state, changes, place,
       reason, channel, instance_id, trace_id, on_behalf_of
  FROM assent.audit_log
 WHERE org_id = $1 AND entity_id = $2 AND to_version IS NOT NULL AND ($3::uuid IS NULL OR id < $3)
 ORDER BY id DESC LIMIT $4;
