-- name: insert_api_key_if_allowed
-- Inserts a key of an active member; only its hash is stored. Nothing if the key that makes it is no longer valid.
INSERT INTO assent.api_keys (org_id, id, user_id, name, prefix, key_hash, scopes, created_at, expires_at, partition_id,
       parent_id, created_by)
SELECT $1, $2, $3, $4, $5, $6, $7::text[], $8, $9, $10, $11::uuid, $12
 WHERE $11::uuid IS NULL
    OR EXISTS (SELECT FROM assent.api_keys WHERE org_id = $1 AND id = $11 AND revoked_at IS NULL)
RETURNING id;

-- name: count_valid_api_keys
-- How many keys sign a member in now.
SELECT count(*) FROM assent.api_keys
 WHERE org_id = $1 AND user_id = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3);

-- name: page_of_api_keys
-- The keys of a member or of the org, newest first.
SELECT id, user_id, name, prefix, scopes, created_at, expires_at, revoked_at, partition_id, parent_id, created_by
  FROM assent.api_keys
 WHERE org_id = $1 AND ($2::text IS NULL OR user_id = $2) AND ($3::uuid IS NULL OR id < $3)
 ORDER BY id DESC LIMIT $4;

-- name: revoke_api_keys_if_valid
-- Revokes a key and all keys that were made with it, and with those; only a key of the member if the member
-- is given.
WITH RECURSIVE ended AS (
  SELECT id FROM assent.api_keys
   WHERE org_id = $1 AND id = $2 AND revoked_at IS NULL AND ($4::text IS NULL OR user_id = $4)
  UNION
  SELECT k.id FROM ended JOIN assent.api_keys k ON k.org_id = $1 AND k.parent_id = ended.id
)
UPDATE assent.api_keys k SET revoked_at = $3 FROM ended
 WHERE k.org_id = $1 AND k.id = ended.id AND k.revoked_at IS NULL
RETURNING k.id, k.user_id, k.name, k.prefix, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.partition_id, k.parent_id,
       k.created_by;

-- name: find_api_key
-- The key with this hash, in any org, and its member: sign-in knows the key before it knows the org.
SELECT k.org_id, k.id, k.user_id, k.scopes, k.expires_at, k.partition_id, k.created_by, m.active, m.kind, m.roles,
       ARRAY(SELECT DISTINCT c.capability FROM assent.role_capabilities c
              WHERE c.org_id = m.org_id AND c.role = ANY (m.roles)) AS capabilities
  FROM assent.api_keys k JOIN assent.members m ON m.org_id = k.org_id AND m.user_id = k.user_id
 WHERE k.key_hash = $1 AND k.revoked_at IS NULL;
