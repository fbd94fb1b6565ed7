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
