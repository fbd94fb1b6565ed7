-- name: insert_api_key
-- A new key of a member; only its hash is kept.
INSERT INTO assent.api_keys (org_id, id, user_id, name, prefix, key_hash, scopes, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7::text[], $8, $9);

-- name: list_api_keys
-- The keys of an org, newest first.
SELECT id, user_id, name, prefix, scopes, created_at, expires_at, revoked_at FROM assent.api_keys
 WHERE org_id = $1 ORDER BY id DESC LIMIT $2;

-- name: page_of_api_keys
-- The keys of a member or of the org, newest first.
SELECT id, user_id, name, prefix, scopes, created_at, expires_at, revoked_at FROM assent.api_keys
 WHERE org_id = $1 AND ($2::text IS NULL OR user_id = $2) AND ($3::uuid IS NULL OR id < $3)
 ORDER BY id DESC LIMIT $4;

-- name: revoke_api_key_if_valid
-- From now on nobody signs in with it; only a member's own where the member is given.
UPDATE assent.api_keys SET revoked_at = $3
 WHERE org_id = $1 AND id = $2 AND revoked_at IS NULL AND ($4::text IS NULL OR user_id = $4)
RETURNING id, user_id, name, prefix, scopes, created_at, expires_at, revoked_at;

-- name: find_api_key
-- The key with this hash, in whichever org, and whose it is: sign-in knows the key before it knows the org.
SELECT k.org_id, k.id, k.user_id, k.scopes, k.expires_at, m.active, m.kind, m.roles,
       ARRAY(SELECT DISTINCT c.capability FROM assent.role_capabilities c
              WHERE c.org_id = m.org_id AND c.role = ANY (m.roles)) AS capabilities
  FROM assent.api_keys k JOIN assent.members m ON m.org_id = k.org_id AND m.user_id = k.user_id
 WHERE k.key_hash = $1 AND k.revoked_at IS NULL;
