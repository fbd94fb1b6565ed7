-- name: lock_entities
-- Locks instances and entities in the agreed order and returns the entities.
SELECT * FROM assent.lock_entities($1::text[], $2::uuid[]);

-- name: draw_numbers
-- Draws numbers from series and returns the last of each; the counters stay locked until the transaction ends.
SELECT * FROM assent.draw_numbers($1::jsonb);

-- name: write_entities
-- Writes head, version and audit row of every change, or nothing.
SELECT assent.write_entities($1::jsonb, $2::integer);

-- name: load_rules
-- The enabled rules for some entity types of some orgs, in the order in which they apply, with the orgs' settings; and, for
-- each type at least once, the version of the contract that new entities get (that of the workflow which the org starts) and
-- the indexes that are declared.
SELECT kind.org_id, kind.entity_type, assent.newest_contract(kind.org_id, kind.entity_type) AS contract_version,
       declared.stamp AS index_stamp, declared.fields AS indexed_fields, declared.searched AS searched_fields,
       r.id, r.name, r.action, r.timing, r.condition, r.outcome, r.outcome_json, coalesce(o.settings, '{}') AS settings
  FROM unnest($1::text[], $2::text[]) AS kind (org_id, entity_type)
  LEFT JOIN assent.entity_indexes declared ON declared.org_id = '*' AND declared.entity_type = kind.entity_type
  LEFT JOIN assent.workflow_rules r ON r.org_id = kind.org_id AND r.entity_type = kind.entity_type AND r.enabled
  LEFT JOIN assent.orgs o ON o.org_id = r.org_id
 ORDER BY kind.org_id, kind.entity_type, r.priority, r.name;

-- name: load_contracts
-- Published contracts by entity type and version.
SELECT d.key, d.version, d.source_json -> 'contract' AS contract
  FROM unnest($1::text[], $2::integer[]) AS wanted (key, version)
  JOIN assent.workflow_definitions d
    ON d.org_id = '*' AND d.definition_kind = 'envelope' AND d.key = wanted.key AND d.version = wanted.version;

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

