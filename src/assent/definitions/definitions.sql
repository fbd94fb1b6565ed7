-- name: load_definitions
-- The named definitions with what they compiled to.
SELECT d.org_id, d.id, d.definition_kind, d.key, d.version, d.status, d.compiled_json, d.compiled_hash,
       d.compiler_version
  FROM unnest($1::text[], $2::uuid[]) AS wanted (org_id, id)
  JOIN assent.workflow_definitions d ON d.org_id = wanted.org_id AND d.id = wanted.id;

-- name: find_current
-- Which definition an org starts now for each kind and key: its own, else everybody's. Without the content. For an entity
-- that lives by an older contract, the one for that version that was published last.
SELECT wanted.org_id AS wanted_by, wanted.kind, wanted.key, wanted.contract_version, d.id, d.version, d.compiled_hash
  FROM unnest($1::text[], $2::text[], $3::text[], $4::integer[]) AS wanted (org_id, kind, key, contract_version)
 CROSS JOIN LATERAL (
   SELECT d.id, d.version, d.compiled_hash, (d.walls ->> 'envelope_version')::integer AS bound_to
     FROM assent.workflow_definitions d
    WHERE d.org_id IN (wanted.org_id, '*') AND d.definition_kind = wanted.kind AND d.key = wanted.key
      AND d.status = 'published'
    ORDER BY d.org_id = '*', d.version DESC
    LIMIT 1) AS now
 CROSS JOIN LATERAL (
   SELECT now.id, now.version, now.compiled_hash, 1 AS place
   UNION ALL
   (SELECT d.id, d.version, d.compiled_hash, 0
      FROM assent.workflow_definitions d
     WHERE now.bound_to <> wanted.contract_version -- false for most, and nothing is read then
       AND d.org_id IN (wanted.org_id, '*') AND d.definition_kind = wanted.kind AND d.key = wanted.key
       AND d.status <> 'draft' AND (d.walls ->> 'envelope_version')::integer = wanted.contract_version
     ORDER BY d.status = 'published' DESC, d.updated_at DESC, d.version DESC
     LIMIT 1)
   ORDER BY place LIMIT 1) d;

-- name: lock_definitions
-- Lets one transaction at a time change the definitions of an org's entity type or flow; readers do not wait.
SELECT pg_advisory_xact_lock(hashtextextended('assent.definitions:' || $1::text || ':' || $2::text, 0));

-- name: insert_definition
-- A new definition, under the version that it brings or the next of its key.
INSERT INTO assent.workflow_definitions AS d (org_id, id, definition_kind, key, version, entity_type, name, status,
       is_default, nodes_json, edges_json, slots_json, base_ref, body_patches_json, source_json, compiled_json,
       compiled_hash, compiler_version, created_by, edited_by, created_at, updated_at)
SELECT r.org_id, r.id, r.definition_kind, r.key,
       coalesce(r.version, (
         SELECT coalesce(max(e.version), 0) + 1 FROM assent.workflow_definitions e
          WHERE e.org_id = r.org_id AND e.definition_kind = r.definition_kind AND e.key = r.key)),
       r.entity_type, r.name, r.status, r.definition_kind = 'envelope', r.nodes_json, r.edges_json, r.slots_json,
       r.base_ref, r.body_patches_json, r.source_json, r.compiled_json, r.compiled_hash, r.compiler_version,
       r.created_by, coalesce(r.edited_by, '{}'), r.at, r.at
  FROM jsonb_to_record($1::jsonb) AS r (
    org_id text, id uuid, definition_kind text, key text, version integer, entity_type text, name text, status text,
    nodes_json jsonb, edges_json jsonb, slots_json jsonb, base_ref jsonb, body_patches_json jsonb, source_json jsonb,
    compiled_json jsonb, compiled_hash text, compiler_version text, created_by text, edited_by text[], at timestamptz)
RETURNING d.org_id, d.id, d.definition_kind, d.key, d.version, d.entity_type, d.name, d.status, d.compiled_hash,
          d.compiler_version, d.created_by, d.created_at, d.updated_at;

