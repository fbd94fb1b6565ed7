-- name: lock_entities
-- Locks instances and entities in the agreed order and returns the entities.
SELECT * FROM assent.lock_entities($1::text[], $2::uuid[]);

-- name: write_entities
-- Writes head, version and audit row of every change, or nothing.
SELECT assent.write_entities($1::jsonb, $2::integer);

-- name: load_rules
-- The enabled rules for some entity types of some orgs, in the order in which they apply, with the orgs' settings.
SELECT r.org_id, r.id, r.name, r.entity_type, r.action, r.timing, r.condition, r.outcome, r.outcome_json,
       coalesce(o.settings, '{}') AS settings
  FROM assent.workflow_rules r
  LEFT JOIN assent.orgs o ON o.org_id = r.org_id
 WHERE (r.org_id, r.entity_type) IN (SELECT * FROM unnest($1::text[], $2::text[])) AND r.enabled
 ORDER BY r.org_id, r.entity_type, r.priority, r.name;

-- name: record_rule_evaluations
-- Keeps the evidence of every rule that was asked.
INSERT INTO assent.workflow_rule_evaluations (org_id, id, rule_id, rule_name, timing, action, entity_type, entity_id,
       entity_version, expression, variables, result, outcome, actor_id, trace_id, at)
SELECT org_id, id, rule_id, rule_name, timing, action, entity_type, entity_id, entity_version, expression, variables,
       result, outcome, actor_id, trace_id, at
  FROM jsonb_to_recordset($1::jsonb) AS e (
    org_id text, id uuid, rule_id uuid, rule_name text, timing text, action text, entity_type text, entity_id uuid,
    entity_version integer, expression text, variables jsonb, result boolean, outcome text, actor_id text,
    trace_id text, at timestamptz);

-- name: keep_rule
-- Keeps a checked rule, or replaces the one of the same name.
INSERT INTO assent.workflow_rules (org_id, id, name, entity_type, action, timing, condition, outcome, outcome_json,
       priority, enabled)
VALUES ($1, $2, $3, $4, $5, $6, $7::jsonb, $8, $9::jsonb, $10, $11)
ON CONFLICT (org_id, entity_type, name) DO UPDATE
   SET action = excluded.action, timing = excluded.timing, condition = excluded.condition,
       outcome = excluded.outcome, outcome_json = excluded.outcome_json, priority = excluded.priority,
       enabled = excluded.enabled, updated_at = assent.now()
RETURNING id;

-- name: read_entity
-- One entity as it stands.
SELECT * FROM assent.current_entities WHERE org_id = $1 AND id = $2;

-- name: read_versions
-- Every version of an entity, oldest first.
SELECT id, version, state, data, data_hash, created_at, created_by FROM assent.entity_versions
 WHERE org_id = $1 AND entity_id = $2 ORDER BY version;

-- name: read_audit
-- Who did what to an entity, oldest first.
SELECT * FROM assent.audit_log WHERE org_id = $1 AND entity_id = $2 AND to_version IS NOT NULL ORDER BY id;

-- name: read_actor
-- An active member with roles, and the capabilities that the roles carry.
SELECT m.user_id, m.kind, m.roles, coalesce(array_agg(DISTINCT c.capability)
         FILTER (WHERE c.capability IS NOT NULL), '{}') AS capabilities
  FROM assent.members m
  LEFT JOIN assent.role_capabilities c ON c.org_id = m.org_id AND c.role = ANY (m.roles)
 WHERE m.org_id = $1 AND m.user_id = $2 AND m.active
 GROUP BY m.org_id, m.user_id;

-- name: list_entities
-- Entities of a type as they stand, newest first; none after those whose content comes to $7 bytes.
SELECT * FROM (
SELECT e.org_id, e.id, e.entity_type, e.contract_version, e.partition_id, e.state, e.version, e.edit_window,
       e.instance_id, e.amended_from_id, e.created_at, e.updated_at, v.id AS version_id, v.data, v.data_hash,
       e.content_hash, octet_length(v.data::text) AS bytes, sum(octet_length(v.data::text)) OVER (ORDER BY e.id DESC
         ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS bytes_to
  FROM (SELECT * FROM assent.entities
         WHERE org_id = $1 AND entity_type = $2
           AND ($3::text[] IS NULL OR state = ANY ($3))
           AND ($4::text IS NULL OR partition_id = $4)
           AND ($5::uuid IS NULL OR id < $5)
         ORDER BY id DESC LIMIT $6) AS e
  JOIN assent.entity_versions v ON v.org_id = e.org_id AND v.entity_id = e.id AND v.version = e.version
) AS listed WHERE bytes_to - bytes < $7::bigint ORDER BY id DESC;

-- name: list_versions
-- Versions of an entity, newest first; none after those whose content comes to $5 bytes.
SELECT id, version, state, data, created_at, created_by, bytes_to FROM (
SELECT *, octet_length(data::text) AS bytes, sum(octet_length(data::text)) OVER (ORDER BY version DESC
         ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS bytes_to
  FROM (SELECT id, version, state, data, created_at, created_by FROM assent.entity_versions
         WHERE org_id = $1 AND entity_id = $2 AND ($3::integer IS NULL OR version < $3)
         ORDER BY version DESC LIMIT $4) AS newest
) AS listed WHERE bytes_to - bytes < $5::bigint ORDER BY version DESC;

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

-- name: find_entities_between
-- The entities of an org whose id lies in a range, a few at most.
SELECT id FROM assent.entities WHERE org_id = $1 AND id BETWEEN $2 AND $3 ORDER BY id LIMIT $4;

-- name: list_rules
-- The rules of an org by entity type and name, those that are not enabled as well: all, of a type, or one; after a position.
SELECT id, name, entity_type, action, timing, condition, outcome, outcome_json, priority, enabled, created_at, updated_at
  FROM assent.workflow_rules
 WHERE org_id = $1 AND ($2::text IS NULL OR entity_type = $2) AND ($3::text IS NULL OR name = $3)
   AND ($4::text IS NULL OR (entity_type, name) > ($4, $5::text))
 ORDER BY entity_type, name LIMIT $6;

-- name: delete_rule
-- Deletes a rule; the record of its evaluations stays.
DELETE FROM assent.workflow_rules WHERE org_id = $1 AND entity_type = $2 AND name = $3
RETURNING id, name, entity_type, action, timing, condition, outcome, outcome_json, priority, enabled, created_at, updated_at;

-- name: list_rule_evaluations
-- The evaluations of a rule, newest first, of entities in one partition or in all of them.
SELECT v.id, v.rule_id, v.rule_name, v.timing, v.action, v.entity_type, v.entity_id, v.entity_version, v.expression, v.variables,
       v.result, v.outcome, v.actor_id, v.trace_id, v.at
  FROM assent.workflow_rule_evaluations v
 WHERE v.org_id = $1 AND v.entity_type = $2 AND v.rule_name = $3 AND ($4::uuid IS NULL OR v.id < $4)
   AND ($6::text IS NULL OR EXISTS (SELECT FROM assent.entities e
                                     WHERE e.org_id = v.org_id AND e.id = v.entity_id AND e.partition_id = $6))
 ORDER BY v.id DESC LIMIT $5;
