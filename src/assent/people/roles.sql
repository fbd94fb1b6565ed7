-- name: list_roles
-- Every role that a member holds or that carries a capability, by name, with its capabilities and how many hold it.
SELECT names.role, coalesce(carried.capabilities, '{}') AS capabilities, coalesce(held.members, 0) AS members
  FROM (SELECT role FROM assent.role_capabilities WHERE org_id = $1
        UNION SELECT unnest(roles) FROM assent.members WHERE org_id = $1) AS names (role)
  LEFT JOIN (SELECT role, array_agg(capability ORDER BY capability) AS capabilities FROM assent.role_capabilities
              WHERE org_id = $1 GROUP BY role) AS carried USING (role)
  LEFT JOIN (SELECT role, count(*)::integer AS members FROM assent.members, unnest(roles) AS role
              WHERE org_id = $1 AND active GROUP BY role) AS held USING (role)
 WHERE ($2::text IS NULL OR names.role = $2) AND ($3::text IS NULL OR names.role > $3)
 ORDER BY names.role LIMIT $4;

-- name: lock_grants
-- One transaction of an org at a time gives or takes: roles, what they carry, members, API keys.
SELECT pg_advisory_xact_lock(hashtextextended('assent.grants:' || $1::text, 0));

-- name: read_carried
-- What these roles carry together.
SELECT DISTINCT capability FROM assent.role_capabilities WHERE org_id = $1 AND role = ANY ($2::text[]);

-- name: rank_administrators
-- Who holds everything: 2 where a person does, 1 where only service accounts do, 0 where no member does.
SELECT coalesce(max(CASE m.kind WHEN 'user' THEN 2 ELSE 1 END), 0)
  FROM assent.members m JOIN assent.role_capabilities c ON c.org_id = m.org_id AND c.role = ANY (m.roles)
 WHERE m.org_id = $1 AND m.active AND c.capability = $2;

-- name: drop_capabilities_but
-- What a role carries no more.
DELETE FROM assent.role_capabilities WHERE org_id = $1 AND role = $2 AND capability <> ALL ($3::text[]);

-- name: put_capabilities
-- What a role carries, besides what it carried already.
INSERT INTO assent.role_capabilities (org_id, role, capability)
SELECT $1, $2, capability FROM unnest($3::text[]) AS capability
ON CONFLICT DO NOTHING;
