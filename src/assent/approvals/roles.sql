-- name: list_roles
-- Every role that somebody holds or that carries something, by name, with its capabilities and how many hold it.
SELECT names.role, coalesce(carried.capabilities, '{}') AS capabilities, coalesce(held.members, 0) AS members
  FROM (SELECT role FROM assent.role_capabilities WHERE org_id = $1
        UNION SELECT unnest(roles) FROM assent.members WHERE org_id = $1) AS names (role)
  LEFT JOIN (SELECT role, array_agg(capability ORDER BY capability) AS capabilities FROM assent.role_capabilities
              WHERE org_id = $1 GROUP BY role) AS carried USING (role)
  LEFT JOIN (SELECT role, count(*)::integer AS members FROM assent.members, unnest(roles) AS role
              WHERE org_id = $1 AND active GROUP BY role) AS held USING (role)
 WHERE ($2::text IS NULL OR names.role = $2) AND ($3::text IS NULL OR names.role > $3)
 ORDER BY names.role LIMIT $4;

-- name: lock_role
-- One at a time says what a role carries.
SELECT pg_advisory_xact_lock(hashtextextended('assent.roles:' || $1::text || ':' || $2::text, 0));

-- name: drop_capabilities_but
-- What a role carries no more.
DELETE FROM assent.role_capabilities WHERE org_id = $1 AND role = $2 AND capability <> ALL ($3::text[]);

-- name: put_capabilities
-- What a role carries, besides what it carried already.
INSERT INTO assent.role_capabilities (org_id, role, capability)
SELECT $1, $2, capability FROM unnest($3::text[]) AS capability
ON CONFLICT DO NOTHING;
