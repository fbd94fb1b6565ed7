-- name: find_people_with_roles
-- Users with each role, those who have left as well, in the order of their ids.
SELECT m.org_id, asked.role AS wanted, m.user_id, m.active, m.email
  FROM unnest($1::text[], $2::text[]) AS asked (org_id, role)
  JOIN assent.members m ON m.org_id = asked.org_id AND m.roles @> ARRAY[asked.role] AND m.kind = 'user'
 ORDER BY m.user_id;

-- name: find_people_by_id
-- Members by id, whatever they are.
SELECT m.org_id, m.user_id AS wanted, m.user_id, m.active, m.email
  FROM unnest($1::text[], $2::text[]) AS asked (org_id, user_id)
  JOIN assent.members m ON m.org_id = asked.org_id AND m.user_id = asked.user_id;

-- name: find_managers
-- The line of managers above each, the nearest first. One that comes back to somebody ends there.
WITH RECURSIVE line AS (
  SELECT m.org_id, m.user_id AS wanted, m.manager_id, 1 AS level, ARRAY[m.user_id] AS below
    FROM unnest($1::text[], $2::text[]) AS asked (org_id, user_id)
    JOIN assent.members m ON m.org_id = asked.org_id AND m.user_id = asked.user_id
   WHERE m.manager_id IS NOT NULL
  UNION ALL
  SELECT m.org_id, line.wanted, m.manager_id, line.level + 1, line.below || m.user_id
    FROM line JOIN assent.members m ON m.org_id = line.org_id AND m.user_id = line.manager_id
   WHERE m.manager_id <> ALL (line.below || m.user_id) AND line.level < $3
)
SELECT m.org_id, line.wanted, m.user_id, m.active, m.email
  FROM line JOIN assent.members m ON m.org_id = line.org_id AND m.user_id = line.manager_id
 ORDER BY line.level;