-- name: read_entities
-- Entities as they stand, in the order of their ids in $2; none after those whose content comes to $3 bytes.
SELECT * FROM (
SELECT e.org_id, e.id, e.entity_type, e.contract_version, e.partition_id, e.state, e.version, e.edit_window,
       e.instance_id, e.amended_from_id, e.created_at, e.updated_at, v.id AS version_id, v.data, v.data_hash,
       e.content_hash, asked.n, octet_length(v.data::text) AS bytes, sum(octet_length(v.data::text)) OVER (ORDER BY asked.n
         ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS bytes_to
  FROM unnest($2::uuid[]) WITH ORDINALITY AS asked (id, n)
 CROSS JOIN LATERAL (SELECT * FROM assent.entities o WHERE o.org_id = $1 AND o.id = asked.id OFFSET 0) AS e
 CROSS JOIN LATERAL (SELECT o.id, o.data, o.data_hash FROM assent.entity_versions o
                      WHERE o.org_id = e.org_id AND o.entity_id = e.id AND o.version = e.version OFFSET 0) AS v
) AS listed WHERE bytes_to - bytes < $3::bigint ORDER BY n;

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
-- The entities of an org, all or of one type, whose id lies in a range, a few at most.
SELECT id FROM assent.entities
 WHERE org_id = $1 AND id BETWEEN $2 AND $3 AND ($5::text IS NULL OR entity_type = $5)
 ORDER BY id LIMIT $4;

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

-- name: declare_indexes
-- Keeps what the newest contract of an entity type declares to be indexed; values of fields that are new are not ready yet.
INSERT INTO assent.entity_indexes AS x (org_id, entity_type, contract_version, stamp, fields, searched, ready, built)
SELECT '*', $1::text, $2::integer, 1, $3::jsonb, $4::text[], '{}', false
 WHERE $3::jsonb <> '{}' OR $4::text[] <> '{}'
    OR EXISTS (SELECT FROM assent.entity_indexes WHERE org_id = '*' AND entity_type = $1::text)
ON CONFLICT (org_id, entity_type) DO UPDATE
   SET contract_version = excluded.contract_version,
       stamp = x.stamp + (CASE WHEN (x.fields, x.searched) IS DISTINCT FROM (excluded.fields, excluded.searched) THEN 1 ELSE 0 END),
       fields = excluded.fields, searched = excluded.searched,
       ready = ARRAY(SELECT f FROM unnest(x.ready) AS f
                      WHERE CASE f WHEN '*' THEN x.searched = excluded.searched AND excluded.searched <> '{}'
                                   ELSE x.fields -> f = excluded.fields -> f END),
       changed_at = assent.now()
 WHERE x.contract_version <= excluded.contract_version;

-- name: begin_to_build_indexes
-- Has the indexes of an entity type built from the first entity on.
UPDATE assent.entity_indexes SET built = false, barrier = NULL, at_org = NULL, at_id = NULL, done = 0, total = NULL
 WHERE org_id = '*' AND entity_type = $1;

-- name: lock_entities_against_writers
-- Waits for no writer: fails where there is one, and keeps others waiting until the transaction ends.
LOCK TABLE assent.entities IN SHARE MODE NOWAIT;

-- name: exists_entity_of_type
-- Whether any org has an entity of a type.
SELECT EXISTS (SELECT FROM assent.entities WHERE entity_type = $1);

-- name: finish_indexes
-- Marks every index of an entity type as complete.
UPDATE assent.entity_indexes
   SET built = true, barrier = NULL, at_org = NULL, at_id = NULL,
       ready = ARRAY(SELECT jsonb_object_keys(fields)) || CASE WHEN searched <> '{}' THEN '{*}'::text[] ELSE '{}' END
 WHERE org_id = '*' AND entity_type = $1;

-- name: read_indexes
-- The indexes of an entity type, and how far they are built.
SELECT stamp AS index_stamp, fields AS indexed_fields, searched AS searched_fields, ready, built,
       CASE WHEN built THEN 1.0 WHEN total > 0 THEN least(done::float8 / total, 1.0) ELSE 0.0 END AS progress
  FROM assent.entity_indexes WHERE org_id = '*' AND entity_type = $1;

-- name: next_indexes_to_build
-- An entity type whose indexes are to be built and that no other worker has, once every transaction has ended that could have
-- written without knowing of them.
SELECT entity_type, stamp AS index_stamp, fields AS indexed_fields, searched AS searched_fields, barrier IS NULL AS is_new,
       coalesce(at_org, '') AS at_org, coalesce(at_id, '00000000-0000-0000-0000-000000000000') AS at_id
  FROM assent.entity_indexes
 WHERE org_id = '*' AND NOT built AND (barrier IS NULL OR barrier <= pg_snapshot_xmin(pg_current_snapshot()))
 ORDER BY entity_type LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: set_index_barrier
-- Notes which transactions have to end before the indexes of an entity type are built, and how much there is to do.
UPDATE assent.entity_indexes
   SET barrier = pg_snapshot_xmax(pg_current_snapshot()), done = 0,
       total = (SELECT count(*) FROM assent.entities e WHERE e.entity_type = $1)
 WHERE org_id = '*' AND entity_type = $1;

-- name: look_at_entities_after
-- The next entities of all orgs and types behind a position, by org and id.
SELECT org_id, id, entity_type FROM assent.entities WHERE (org_id, id) > ($1::text, $2::uuid) ORDER BY org_id, id LIMIT $3;

-- name: lock_rows_of_entities
-- Locks entities in the order of their keys, without their instances: nothing is changed that an instance knows of.
SELECT count(*) FROM (
  SELECT FROM assent.entities e WHERE (e.org_id, e.id) IN (SELECT * FROM unnest($1::text[], $2::uuid[]))
   ORDER BY e.org_id, e.id FOR UPDATE) AS locked;

-- name: read_contents
-- The contents of entities.
SELECT e.org_id, e.id, v.data FROM unnest($1::text[], $2::uuid[]) AS asked (org_id, id)
 CROSS JOIN LATERAL (SELECT * FROM assent.entities o WHERE o.org_id = asked.org_id AND o.id = asked.id OFFSET 0) AS e
 CROSS JOIN LATERAL (SELECT o.data FROM assent.entity_versions o
                      WHERE o.org_id = e.org_id AND o.entity_id = e.id AND o.version = e.version OFFSET 0) AS v;

-- name: replace_indexed_values
-- Replaces the values of entities in the indexes.
SELECT assent.replace_indexed_values($1::jsonb);

-- name: delete_undeclared_values
-- Deletes the values of entities of which no index is declared any more.
DELETE FROM assent.indexed_values v
 USING unnest($1::text[], $2::uuid[]) AS asked (org_id, id)
 WHERE v.org_id = asked.org_id AND v.entity_id = asked.id AND v.field <> ALL ($3::text[]);

-- name: note_index_progress
-- Notes how far the indexes of an entity type are built.
UPDATE assent.entity_indexes SET at_org = $2, at_id = $3, done = done + $4 WHERE org_id = '*' AND entity_type = $1;

-- name: count_candidates
-- How many entities of a type each condition lets through, at most $4 of each: those on fields by their numbers in $3, then
-- `state`, `partition`, `creator`, `created` and `updated`, where they are asked for.
SELECT w.n::text AS condition, sum(found.number)::bigint AS number
  FROM jsonb_to_recordset($3::jsonb) AS w (n integer, field text, lows text[], highs text[])
 CROSS JOIN LATERAL unnest(w.lows, w.highs) AS r (low, high)
 CROSS JOIN LATERAL (SELECT count(*) AS number FROM (
       SELECT FROM assent.indexed_values v
        WHERE v.org_id = $1 AND v.entity_type = $2 AND v.field = w.field AND v.value >= r.low AND v.value < r.high
        ORDER BY v.value LIMIT $4) AS few) AS found
 GROUP BY w.n
UNION ALL
SELECT 'state', sum(found.number)::bigint FROM unnest($5::text[]) AS s (state) CROSS JOIN LATERAL (
  SELECT count(*) AS number FROM (
    SELECT FROM assent.entities WHERE org_id = $1 AND entity_type = $2 AND state = s.state ORDER BY created_at LIMIT $4) AS few) AS found
HAVING $5::text[] IS NOT NULL
UNION ALL
SELECT 'partition', count(*) FROM (
  SELECT FROM assent.entities WHERE org_id = $1 AND entity_type = $2 AND partition_id = $6::text
   ORDER BY created_at LIMIT $4) AS few
HAVING $6::text IS NOT NULL
UNION ALL
SELECT 'creator', count(*) FROM (
  SELECT FROM assent.entity_versions
   WHERE org_id = $1 AND entity_type = $2 AND created_by = $7::text AND version = 1
   ORDER BY created_at LIMIT $4) AS few
HAVING $7::text IS NOT NULL
UNION ALL
SELECT 'created', count(*) FROM (
  SELECT FROM assent.entities
   WHERE org_id = $1 AND entity_type = $2 AND created_at >= $8::timestamptz AND created_at < $9::timestamptz
   ORDER BY created_at LIMIT $4) AS few
UNION ALL
SELECT 'updated', count(*) FROM (
  SELECT FROM assent.entities
   WHERE org_id = $1 AND entity_type = $2 AND updated_at >= $10::timestamptz AND updated_at < $11::timestamptz
   ORDER BY updated_at LIMIT $4) AS few
HAVING $10::timestamptz > '1900-01-01Z' OR $11::timestamptz < '2999-12-31Z';

-- name: gather_by_values
-- Entities of which a value lies in one of some ranges; at most $6 of each range.
SELECT DISTINCT found.entity_id AS id FROM unnest($4::text[], $5::text[]) AS r (low, high)
 CROSS JOIN LATERAL (
   SELECT v.entity_id FROM assent.indexed_values v
    WHERE v.org_id = $1 AND v.entity_type = $2 AND v.field = $3 AND v.value >= r.low AND v.value < r.high
    ORDER BY v.value LIMIT $6) AS found;

-- name: gather_by_state
-- Entities in one of some states, $4 at most.
SELECT found.id FROM unnest($3::text[]) AS s (state) CROSS JOIN LATERAL (
  SELECT id FROM assent.entities WHERE org_id = $1 AND entity_type = $2 AND state = s.state ORDER BY created_at LIMIT $4) AS found
 LIMIT $4;

-- name: gather_by_partition
-- Entities of a partition, $4 at most.
SELECT id FROM assent.entities WHERE org_id = $1 AND entity_type = $2 AND partition_id = $3
 ORDER BY created_at LIMIT $4;

-- name: gather_by_creator
-- Entities that a person created, $4 at most.
SELECT entity_id AS id FROM assent.entity_versions
 WHERE org_id = $1 AND entity_type = $2 AND created_by = $3 AND version = 1 ORDER BY created_at LIMIT $4;

-- name: gather_by_created
-- Entities that were created in a span of time, $5 at most.
SELECT id FROM assent.entities
 WHERE org_id = $1 AND entity_type = $2 AND created_at >= $3 AND created_at < $4 ORDER BY created_at LIMIT $5;

-- name: gather_by_updated
-- Entities that were changed last in a span of time, $5 at most.
SELECT id FROM assent.entities
 WHERE org_id = $1 AND entity_type = $2 AND updated_at >= $3 AND updated_at < $4 ORDER BY updated_at LIMIT $5;

-- name: check_candidates
-- Those of some entities that fit everything that is asked for, with what lists are sorted by.
WITH wanted AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset($4::jsonb) AS w (field text, negated boolean, lows text[], highs text[]))
SELECT e.id, e.state, e.created_at, e.updated_at,
       (SELECT v.value FROM assent.indexed_values v
         WHERE v.org_id = $1 AND v.entity_id = e.id AND v.field = $11::text LIMIT 1) AS value
  FROM unnest($3::uuid[]) AS asked (id)
 CROSS JOIN LATERAL (SELECT * FROM assent.entities o WHERE o.org_id = $1 AND o.id = asked.id OFFSET 0) AS e
 WHERE e.entity_type = $2
   AND ($5::text[] IS NULL OR e.state = ANY ($5))
   AND ($6::text IS NULL OR e.partition_id = $6)
   AND ($7::text IS NULL OR EXISTS (SELECT FROM assent.entity_versions f
         WHERE f.org_id = $1 AND f.entity_id = e.id AND f.version = 1 AND f.created_by = $7))
   AND e.created_at >= $8 AND e.created_at < $9 AND e.updated_at >= $10 AND e.updated_at < $12
   AND NOT EXISTS (SELECT FROM wanted w WHERE w.negated = EXISTS (
         SELECT FROM unnest(w.lows, w.highs) AS r (low, high)
          CROSS JOIN LATERAL (
            SELECT FROM assent.indexed_values v
             WHERE v.org_id = $1 AND v.entity_id = e.id AND v.field = w.field AND v.value >= r.low AND v.value < r.high
             LIMIT 1) AS hit));

