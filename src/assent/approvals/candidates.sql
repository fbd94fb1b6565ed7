-- name: find_roles_that_may
-- The roles of orgs that carry a capability, by itself or by a wider one.
SELECT DISTINCT c.org_id, asked.capability, c.role
  FROM unnest($1::text[], $2::text[], $3::text[]) AS asked (org_id, capability, granted)
  JOIN assent.role_capabilities c ON c.org_id = asked.org_id AND c.capability = asked.granted
 ORDER BY c.role;

-- name: lock_turns
-- Waits until no other transaction is assigning turns of these roles. Locks the role and not rows: a member who had no
-- turn yet has no row.
SELECT pg_advisory_xact_lock(hashtextextended(org_id || ' ' || role, 1))
  FROM (SELECT * FROM unnest($1::text[], $2::text[]) AS asked (org_id, role) ORDER BY 1, 2) AS in_order;

-- name: read_turns
-- When each had a turn last. In a statement of its own, so that it sees what was written while the lock was waited for.
SELECT t.org_id, t.role, t.user_id, t.last_at
  FROM unnest($1::text[], $2::text[]) AS asked (org_id, role)
  JOIN assent.approval_turns t ON t.org_id = asked.org_id AND t.role = asked.role;

-- name: keep_turns
-- Whose turn it was now.
INSERT INTO assent.approval_turns AS t (org_id, role, user_id, last_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[])
ON CONFLICT (org_id, role, user_id) DO UPDATE SET last_at = excluded.last_at;

-- name: find_contributors
-- The people who contributed to the content of entities since the last approval of them that was applied.
SELECT asked.org_id, asked.entity_id, array_agg(DISTINCT a.person) AS people
  FROM unnest($1::text[], $2::uuid[]) AS asked (org_id, entity_id)
 CROSS JOIN LATERAL (
    SELECT coalesce(max(r.entity_version), 0) AS version FROM assent.approval_requests r
     WHERE r.org_id = asked.org_id AND r.entity_id = asked.entity_id AND r.applied_at IS NOT NULL) AS approved
 CROSS JOIN LATERAL (
    SELECT unnest(o.contributors) AS person FROM assent.audit_log o
     WHERE o.org_id = asked.org_id AND o.entity_id = asked.entity_id AND o.to_version > approved.version
    OFFSET 0) AS a
 GROUP BY asked.org_id, asked.entity_id;
