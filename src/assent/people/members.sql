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
-- Inserts a member; nothing if a member has this id.
INSERT INTO assent.members (org_id, user_id, kind, name, email, roles, manager_id, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6::text[], $7, $8, $8)
ON CONFLICT (org_id, user_id) DO NOTHING
RETURNING user_id, kind, name, email, roles, manager_id, active, created_at, updated_at;

-- name: find_look_alike
-- A member, or the engine itself, whose id a reader takes for this one.
SELECT user_id FROM (
    SELECT user_id FROM assent.members WHERE org_id = $1 AND assent.skeleton_of_id(user_id) = assent.skeleton_of_id($2)
    UNION ALL
    SELECT user_id FROM assent.members WHERE org_id = $1 AND lower(user_id COLLATE "C") = lower($2::text COLLATE "C")
    UNION ALL
    SELECT 'system' WHERE assent.skeleton_of_id('system') = assent.skeleton_of_id($2)) AS found
 WHERE user_id <> $2
 LIMIT 1;

-- name: is_above
-- Whether a member is in the line of managers above any of these members.
WITH RECURSIVE line AS (
  SELECT manager_id FROM assent.members WHERE org_id = $1 AND user_id = ANY ($2::text[])
  UNION
  SELECT m.manager_id FROM line JOIN assent.members m ON m.org_id = $1 AND m.user_id = line.manager_id
)
SELECT EXISTS (SELECT FROM line WHERE manager_id = $3);

-- name: revoke_keys_of_member
-- Revokes the API keys of a member and all keys that were made with them, and with those.
WITH RECURSIVE ended AS (
  SELECT id FROM assent.api_keys WHERE org_id = $1 AND user_id = $2
  UNION
  SELECT k.id FROM ended JOIN assent.api_keys k ON k.org_id = $1 AND k.parent_id = ended.id
)
UPDATE assent.api_keys k SET revoked_at = $3 FROM ended
 WHERE k.org_id = $1 AND k.id = ended.id AND k.revoked_at IS NULL;

-- name: update_member
-- Everything of a member that may change.
UPDATE assent.members SET name = $3, email = $4, roles = $5::text[], manager_id = $6, active = $7, updated_at = $8
 WHERE org_id = $1 AND user_id = $2
RETURNING user_id, kind, name, email, roles, manager_id, active, created_at, updated_at;