-- name: count_by_state
-- How many entities of a type each of some states has, at most $4 of each.
SELECT s.state, (SELECT count(*) FROM (
         SELECT FROM assent.entities e WHERE e.org_id = $1 AND e.entity_type = $2 AND e.state = s.state
          ORDER BY e.created_at LIMIT $4) AS few) AS number
  FROM unnest($3::text[]) AS s (state);

-- name: page_by_created_desc
-- Entities by the time of their creation, behind a place.
SELECT id, created_at, NULL::timestamptz AS updated_at, NULL::text AS value FROM assent.entities
 WHERE org_id = $1 AND entity_type = $2 AND created_at >= $3 AND created_at < $4 AND (created_at, id) < ($5::timestamptz, $6::uuid)
 ORDER BY created_at DESC, id DESC LIMIT $7;

-- name: page_by_updated_desc
-- Entities by the time of their last change, behind a place.
SELECT id, NULL::timestamptz AS created_at, updated_at, NULL::text AS value FROM assent.entities
 WHERE org_id = $1 AND entity_type = $2 AND updated_at >= $3 AND updated_at < $4 AND (updated_at, id) < ($5::timestamptz, $6::uuid)
 ORDER BY updated_at DESC, id DESC LIMIT $7;

-- name: page_of_states_desc
-- Entities in one of some states by the time of their creation, behind a place.
SELECT found.id, found.created_at, NULL::timestamptz AS updated_at, NULL::text AS value
  FROM unnest($8::text[]) AS s (state) CROSS JOIN LATERAL (
  SELECT e.id, e.created_at FROM assent.entities e
   WHERE e.org_id = $1 AND e.entity_type = $2 AND e.state = s.state AND e.created_at >= $3 AND e.created_at < $4
     AND (e.created_at, e.id) < ($5::timestamptz, $6::uuid)
   ORDER BY e.created_at DESC, e.id DESC LIMIT $7) AS found
 ORDER BY found.created_at DESC, found.id DESC LIMIT $7;

