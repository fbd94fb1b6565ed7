-- name: insert_delegation
-- Records that one member stands in for another.
INSERT INTO assent.approval_delegations (org_id, id, from_user, to_user, starts_at, ends_at, entity_types, workflows,
       reason, created_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
RETURNING *;

-- name: revoke_delegation_if_open
-- Ends a delegation if the actor ($4) is the person who is stood in for, or has the right to end any ($5).
UPDATE assent.approval_delegations SET revoked_at = $3
 WHERE org_id = $1 AND id = $2 AND revoked_at IS NULL AND (from_user = $4 OR $5::boolean)
RETURNING *;

-- name: read_delegation
-- One delegation.
SELECT * FROM assent.approval_delegations WHERE org_id = $1 AND id = $2;

-- name: list_delegations
-- An org's delegations, the newest first: of or to one person, and open at a time, where these are given.
SELECT * FROM assent.approval_delegations
 WHERE org_id = $1 AND ($2::text IS NULL OR $2 IN (from_user, to_user))
   AND ($3::timestamptz IS NULL OR (revoked_at IS NULL AND (ends_at IS NULL OR ends_at > $3)))
   AND ($4::uuid IS NULL OR id < $4)
 ORDER BY id DESC LIMIT $5::bigint;

-- name: load_delegations
-- The delegations by which these people may act for others at a time.
SELECT d.org_id, d.id, d.from_user, d.to_user, d.entity_types, d.workflows
  FROM unnest($1::text[], $2::text[]) AS asked (org_id, user_id)
  JOIN assent.approval_delegations d ON d.org_id = asked.org_id AND d.to_user = asked.user_id
 WHERE d.revoked_at IS NULL AND d.starts_at <= $3 AND (d.ends_at IS NULL OR d.ends_at > $3)
 ORDER BY d.id;

-- name: find_away
-- Those of these people who have delegated everything to another person at a time.
SELECT DISTINCT d.org_id, d.from_user
  FROM unnest($1::text[], $2::text[]) AS asked (org_id, user_id)
  JOIN assent.approval_delegations d ON d.org_id = asked.org_id AND d.from_user = asked.user_id
 WHERE d.revoked_at IS NULL AND d.starts_at <= $3 AND (d.ends_at IS NULL OR d.ends_at > $3)
   AND d.entity_types = '{}' AND d.workflows = '{}';
