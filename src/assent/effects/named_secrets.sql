-- name: put_secret
-- Keeps a secret, in place of the one of this name.
INSERT INTO assent.named_secrets AS s (org_id, name, value, hosts, created_by, created_at, changed_at)
VALUES ($1, $2, $3, $4::text[], $5, $6, $6)
ON CONFLICT (org_id, name) DO UPDATE SET value = excluded.value, hosts = excluded.hosts, changed_at = excluded.changed_at
RETURNING s.name, s.hosts, s.created_by, s.created_at, s.changed_at;

-- name: list_secrets
-- The secrets of an org by name, without their values.
SELECT name, hosts, created_by, created_at, changed_at FROM assent.named_secrets
 WHERE org_id = $1 AND ($2::text IS NULL OR name > $2) ORDER BY name LIMIT $3;

-- name: delete_secret
-- Forgets a secret.
DELETE FROM assent.named_secrets WHERE org_id = $1 AND name = $2
RETURNING name, hosts, created_by, created_at, changed_at;