-- name: page_of_partition_desc
-- Entities of a partition by the time of their creation, behind a place.
SELECT id, created_at, NULL::timestamptz AS updated_at, NULL::text AS value FROM assent.entities
 WHERE org_id = $1 AND entity_type = $2 AND partition_id = $8::text AND created_at >= $3 AND created_at < $4
   AND (created_at, id) < ($5::timestamptz, $6::uuid)
 ORDER BY created_at DESC, id DESC LIMIT $7;

-- name: page_of_creator_desc
-- Entities that a person created, by the time of their creation, behind a place.
SELECT entity_id AS id, created_at, NULL::timestamptz AS updated_at, NULL::text AS value FROM assent.entity_versions
 WHERE org_id = $1 AND entity_type = $2 AND created_by = $8::text AND version = 1 AND created_at >= $3 AND created_at < $4
   AND (created_at, entity_id) < ($5::timestamptz, $6::uuid)
 ORDER BY created_at DESC, entity_id DESC LIMIT $7;

-- name: page_of_values_desc
-- Entities whose field has one of some values by the time of their creation, behind a place.
SELECT found.entity_id AS id, found.created_at, NULL::timestamptz AS updated_at, NULL::text AS value
  FROM unnest($9::text[]) AS w (value) CROSS JOIN LATERAL (
  SELECT v.entity_id, v.created_at FROM assent.indexed_values v
   WHERE v.org_id = $1 AND v.entity_type = $2 AND v.field = $8::text AND v.value = w.value AND v.created_at >= $3 AND v.created_at < $4
     AND (v.created_at, v.entity_id) < ($5::timestamptz, $6::uuid)
   ORDER BY v.created_at DESC, v.entity_id DESC LIMIT $7) AS found
 ORDER BY found.created_at DESC, found.entity_id DESC LIMIT $7;