-- name: find_same
-- A definition, published or archived, that says and compiled to exactly this; the published one first.
SELECT org_id, id, definition_kind, key, version, entity_type, name, status, compiled_hash, compiler_version,
       created_by, created_at, updated_at
  FROM assent.workflow_definitions
 WHERE org_id = $1 AND definition_kind = $2 AND key = $3 AND status <> 'draft'
   AND compiled_hash IS NOT DISTINCT FROM $4 AND source_json IS NOT DISTINCT FROM $5::jsonb
   AND body_patches_json IS NOT DISTINCT FROM $6::jsonb
 ORDER BY status = 'published' DESC, version DESC
 LIMIT 1;

-- name: publish_if_archived
-- Brings an archived definition back.
UPDATE assent.workflow_definitions SET status = 'published', updated_at = $3
 WHERE org_id = $1 AND id = $2 AND status = 'archived'
RETURNING org_id, id, definition_kind, key, version, entity_type, name, status, compiled_hash, compiler_version,
          created_by, created_at, updated_at;

-- name: archive_published
-- Archives what is published under a key; instances that run keep what they are pinned to.
UPDATE assent.workflow_definitions SET status = 'archived', updated_at = $4
 WHERE org_id = $1 AND definition_kind = $2 AND key = $3 AND status = 'published';

-- name: find_published
-- What is published under a key, without its content.
SELECT org_id, id, definition_kind, key, version, entity_type, name, status, compiled_hash, compiler_version,
       created_by, created_at, updated_at
  FROM assent.workflow_definitions
 WHERE org_id = $1 AND definition_kind = $2 AND key = $3 AND status = 'published'
 ORDER BY version DESC
 LIMIT 1;

-- name: read_envelopes
-- The envelopes of an entity type, newest first.
SELECT org_id, id, definition_kind, key, version, entity_type, name, status, compiled_hash, compiler_version,
       created_by, created_at, updated_at, nodes_json, edges_json, slots_json, source_json
  FROM assent.workflow_definitions
 WHERE org_id = '*' AND definition_kind = 'envelope' AND key = $1 AND ($2::integer IS NULL OR version = $2)
 ORDER BY version DESC;

-- name: read_newest_envelopes
-- The newest envelope of each of these entity types.
SELECT DISTINCT ON (key) key, version, source_json
  FROM assent.workflow_definitions
 WHERE org_id = '*' AND definition_kind = 'envelope' AND key = ANY ($1::text[])
 ORDER BY key, version DESC;

-- name: read_published_patches
-- An org's published patches for an entity type, by name.
SELECT org_id, id, key, version, base_ref, body_patches_json
  FROM assent.workflow_definitions
 WHERE org_id = $1 AND definition_kind = 'org_patch' AND entity_type = $2 AND status = 'published'
 ORDER BY key;

-- name: find_other_source
-- Another text of a flow that was published under the version that its author gave it.
SELECT version FROM assent.workflow_definitions
 WHERE org_id = $1 AND definition_kind = 'flow' AND key = $2 AND status <> 'draft'
   AND source_json -> 'version' = $3::jsonb -> 'version' AND source_json <> $3::jsonb
 LIMIT 1;

-- name: read_definition
-- One definition with what it was made of.
SELECT * FROM assent.workflow_definitions WHERE org_id = $1 AND id = $2;

-- name: list_definitions
-- Versions without their content, by org, kind and key, newest first; null leaves a filter out.
SELECT org_id, id, definition_kind, key, version, entity_type, name, status, compiled_hash, compiler_version,
       created_by, created_at, updated_at
  FROM assent.workflow_definitions
 WHERE ($1::text IS NULL OR org_id = $1) AND ($2::text IS NULL OR definition_kind = $2)
   AND ($3::text IS NULL OR key = $3)
 ORDER BY org_id, definition_kind, key, version DESC;

-- name: archive_if_published
-- Archives one version.
UPDATE assent.workflow_definitions SET status = 'archived', updated_at = $3
 WHERE org_id = $1 AND id = $2 AND status = 'published'
RETURNING org_id, id, definition_kind, key, version, entity_type, name, status, compiled_hash, compiler_version,
          created_by, created_at, updated_at;

