-- name: read_caller
-- A caller: whether they are an active member, and the capabilities of their roles. The roles are those of the token,
-- and those of the member if the settings say so.
SELECT m.user_id IS NOT NULL AS is_member, coalesce(m.active, true) AS active, coalesce(m.kind, 'user') AS kind,
       held.roles,
       ARRAY(SELECT DISTINCT c.capability FROM assent.role_capabilities c
              WHERE c.org_id = $1 AND c.role = ANY (held.roles)) AS capabilities
  FROM (VALUES ($1::text, $2::text)) AS wanted (org_id, user_id)
  LEFT JOIN assent.members m ON m.org_id = wanted.org_id AND m.user_id = wanted.user_id
 CROSS JOIN LATERAL (
    SELECT CASE WHEN $4::boolean THEN coalesce(m.roles, '{}') ELSE '{}' END || $3::text[] AS roles) AS held;

-- name: is_key_valid
-- Whether an API key was not revoked.
SELECT revoked_at IS NULL FROM assent.api_keys WHERE org_id = $1 AND id = $2;

-- name: is_session_valid
-- Whether a session was not revoked.
SELECT revoked_at IS NULL FROM assent.sessions WHERE org_id = $1 AND id = $2;
