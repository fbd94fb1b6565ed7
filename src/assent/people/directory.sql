-- name: find_people_with_roles
-- Users with each role, those who have left as well, in the order of their ids.
SELECT m.org_id, asked.role AS wanted, m.user_id, m.active, m.email, m.kind
  FROM unnest($1::text[], $2::text[]) AS asked (org_id, role)
  JOIN assent.members m ON m.org_id = asked.org_id AND m.roles @> ARRAY[asked.role] AND m.kind = 'user'
 ORDER BY m.user_id;

-- name: find_people_by_id
-- Members by id, whatever they are.
SELECT m.org_id, m.user_id AS wanted, m.user_id, m.active, m.email, m.kind
  FROM unnest($1::text[], $2::text[]) AS asked (org_id, user_id)
  JOIN assent.members m ON m.org_id = asked.org_id AND m.user_id = asked.user_id;

-- name: find_managers
-- The line of managers above each, the nearest first. A line that returns to a member in it ends there.
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
SELECT m.org_id, line.wanted, m.user_id, m.active, m.email, m.kind
  FROM line JOIN assent.members m ON m.org_id = line.org_id AND m.user_id = line.manager_id
 ORDER BY line.level;

-- name: read_actors
-- The rights that people have now. Roles that came with a command count where the org keeps no such member, and a
-- member who was deactivated has none.
SELECT asked.org_id, asked.id, coalesce(m.kind, asked.kind) AS kind, held.roles,
       ARRAY(SELECT DISTINCT c.capability FROM assent.role_capabilities c
              WHERE c.org_id = asked.org_id AND c.role = ANY (held.roles)) AS capabilities
  FROM jsonb_to_recordset($1::jsonb) AS asked (org_id text, id text, kind text, roles text[])
  LEFT JOIN assent.members m ON m.org_id = asked.org_id AND m.user_id = asked.id
 CROSS JOIN LATERAL (
    SELECT CASE WHEN m.active THEN m.roles WHEN m.user_id IS NULL THEN asked.roles ELSE '{}' END AS roles) AS held;
