-- name: find_present
-- Those of these people who are active now and, where a role is named, hold it. A role is held by users only.
SELECT asked.org_id, asked.user_id, asked.role
  FROM unnest($1::text[], $2::text[], $3::text[]) AS asked (org_id, user_id, role)
  JOIN assent.members m ON m.org_id = asked.org_id AND m.user_id = asked.user_id AND m.active
 WHERE asked.role IS NULL OR (m.roles @> ARRAY[asked.role] AND m.kind = 'user');

-- name: find_owners
-- The people whose seats a member may fill at a time: the member and those they stand in for, with whether each is
-- active now and their roles.
SELECT owner.user_id, coalesce(m.active, false) AS present,
       CASE WHEN m.kind = 'user' THEN m.roles ELSE '{}' END AS roles
  FROM (SELECT $2::text AS user_id
        UNION SELECT d.from_user FROM assent.approval_delegations d
               WHERE d.org_id = $1 AND d.to_user = $2 AND d.revoked_at IS NULL AND d.starts_at <= $3
                 AND (d.ends_at IS NULL OR d.ends_at > $3)) AS owner
  LEFT JOIN assent.members m ON m.org_id = $1 AND m.user_id = owner.user_id;

-- name: list_roles_of_open_seats
-- The roles by which these people are asked now.
SELECT DISTINCT s.user_id, substr(s.via, 6) AS role
  FROM assent.workflow_seats s
 WHERE s.org_id = $1 AND s.user_id = ANY ($2::text[]) AND s.status = 'open' AND starts_with(s.via, 'role:');
