-- name: list_members
-- The members of an org by id: those with a role, and those who are active or not, where these are given.
SELECT user_id, kind, name, email, roles, manager_id, active, created_at, updated_at FROM assent.members
 WHERE org_id = $1 AND ($2::text IS NULL OR roles @> ARRAY[$2]) AND ($3::boolean IS NULL OR active = $3)
   AND ($4::text IS NULL OR user_id > $4)
 ORDER BY user_id LIMIT $5;

-- name: read_member
-- One member.
SELECT user_id, kind, name, email, roles, manager_id, active, created_at, updated_at FROM assent.members
 WHERE org_id = $1 AND user_id = $2;

-- name: lock_member
-- One member, who stays as they are until this transaction ends.
SELECT user_id, kind, name, email, roles, manager_id, active, created_at, updated_at FROM assent.members
 WHERE org_id = $1 AND user_id = $2 FOR UPDATE;

-- name: insert_member_if_new
-- A new member; nothing where somebody has this id.
INSERT INTO assent.members (org_id, user_id, kind, name, email, roles, manager_id, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6::text[], $7, $8, $8)
ON CONFLICT (org_id, user_id) DO NOTHING
RETURNING user_id, kind, name, email, roles, manager_id, active, created_at, updated_at;

-- name: update_member
-- Everything of a member that may change.
UPDATE assent.members SET name = $3, email = $4, roles = $5::text[], manager_id = $6, active = $7, updated_at = $8
 WHERE org_id = $1 AND user_id = $2
RETURNING user_id, kind, name, email, roles, manager_id, active, created_at, updated_at;