-- name: replace_draft
-- Puts another text into the draft of a key, if there is one, and keeps everybody who wrote it.
UPDATE assent.workflow_definitions AS d
   SET entity_type = r.entity_type, name = r.name, base_ref = r.base_ref, body_patches_json = r.body_patches_json,
       source_json = r.source_json, created_by = r.created_by, updated_at = r.at,
       edited_by = d.edited_by || ARRAY(SELECT unnest(r.edited_by) EXCEPT SELECT unnest(d.edited_by))
  FROM jsonb_to_record($1::jsonb) AS r (
    org_id text, definition_kind text, key text, entity_type text, name text, base_ref jsonb, body_patches_json jsonb,
    source_json jsonb, created_by text, edited_by text[], at timestamptz)
 WHERE d.org_id = r.org_id AND d.definition_kind = r.definition_kind AND d.key = r.key AND d.status = 'draft'
RETURNING d.org_id, d.id, d.definition_kind, d.key, d.version, d.entity_type, d.name, d.status, d.compiled_hash,
          d.compiler_version, d.created_by, d.created_at, d.updated_at;

-- name: delete_if_draft
-- Throws a draft away; what was published stays for ever.
DELETE FROM assent.workflow_definitions WHERE org_id = $1 AND id = $2 AND status = 'draft' RETURNING id;

-- name: needs_two_people
-- Whether an org publishes with four eyes.
SELECT EXISTS (SELECT FROM assent.orgs WHERE org_id = $1 AND settings ->> 'publish' = 'four_eyes');

-- name: read_service_accounts
-- The active service accounts of these names, with the roles and capabilities that steps get which run as them.
SELECT m.user_id, m.roles, ARRAY(
         SELECT DISTINCT c.capability FROM assent.role_capabilities c
          WHERE c.org_id = m.org_id AND c.role = ANY (m.roles) ORDER BY c.capability) AS capabilities
  FROM assent.members m
 WHERE m.org_id = $1 AND m.user_id = ANY ($2::text[]) AND m.kind = 'service_account' AND m.active;

-- name: find_stale
-- Definitions of another compiler version that are still in use: published, or with instances that have not ended.
-- The archived come first, so that the published ones get the highest versions.
SELECT d.org_id, d.id
  FROM assent.workflow_definitions d
 WHERE d.definition_kind IN ('effective', 'flow') AND d.status <> 'draft' AND d.compiler_version <> $1
   AND (d.status = 'published' OR EXISTS (
     SELECT FROM assent.workflow_instances i
      WHERE i.definition_id = d.id AND d.org_id IN (i.org_id, '*') AND i.status IN ('running', 'paused')))
 ORDER BY d.status = 'published', d.org_id, d.definition_kind, d.key, d.version;

-- name: find_pinned
-- Instances that have not ended and are pinned to a definition, in the order of their ids, after one of them.
SELECT i.org_id, i.id, i.definition_version, i.definition_hash
  FROM assent.workflow_instances i
 WHERE i.definition_id = $2 AND $1::text IN (i.org_id, '*') AND i.status IN ('running', 'paused')
   AND ($3::text IS NULL OR (i.org_id, i.id) > ($3, $4::uuid))
 ORDER BY i.org_id, i.id
 LIMIT $5;

-- name: page_of_definitions
-- Versions without their content, newest first: those that an org sees, its own and everybody's; of one kind, key, status,
-- entity type, or of its own only, where these are given.
SELECT org_id, id, definition_kind, key, version, entity_type, name, status, compiled_hash, compiler_version,
       created_by, created_at, updated_at
  FROM assent.workflow_definitions
 WHERE org_id IN ($1, CASE WHEN $6::boolean THEN $1 ELSE '*' END)
   AND ($2::text IS NULL OR definition_kind = $2) AND ($3::text IS NULL OR key = $3)
   AND ($4::text IS NULL OR status = $4) AND ($5::text IS NULL OR entity_type = $5)
   AND ($7::uuid IS NULL OR id < $7)
 ORDER BY id DESC LIMIT $8;

-- name: read_definition_seen
-- One definition with what it was made of: an org's own, else everybody's.
SELECT * FROM assent.workflow_definitions WHERE org_id IN ($1, '*') AND id = $2 ORDER BY org_id = '*' LIMIT 1;

-- name: find_draft
-- The draft of a key.
SELECT id FROM assent.workflow_definitions
 WHERE org_id = $1 AND definition_kind = $2 AND key = $3 AND status = 'draft';

-- name: read_contracts
-- Every version of these contracts.
SELECT key, version, source_json -> 'contract' AS contract FROM assent.workflow_definitions
 WHERE org_id = '*' AND definition_kind = 'envelope' AND key = ANY ($1::text[]) ORDER BY key, version;