-- name: page_by_value_desc
-- Entities by the value of a field, in a range and behind a place; then by the time of their creation.
SELECT entity_id AS id, created_at, NULL::timestamptz AS updated_at, value FROM assent.indexed_values
 WHERE org_id = $1 AND entity_type = $2 AND field = $3 AND value >= $4 AND value < $5
   AND (value, created_at, entity_id) < ($6::text, $7::timestamptz, $8::uuid)
 ORDER BY value DESC, created_at DESC, entity_id DESC LIMIT $9;

-- name: page_by_created_asc
-- Entities by the time of their creation, behind a place.
SELECT id, created_at, NULL::timestamptz AS updated_at, NULL::text AS value FROM assent.entities
 WHERE org_id = $1 AND entity_type = $2 AND created_at >= $3 AND created_at < $4 AND (created_at, id) > ($5::timestamptz, $6::uuid)
 ORDER BY created_at, id LIMIT $7;

-- name: page_by_updated_asc
-- Entities by the time of their last change, behind a place.
SELECT id, NULL::timestamptz AS created_at, updated_at, NULL::text AS value FROM assent.entities
 WHERE org_id = $1 AND entity_type = $2 AND updated_at >= $3 AND updated_at < $4 AND (updated_at, id) > ($5::timestamptz, $6::uuid)
 ORDER BY updated_at, id LIMIT $7;

-- name: page_of_states_asc
-- Entities in one of some states by the time of their creation, behind a place.
SELECT found.id, found.created_at, NULL::timestamptz AS updated_at, NULL::text AS value
  FROM unnest($8::text[]) AS s (state) CROSS JOIN LATERAL (
  SELECT e.id, e.created_at FROM assent.entities e
   WHERE e.org_id = $1 AND e.entity_type = $2 AND e.state = s.state AND e.created_at >= $3 AND e.created_at < $4
     AND (e.created_at, e.id) > ($5::timestamptz, $6::uuid)
   ORDER BY e.created_at, e.id LIMIT $7) AS found
 ORDER BY found.created_at, found.id LIMIT $7;

-- name: page_of_partition_asc
-- Entities of a partition by the time of their creation, behind a place.
SELECT id, created_at, NULL::timestamptz AS updated_at, NULL::text AS value FROM assent.entities
 WHERE org_id = $1 AND entity_type = $2 AND partition_id = $8::text AND created_at >= $3 AND created_at < $4
   AND (created_at, id) > ($5::timestamptz, $6::uuid)
 ORDER BY created_at, id LIMIT $7;

-- name: page_of_creator_asc
-- Entities that a person created, by the time of their creation, behind a place.
SELECT entity_id AS id, created_at, NULL::timestamptz AS updated_at, NULL::text AS value FROM assent.entity_versions
 WHERE org_id = $1 AND entity_type = $2 AND created_by = $8::text AND version = 1 AND created_at >= $3 AND created_at < $4
   AND (created_at, entity_id) > ($5::timestamptz, $6::uuid)
 ORDER BY created_at, entity_id LIMIT $7;

-- name: page_of_values_asc
-- Entities whose field has one of some values by the time of their creation, behind a place.
SELECT found.entity_id AS id, found.created_at, NULL::timestamptz AS updated_at, NULL::text AS value
  FROM unnest($9::text[]) AS w (value) CROSS JOIN LATERAL (
  SELECT v.entity_id, v.created_at FROM assent.indexed_values v
   WHERE v.org_id = $1 AND v.entity_type = $2 AND v.field = $8::text AND v.value = w.value AND v.created_at >= $3 AND v.created_at < $4
     AND (v.created_at, v.entity_id) > ($5::timestamptz, $6::uuid)
   ORDER BY v.created_at, v.entity_id LIMIT $7) AS found
 ORDER BY found.created_at, found.entity_id LIMIT $7;

-- name: page_by_value_asc
-- Entities by the value of a field, in a range and behind a place; then by the time of their creation.
SELECT entity_id AS id, created_at, NULL::timestamptz AS updated_at, value FROM assent.indexed_values
 WHERE org_id = $1 AND entity_type = $2 AND field = $3 AND value >= $4 AND value < $5
   AND (value, created_at, entity_id) > ($6::text, $7::timestamptz, $8::uuid)
 ORDER BY value, created_at, entity_id LIMIT $9;

-- name: save_filter
-- Saves a filter under its name, in place of the one that its owner, or the org, has under it.
INSERT INTO assent.saved_filters AS f (org_id, id, filter_of, owner_id, name, filter, saved_by, updated_at)
VALUES ($1, $2, $3, $4, $5, $6::jsonb, $7, $8)
ON CONFLICT (org_id, filter_of, owner_id, name) DO UPDATE
   SET filter = excluded.filter, saved_by = excluded.saved_by, updated_at = excluded.updated_at
RETURNING *;

-- name: count_filters
-- How many filters a person has, or the org.
SELECT count(*) FROM assent.saved_filters WHERE org_id = $1 AND owner_id = $2;

-- name: find_filter
-- The filter of a name: the person's own before the one of the org.
SELECT * FROM assent.saved_filters f
 WHERE f.org_id = $1 AND f.filter_of = $2 AND f.name = $3 AND f.owner_id IN ($4, '')
 ORDER BY f.owner_id DESC LIMIT 1;

-- name: list_filters
-- The filters of a person and of the org, of some types or of one, by what they are of, name and owner; after a position.
SELECT * FROM assent.saved_filters
 WHERE org_id = $1 AND owner_id IN ($2, '') AND filter_of <> ALL ($3::text[]) AND ($4::text IS NULL OR filter_of = $4)
   AND (filter_of, name, owner_id) > ($5::text, $6::text, $7::text)
 ORDER BY filter_of, name, owner_id LIMIT $8;

-- name: delete_filter
-- Deletes the filter of a name that a person has, or the org.
DELETE FROM assent.saved_filters WHERE org_id = $1 AND filter_of = $2 AND owner_id = $3 AND name = $4 RETURNING *;
